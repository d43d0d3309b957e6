// From one block to a row of blocks. A block type is a plain struct in the file's byte order (little endian) with
//   static constexpr std::uint32_t weights;             weights per block
//   void unpack(const Block&, float* out) noexcept;     found by its argument's type
//   void pack(const float* in, Block&) noexcept;        optional
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace llminfer::quant {

static_assert(std::endian::native == std::endian::little, "blocks are read in the file's byte order");

/// The block at any address, aligned or not.
template <class Block>
Block load_block(const std::byte* from) noexcept {
  static_assert(std::is_trivially_copyable_v<Block>);
  Block block;
  std::memcpy(&block, from, sizeof(Block));
  return block;
}

/// Expands `n` weights (a multiple of Block::weights) to float32. Addresses of `blocks` need no alignment.
template <class Block>
void unpack_row(const std::byte* blocks, float* out, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; i += Block::weights, blocks += sizeof(Block)) {
    unpack(load_block<Block>(blocks), out + i);
  }
}

/// Rounds `n` weights (a multiple of Block::weights) into blocks. Addresses of `blocks` need no alignment.
template <class Block>
void pack_row(const float* in, std::byte* blocks, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; i += Block::weights, blocks += sizeof(Block)) {
    Block block;
    pack(in + i, block);
    std::memcpy(blocks, &block, sizeof(Block));
  }
}

template <class Block>
concept Packable = requires(const float* in, Block& block) {
  pack(in, block);
};

/// Nibble `i` of 2 * count nibbles: the low halves of all bytes come first, then the high halves.
inline int split_nibble(const std::uint8_t* bytes, unsigned count, unsigned i) noexcept {
  return i < count ? bytes[i] & 0x0f : bytes[i - count] >> 4;
}

}  // namespace llminfer::quant
