#include "models/file_weights.h"

#include <algorithm>
#include <chrono>

#include "core/fail.h"
#include "core/fast_hash.h"
#include "core/guard.h"
#include "quant/type_table.h"

namespace llminfer::models {
namespace {

constexpr std::chrono::seconds settling{2};  // file systems count time in steps of up to two seconds

std::size_t row_bytes(WeightType type, std::size_t columns) {
  const WeightTypeInfo& info = describe(type);
  return columns / info.block_size * info.block_bytes;
}

}  // namespace

Result<void> FileWeights::read_rows(backend::WeightId weight, std::int64_t first_row, std::int64_t count,
                                    std::span<std::byte> out) const {
  return core::guard("WeightReader::read_rows", [&] { read(weight, first_row, count, out); });
}

Result<backend::SourceIdentity> FileWeights::identity() const {
  return core::guard("WeightReader::identity", [&]() -> backend::SourceIdentity {
    const std::optional<std::vector<core::FileIdentity>> parts = file_.identity();
    if (!parts) return {};
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const std::int64_t before = std::chrono::nanoseconds(now - settling).count();
    backend::SourceIdentity identity{0, true};
    core::FastHasher hasher;
    for (const core::FileIdentity& part : *parts) {
      hasher.update_value(part);
      identity.settled = identity.settled && part.changed < before && part.modified < before;
    }
    identity.hash = std::max<std::uint64_t>(1, hasher.finish());
    return identity;
  });
}

Result<std::uint64_t> FileWeights::content_hash() const {
  return core::guard("WeightReader::content_hash", [&] { return file_.content_hash(); });
}

void FileWeights::read(backend::WeightId weight, std::int64_t first_row, std::int64_t count,
                       std::span<std::byte> out) const {
  const auto id = static_cast<std::size_t>(weight);
  if (weight < 0 || id >= tensors_.size()) core::fail(ErrorCode::invalid_argument, "weight id is {}", weight);
  const backend::Weight& wanted = graph_->weights[id];
  const format::TensorInfo& tensor = tensors_[id];
  const auto columns = static_cast<std::size_t>(wanted.columns);
  const std::int64_t rows = wanted.rows * wanted.experts;
  if (first_row < 0 || count < 0 || first_row > rows || count > rows - first_row ||
      out.size() != static_cast<std::size_t>(count) * row_bytes(wanted.type, columns)) {
    core::fail(ErrorCode::invalid_argument, "rows {} + {} of '{}' ({} rows) into {} bytes", first_row, count,
               wanted.name, rows, out.size());
  }
  const std::size_t stored_row = row_bytes(tensor.type, columns);
  const std::uint64_t offset = static_cast<std::uint64_t>(first_row) * stored_row;
  if (tensor.type == wanted.type) {
    file_.read(tensor, offset, out);
    return;
  }
  const quant::QuantType* from = quant::find(tensor.type);
  const quant::QuantType* to = quant::find(wanted.type);
  if (from == nullptr || to == nullptr || to->pack_row == nullptr) {
    core::fail(ErrorCode::unsupported_type, "tensor '{}' cannot be converted from {} to {}", tensor.name,
               describe(tensor.type).name, describe(wanted.type).name);
  }
  // Some rows at a time: enough to read in large pieces, little beside the weight itself.
  const std::int64_t step = std::max<std::int64_t>(1, std::int64_t{65536} / std::max<std::int64_t>(1, wanted.columns));
  core::Vector<std::byte> stored(static_cast<std::size_t>(std::min(step, count)) * stored_row, std::byte{}, memory_);
  core::Vector<float> values(columns, 0.0F, memory_);
  const std::size_t packed_row = row_bytes(wanted.type, columns);
  for (std::int64_t done = 0; done < count; done += step) {
    const std::int64_t n = std::min(step, count - done);
    const std::span<std::byte> part = std::span(stored).first(static_cast<std::size_t>(n) * stored_row);
    file_.read(tensor, offset + static_cast<std::uint64_t>(done) * stored_row, part);
    for (std::int64_t r = 0; r < n; ++r) {
      from->unpack_row(part.data() + static_cast<std::size_t>(r) * stored_row, values.data(), columns);
      to->pack_row(values.data(), out.data() + static_cast<std::size_t>(done + r) * packed_row, columns);
    }
  }
}

}  // namespace llminfer::models
