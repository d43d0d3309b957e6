// How cached keys and values lie in memory. A page holds 16 tokens: for each layer the key blocks of all heads, then
// the value blocks. A block is one head's 16 rows:
//   f32, f16, bf16   [16][width] values
//   q8_0             for each 32 values of width, which is rounded up: [16][32] int8; then [16][width / 32] f16 scales
//   q4_0             for each 64 values: [16][32] bytes, for 32 that are left: [16][16]; then the scales. Byte i of 16
//                    holds values i (low nibble) and i + 16
// So a row's bytes are whole sectors, and those of 16 rows lie side by side for loads of 512 bytes. Values and scales
// are those of the file formats of the same name. Blocks are multiples of 32 bytes but for narrow plain ones (16 x
// width x size).
#pragma once

#include <cstdint>

#include <llminfer/kv_type.hpp>

namespace llminfer::cuda {

constexpr std::int32_t kv_page = 16;

/// Bytes of a block.
inline std::int64_t kv_block_bytes(KvType type, std::int64_t width) {
  const std::int64_t groups = (width + 31) / 32;
  switch (type) {
    case KvType::f32:
      return kv_page * width * 4;
    case KvType::q8_0:
      return kv_page * groups * 34;
    case KvType::q4_0:
      return kv_page * groups * 18;
    default:
      return kv_page * width * 2;
  }
}

/// One side (keys or values) of one layer.
struct KvSide {
  std::uint8_t* data = nullptr;  ///< the group's pages
  std::int64_t page_bytes = 0;   ///< from page to page
  std::int64_t offset = 0;       ///< of the layer's blocks of this side in a page
  std::int64_t block_bytes = 0;  ///< from head to head
  std::int32_t width = 0;        ///< values of a row
  KvType type = KvType::f16;
};

/// The step's sequences, as attention and cache writes see them. All of one state group.
struct KvStep {
  const std::int32_t* positions = nullptr;    ///< [tokens]; negative: a row without a token, which fills the batch up
  const std::int32_t* sequence_of = nullptr;  ///< [tokens]
  const std::int32_t* last = nullptr;         ///< [sequences]: position of a sequence's last token in this step
  const std::int32_t* pages = nullptr;        ///< page numbers of all sequences
  const std::int32_t* pages_at = nullptr;     ///< [sequences]: where a sequence's pages start in `pages`
  const std::int32_t* longest = nullptr;      ///< [1]: keys of the longest sequence
  const std::int32_t* firsts = nullptr;       ///< [sequences + 1]: a sequence's first row; at the end the rows
};

}  // namespace llminfer::cuda
