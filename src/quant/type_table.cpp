#include "quant/type_table.h"

#include <limits>

#include "core/fail.h"
#include "quant/floats.h"
#include "quant/iq4.h"
#include "quant/k_quants.h"
#include "quant/legacy.h"
#include "quant/legacy_pack.h"
#include "quant/mxfp4.h"

namespace llminfer::quant {
namespace {

template <class Block>
constexpr QuantType format(WeightType type, std::string_view name, std::uint32_t gguf_id) {
  QuantType row{{type, name, Block::weights, sizeof(Block)}, gguf_id, &unpack_row<Block>, nullptr};
  if constexpr (Packable<Block>) row.pack_row = &pack_row<Block>;
  return row;
}

// Numbers: enum ggml_type, which GGUF files store.
constexpr QuantType table[] = {
    format<BlockF32>(WeightType::f32, "F32", 0),          format<BlockF16>(WeightType::f16, "F16", 1),
    format<BlockBf16>(WeightType::bf16, "BF16", 30),      format<BlockQ4_0>(WeightType::q4_0, "Q4_0", 2),
    format<BlockQ4_1>(WeightType::q4_1, "Q4_1", 3),       format<BlockQ5_0>(WeightType::q5_0, "Q5_0", 6),
    format<BlockQ5_1>(WeightType::q5_1, "Q5_1", 7),       format<BlockQ8_0>(WeightType::q8_0, "Q8_0", 8),
    format<BlockQ2K>(WeightType::q2_k, "Q2_K", 10),       format<BlockQ3K>(WeightType::q3_k, "Q3_K", 11),
    format<BlockQ4K>(WeightType::q4_k, "Q4_K", 12),       format<BlockQ5K>(WeightType::q5_k, "Q5_K", 13),
    format<BlockQ6K>(WeightType::q6_k, "Q6_K", 14),       format<BlockIq4Nl>(WeightType::iq4_nl, "IQ4_NL", 20),
    format<BlockIq4Xs>(WeightType::iq4_xs, "IQ4_XS", 23), format<BlockMxfp4>(WeightType::mxfp4, "MXFP4", 39),
};

constexpr WeightTypeInfo no_format{WeightType::as_stored, "as_stored", 0, 0};

// find() takes the row by its number: row i must be the enum's value i + 1.
constexpr bool in_enum_order() {
  std::size_t next = 1;
  for (const QuantType& row : table) {
    if (static_cast<std::size_t>(row.info.type) != next++) return false;
  }
  return true;
}
static_assert(in_enum_order());

}  // namespace

std::span<const QuantType> all_types() noexcept { return table; }

const QuantType* find(WeightType type) noexcept {
  const auto number = static_cast<std::size_t>(type);
  return number >= 1 && number <= std::size(table) ? &table[number - 1] : nullptr;
}

const QuantType* find_gguf(std::uint32_t gguf_id) noexcept {
  for (const QuantType& row : table) {
    if (row.gguf_id == gguf_id) return &row;
  }
  return nullptr;
}

std::optional<std::uint64_t> try_row_bytes(WeightType type, std::uint64_t n) noexcept {
  const QuantType* row = find(type);
  if (row == nullptr || n % row->info.block_size != 0) return std::nullopt;
  const std::uint64_t blocks = n / row->info.block_size;
  if (blocks > std::numeric_limits<std::uint64_t>::max() / row->info.block_bytes) return std::nullopt;
  return blocks * row->info.block_bytes;
}

std::uint64_t row_bytes(WeightType type, std::uint64_t n) {
  if (const auto bytes = try_row_bytes(type, n)) return *bytes;
  const WeightTypeInfo& info = describe(type);
  if (info.block_size == 0) {
    core::fail(ErrorCode::invalid_argument, "weight type {} is no storage format", static_cast<unsigned>(type));
  }
  if (n % info.block_size != 0) {
    core::fail(ErrorCode::invalid_argument, "row of {} weights is no whole number of {} blocks ({} weights each)", n,
               info.name, info.block_size);
  }
  core::fail(ErrorCode::invalid_argument, "row of {} weights of type {} has more bytes than 64 bits count", n,
             info.name);
}

}  // namespace llminfer::quant

namespace llminfer {
inline namespace v0 {

const WeightTypeInfo& describe(WeightType type) noexcept {
  const quant::QuantType* row = quant::find(type);
  return row != nullptr ? row->info : quant::no_format;
}

}  // namespace v0
}  // namespace llminfer
