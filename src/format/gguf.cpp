#include "format/gguf.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/checked.h"
#include "core/fail.h"
#include "format/printable.h"

namespace llminfer::format {
namespace {

constexpr std::array<char, 4> magic{'G', 'G', 'U', 'F'};

void check_magic(Cursor& cursor) {
  const auto have = static_cast<std::size_t>(std::min<std::uint64_t>(magic.size(), cursor.size()));
  const std::byte* bytes = cursor.take(have);
  if (have == 0) core::fail(ErrorCode::truncated, "the file is empty");
  if (std::memcmp(bytes, magic.data(), have) != 0) {
    core::fail(ErrorCode::not_gguf, "the file begins with '{}', not with 'GGUF'",
               printable(std::string_view(reinterpret_cast<const char*>(bytes), have)));
  }
  if (have < magic.size()) core::fail(ErrorCode::truncated, "the file has only {} bytes", have);
}

void check_version(std::uint32_t version) {
  if (version == 2 || version == 3) return;
  const std::uint32_t swapped = __builtin_bswap32(version);
  if (swapped >= 1 && swapped <= 3) {
    core::fail(ErrorCode::unsupported_type, "the file is big-endian (GGUF version {}); only little-endian is supported",
               swapped);
  }
  core::fail(ErrorCode::unsupported_type, "GGUF version {} is not supported, only 2 and 3", version);
}

void check_count(const char* what, std::uint64_t count, std::uint64_t limit, std::uint64_t least_bytes,
                 std::uint64_t remaining) {
  if (count > remaining / least_bytes) {
    core::fail(ErrorCode::truncated, "the header promises {} {}, more than the {} bytes left can hold", count, what,
               remaining);
  }
  if (count > limit)
    core::fail(ErrorCode::corrupt, "the header promises {} {}, above the limit of {}", count, what, limit);
}

std::uint32_t alignment_of(const Metadata& metadata) {
  const Value* value = metadata.find("general.alignment");
  if (!value) return 32;
  if (value->type != ValueType::uint32) {
    core::fail(ErrorCode::corrupt, "key 'general.alignment' is of type {}, not uint32", name_of(value->type));
  }
  const auto alignment = static_cast<std::uint32_t>(value->bits);
  if (!core::is_power_of_two(alignment) || alignment < GgufLimits::min_alignment ||
      alignment > GgufLimits::max_alignment) {
    core::fail(ErrorCode::corrupt, "key 'general.alignment' is {}, not a power of two from {} to {}", alignment,
               GgufLimits::min_alignment, GgufLimits::max_alignment);
  }
  return alignment;
}

}  // namespace

GgufPart parse_gguf(const Source& source, std::stop_token stop, bool metadata_only,
                    const std::shared_ptr<core::Memory>& memory) {
  Cursor cursor(source, std::move(stop), memory);
  cursor.check_stop();
  check_magic(cursor);
  check_version(cursor.number<std::uint32_t>());
  const auto tensors = cursor.number<std::uint64_t>();
  const auto keys = cursor.number<std::uint64_t>();
  constexpr std::uint64_t least_key = 8 + 1 + 4 + 1, least_tensor = 8 + 1 + 4 + 8 + 4 + 8;
  check_count("keys", keys, GgufLimits::keys, least_key, cursor.remaining());
  check_count("tensors", tensors, GgufLimits::tensors, least_tensor, cursor.remaining());

  GgufPart part{parse_metadata(cursor, keys), core::StringTable(memory), core::Vector<TensorInfo>(memory)};
  if (!metadata_only) parse_tensors(cursor, tensors, alignment_of(part.metadata), part);
  return part;
}

}  // namespace llminfer::format
