// Reading the header, metadata and tensor table of one GGUF file.
//
//   "GGUF", version u32, tensors u64, keys u64
//   keys:    name (u64 length, bytes), type u32, value    (array: element type u32, count u64, elements)
//   tensors: name, dimensions u32, sizes u64 each (contiguous one first), type u32, offset u64
//   padding to general.alignment (32), then the tensors' data; offsets count from here
#pragma once

#include <stop_token>
#include <vector>

#include "core/string_table.h"
#include "format/cursor.h"
#include "format/metadata.h"
#include "format/model_file.h"

namespace llminfer::format {

/// Bounds that no real file comes near: what a hostile one may cost in memory and time.
struct GgufLimits {
  static constexpr std::uint64_t keys = 65536;
  static constexpr std::uint64_t tensors = 262144;
  static constexpr std::uint64_t key_length = 65535;  // GGUF's own
  static constexpr std::uint64_t tensor_name_length = 1024;
  static constexpr std::uint64_t header_bytes = std::uint64_t{512} << 20;  // all before the data
  static constexpr std::uint64_t dimension = INT32_MAX;
  static constexpr std::uint32_t min_alignment = 8, max_alignment = 1U << 20;
};

struct GgufPart {
  Metadata metadata;
  core::StringTable tensor_names;    // of tensors[i]
  core::Vector<TensorInfo> tensors;  // name and part still unset, role and layer too; offset from the file's start
};

/// `metadata_only`: leaves the tensor table unread.
/// `memory`: of everything that is large.
GgufPart parse_gguf(const Source& source, std::stop_token stop, bool metadata_only = false,
                    const std::shared_ptr<core::Memory>& memory = std::make_shared<core::Memory>());

// The two halves, each in a file of its own.
Metadata parse_metadata(Cursor& cursor, std::uint64_t keys);
void parse_tensors(Cursor& cursor, std::uint64_t count, std::uint32_t alignment, GgufPart& part);

}  // namespace llminfer::format
