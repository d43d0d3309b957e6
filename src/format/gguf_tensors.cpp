#include <algorithm>
#include <numeric>

#include "core/checked.h"
#include "core/fail.h"
#include "format/gguf.h"
#include "format/printable.h"
#include "quant/type_table.h"

namespace llminfer::format {
namespace {

// Types that files may hold and this library does not read, so that the message can say more than a number.
struct ForeignType {
  std::uint32_t id;
  const char* name;
};
constexpr ForeignType foreign_types[] = {
    {9, "Q8_1"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
    {21, "IQ3_S"}, {22, "IQ2_S"}, {24, "I8"},      {25, "I16"},    {26, "I32"},     {27, "I64"},
    {28, "F64"},   {29, "IQ1_M"}, {34, "TQ1_0"},   {35, "TQ2_0"},  {40, "NVFP4"},
};

std::string type_text(std::uint32_t id) {
  for (const ForeignType& type : foreign_types) {
    if (type.id == id) return fmt::format("{} ({})", id, type.name);
  }
  return fmt::format("{}", id);
}

[[noreturn]] void fail_tensor(ErrorCode code, std::string_view name, const std::string& what) {
  core::fail(code, "tensor '{}' {}", printable(name), what);
}

std::string read_name(Cursor& cursor, std::uint64_t index) {
  cursor.set_subject("tensor table", {});
  const auto length = cursor.number<std::uint64_t>();
  if (length == 0) core::fail(ErrorCode::corrupt, "tensor {} has a name of length 0", index);
  if (length > GgufLimits::tensor_name_length) {
    core::fail(ErrorCode::corrupt, "tensor {} has a name of length {}, above the limit of {}", index, length,
               GgufLimits::tensor_name_length);
  }
  std::string name;
  cursor.append_to(name, length);
  return name;
}

void read_dimensions(Cursor& cursor, std::string_view name, TensorInfo& tensor) {
  const auto n_dims = cursor.number<std::uint32_t>();
  if (n_dims < 1 || n_dims > tensor.dims.size()) {
    fail_tensor(ErrorCode::corrupt, name, fmt::format("has {} dimensions, not 1 to 4", n_dims));
  }
  tensor.n_dims = static_cast<int>(n_dims);
  for (std::uint32_t i = 0; i < n_dims; ++i) {
    tensor.dims[i] = cursor.number<std::uint64_t>();
    if (tensor.dims[i] < 1 || tensor.dims[i] > GgufLimits::dimension) {
      fail_tensor(
          ErrorCode::corrupt, name,
          fmt::format("has the size {} in dimension {}, not 1 to {}", tensor.dims[i], i, GgufLimits::dimension));
    }
  }
}

// Bytes of the whole tensor; the product of its dimensions then fits 64 bits as well.
std::uint64_t byte_count(const quant::QuantType& type, std::string_view name, const TensorInfo& tensor) {
  const WeightTypeInfo& info = type.info;
  if (tensor.dims[0] % info.block_size != 0) {
    fail_tensor(ErrorCode::corrupt, name,
                fmt::format("of type {} has rows of {} weights, no multiple of {}", info.name, tensor.dims[0],
                            info.block_size));
  }
  std::optional<std::uint64_t> bytes = tensor.dims[0] / info.block_size * info.block_bytes;
  std::optional<std::uint64_t> elements = tensor.dims[0];
  for (std::size_t i = 1; i < tensor.dims.size() && bytes && elements; ++i) {
    bytes = core::checked_mul(*bytes, tensor.dims[i]);
    elements = core::checked_mul(*elements, tensor.dims[i]);
  }
  if (!bytes || !elements) {
    fail_tensor(ErrorCode::corrupt, name,
                fmt::format("has the shape [{}], whose product does not fit 64 bits", fmt::join(tensor.dims, ", ")));
  }
  return *bytes;
}

TensorInfo read_tensor(Cursor& cursor, std::uint64_t index, std::uint32_t alignment, core::StringTable& names) {
  const std::string name = read_name(cursor, index);
  cursor.set_subject("tensor", name);
  TensorInfo tensor;
  read_dimensions(cursor, name, tensor);
  const auto type_id = cursor.number<std::uint32_t>();
  const quant::QuantType* type = quant::find_gguf(type_id);
  if (!type) {
    fail_tensor(ErrorCode::unsupported_type, name,
                fmt::format("has the type {}, which is not supported", type_text(type_id)));
  }
  tensor.type = type->info.type;
  tensor.bytes = byte_count(*type, name, tensor);
  tensor.offset = cursor.number<std::uint64_t>();
  if (tensor.offset % alignment != 0) {
    fail_tensor(ErrorCode::corrupt, name,
                fmt::format("has the offset {}, no multiple of the alignment {}", tensor.offset, alignment));
  }
  names.push_back(name);
  cursor.set_subject("tensor table", {});
  return tensor;
}

// Turns offsets within the data into offsets within the file.
void place(GgufPart& part, std::uint64_t data, std::uint64_t file_size) {
  for (std::size_t i = 0; i < part.tensors.size(); ++i) {
    TensorInfo& tensor = part.tensors[i];
    const std::optional<std::uint64_t> start = core::checked_add(data, tensor.offset);
    const std::optional<std::uint64_t> end = start ? core::checked_add(*start, tensor.bytes) : std::nullopt;
    if (!end) {
      fail_tensor(
          ErrorCode::corrupt, part.tensor_names[i],
          fmt::format("of {} bytes has the offset {}, whose sum does not fit 64 bits", tensor.bytes, tensor.offset));
    }
    if (*end > file_size) {
      fail_tensor(ErrorCode::truncated, part.tensor_names[i],
                  fmt::format("of {} bytes at offset {} ends at byte {}, but the file has only {}", tensor.bytes,
                              tensor.offset, *end, file_size));
    }
    tensor.offset = *start;
  }
}

void check_overlap(const GgufPart& part) {
  std::vector<std::uint32_t> order(part.tensors.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return part.tensors[a].offset < part.tensors[b].offset; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const TensorInfo& before = part.tensors[order[i - 1]];
    const TensorInfo& tensor = part.tensors[order[i]];
    if (before.offset + before.bytes <= tensor.offset) continue;
    fail_tensor(ErrorCode::corrupt, part.tensor_names[order[i]],
                fmt::format("begins at byte {}, inside tensor '{}', which ends at byte {}", tensor.offset,
                            printable(part.tensor_names[order[i - 1]]), before.offset + before.bytes));
  }
}

}  // namespace

void parse_tensors(Cursor& cursor, std::uint64_t count, std::uint32_t alignment, GgufPart& part) {
  for (std::uint64_t i = 0; i < count; ++i) {
    part.tensors.push_back(read_tensor(cursor, i, alignment, part.tensor_names));
    if (cursor.position() > GgufLimits::header_bytes) {
      core::fail(ErrorCode::corrupt, "the header is longer than the limit of {} bytes", GgufLimits::header_bytes);
    }
  }
  // Position and alignment are far below the range of 64 bits.
  const std::uint64_t data = (cursor.position() + alignment - 1) / alignment * alignment;
  place(part, data, cursor.size());
  check_overlap(part);
}

}  // namespace llminfer::format
