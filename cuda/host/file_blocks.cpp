#include "host/file_blocks.h"

#include <cstring>

#include "quant/iq4.h"
#include "quant/k_quants.h"
#include "quant/legacy.h"
#include "quant/mxfp4.h"

namespace llminfer::cuda {
namespace {

std::uint8_t byte_of(unsigned v) noexcept { return static_cast<std::uint8_t>(v); }

/// Ors `v` into a byte: of a block that was zero before.
void put(std::uint8_t& to, unsigned v) noexcept { to = byte_of(to | v); }

/// Formats of 32 columns: nibbles, with a fifth bit or not, under a scale and a minimum or not.
template <class Block>
struct Nibbles {
  static void read(const std::byte* from, FileBlock& out) noexcept {
    const auto block = quant::load_block<Block>(from);
    for (unsigned i = 0; i < 32; ++i) {
      int level = quant::split_nibble(block.qs, 16, i);
      if constexpr (requires { block.qh; }) level = quant::five_bits(block.qh, block.qs, i);
      out.levels[i] = static_cast<std::uint16_t>(level);
    }
    if constexpr (requires { block.e; }) {
      out.d = block.e;
    } else {
      out.d = block.d;
    }
    if constexpr (requires { block.m; }) out.m = block.m;
  }
  static void write(const FileBlock& in, std::byte* to) noexcept {
    Block block{};
    for (unsigned i = 0; i < 32; ++i) {
      put(block.qs[i % 16], (in.levels[i] & 15U) << (i / 16 * 4));
      if constexpr (requires { block.qh; }) put(block.qh[i / 8], static_cast<unsigned>(in.levels[i] >> 4) << (i % 8));
    }
    if constexpr (requires { block.e; }) {
      block.e = byte_of(in.d);
    } else {
      block.d = in.d;
    }
    if constexpr (requires { block.m; }) block.m = in.m;
    std::memcpy(to, &block, sizeof(block));
  }
};

void read_q8(const std::byte* from, FileBlock& out) noexcept {
  const auto block = quant::load_block<quant::BlockQ8_0>(from);
  for (unsigned i = 0; i < 32; ++i) out.levels[i] = static_cast<std::uint16_t>(block.qs[i] + 128);
  out.d = block.d;
}
void write_q8(const FileBlock& in, std::byte* to) noexcept {
  quant::BlockQ8_0 block{};
  for (unsigned i = 0; i < 32; ++i) block.qs[i] = static_cast<std::int8_t>(in.levels[i] - 128);
  block.d = in.d;
  std::memcpy(to, &block, sizeof(block));
}

/// F16 and BF16, 32 at a time.
void read_sixteen(const std::byte* from, FileBlock& out) noexcept { std::memcpy(out.levels, from, 64); }
void write_sixteen(const FileBlock& in, std::byte* to) noexcept { std::memcpy(to, in.levels, 64); }

/// Q4_K and Q5_K.
template <class Block>
struct Grouped32 {
  static void read(const std::byte* from, FileBlock& out) noexcept {
    const auto block = quant::load_block<Block>(from);
    out.d = block.d;
    out.m = block.dmin;
    for (unsigned g = 0; g < 8; ++g) {
      out.scales[g] = byte_of(static_cast<unsigned>(quant::scale_q4(block.scales, g)));
      out.minima[g] = byte_of(static_cast<unsigned>(quant::minimum_q4(block.scales, g)));
      for (unsigned i = 0; i < 32; ++i) {
        unsigned level = block.qs[32 * (g / 2) + i] >> (4 * (g % 2)) & 15U;
        if constexpr (requires { block.qh; }) level |= (block.qh[i] >> g & 1U) << 4;
        out.levels[32 * g + i] = static_cast<std::uint16_t>(level);
      }
    }
  }
  static void write(const FileBlock& in, std::byte* to) noexcept {
    Block block{};
    block.d = in.d;
    block.dmin = in.m;
    const auto upper = [](unsigned v) { return v >> 4 << 6; };
    for (unsigned g = 0; g < 4; ++g) {
      put(block.scales[g], in.scales[g] | upper(in.scales[g + 4]));
      put(block.scales[g + 4], in.minima[g] | upper(in.minima[g + 4]));
      put(block.scales[g + 8], (in.scales[g + 4] & 15U) | (in.minima[g + 4] & 15U) << 4);
    }
    for (unsigned i = 0; i < 256; ++i) {
      const unsigned group = i / 32, level = in.levels[i];
      put(block.qs[32 * (group / 2) + i % 32], (level & 15U) << (4 * (group % 2)));
      if constexpr (requires { block.qh; }) put(block.qh[i % 32], level >> 4 << group);
    }
    std::memcpy(to, &block, sizeof(block));
  }
};

/// Where two_bits() of k_quants.h finds weight i.
void put_two_bits(std::uint8_t* bytes, unsigned i, unsigned v) noexcept {
  put(bytes[32 * (i / 128) + i % 32], v << (2 * (i % 128 / 32)));
}

void read_q2(const std::byte* from, FileBlock& out) noexcept {
  const auto block = quant::load_block<quant::BlockQ2K>(from);
  out.d = block.d;
  out.m = block.dmin;
  for (unsigned g = 0; g < 16; ++g) {
    out.scales[g] = block.scales[g] & 15U;
    out.minima[g] = block.scales[g] >> 4;
  }
  for (unsigned i = 0; i < 256; ++i) out.levels[i] = static_cast<std::uint16_t>(quant::two_bits(block.qs, i));
}
void write_q2(const FileBlock& in, std::byte* to) noexcept {
  quant::BlockQ2K block{};
  block.d = in.d;
  block.dmin = in.m;
  for (unsigned g = 0; g < 16; ++g) block.scales[g] = byte_of(in.scales[g] | static_cast<unsigned>(in.minima[g]) << 4);
  for (unsigned i = 0; i < 256; ++i) put_two_bits(block.qs, i, in.levels[i]);
  std::memcpy(to, &block, sizeof(block));
}

void read_q3(const std::byte* from, FileBlock& out) noexcept {
  const auto block = quant::load_block<quant::BlockQ3K>(from);
  out.d = block.d;
  for (unsigned g = 0; g < 16; ++g)
    out.scales[g] = byte_of(static_cast<unsigned>(quant::scale_q3(block.scales, g) + 32));
  for (unsigned i = 0; i < 256; ++i) {
    const unsigned upper = block.hmask[i % 32] >> (i / 32) & 1U;
    out.levels[i] = static_cast<std::uint16_t>(static_cast<unsigned>(quant::two_bits(block.qs, i)) | upper << 2);
  }
}
void write_q3(const FileBlock& in, std::byte* to) noexcept {
  quant::BlockQ3K block{};
  block.d = in.d;
  for (unsigned g = 0; g < 16; ++g) {
    put(block.scales[g % 8], (in.scales[g] & 15U) << (g / 8 * 4));
    put(block.scales[8 + g % 4], static_cast<unsigned>(in.scales[g] >> 4) << (2 * (g / 4)));
  }
  for (unsigned i = 0; i < 256; ++i) {
    put_two_bits(block.qs, i, in.levels[i] & 3U);
    put(block.hmask[i % 32], static_cast<unsigned>(in.levels[i] >> 2) << (i / 32));
  }
  std::memcpy(to, &block, sizeof(block));
}

void read_q6(const std::byte* from, FileBlock& out) noexcept {
  const auto block = quant::load_block<quant::BlockQ6K>(from);
  out.d = block.d;
  for (unsigned g = 0; g < 16; ++g) out.scales[g] = byte_of(static_cast<unsigned>(block.scales[g] + 128));
  for (unsigned i = 0; i < 256; ++i) {
    const int low = quant::split_nibble(block.ql + 64 * (i / 128), 64, i % 128);
    out.levels[i] = static_cast<std::uint16_t>(low | quant::two_bits(block.qh, i) << 4);
  }
}
void write_q6(const FileBlock& in, std::byte* to) noexcept {
  quant::BlockQ6K block{};
  block.d = in.d;
  for (unsigned g = 0; g < 16; ++g) block.scales[g] = static_cast<std::int8_t>(in.scales[g] - 128);
  for (unsigned i = 0; i < 256; ++i) {
    const unsigned level = in.levels[i];
    put(block.ql[64 * (i / 128) + i % 64], (level & 15U) << (i % 128 / 64 * 4));
    put_two_bits(block.qh, i, level >> 4);
  }
  std::memcpy(to, &block, sizeof(block));
}

void read_iq4(const std::byte* from, FileBlock& out) noexcept {
  const auto block = quant::load_block<quant::BlockIq4Xs>(from);
  out.d = block.d;
  for (unsigned g = 0; g < 8; ++g) {
    const unsigned low = block.scales_l[g / 2] >> (4 * (g % 2)) & 15U, high = block.scales_h >> (2 * g) & 3U;
    out.scales[g] = byte_of((low | high << 4) + 96);  // less 32, plus 128
    for (unsigned i = 0; i < 32; ++i) {
      out.levels[32 * g + i] = static_cast<std::uint16_t>(quant::split_nibble(block.qs + 16 * g, 16, i));
    }
  }
}
void write_iq4(const FileBlock& in, std::byte* to) noexcept {
  quant::BlockIq4Xs block{};
  block.d = in.d;
  for (unsigned g = 0; g < 8; ++g) {
    const unsigned scale = in.scales[g] - 96U;
    put(block.scales_l[g / 2], (scale & 15U) << (4 * (g % 2)));
    block.scales_h = static_cast<std::uint16_t>(block.scales_h | (scale >> 4 & 3U) << (2 * g));
    for (unsigned i = 0; i < 32; ++i) {
      put(block.qs[16 * g + i % 16], static_cast<unsigned>(in.levels[32 * g + i]) << (i / 16 * 4));
    }
  }
  std::memcpy(to, &block, sizeof(block));
}

template <class Block>
constexpr FileFormat nibbles(WeightType type, LevelBits levels, ScaleBits scales) {
  return {type, 32, sizeof(Block), levels, scales, MinimumBits::none, 0, &Nibbles<Block>::read, &Nibbles<Block>::write};
}
template <class Block>
constexpr FileFormat grouped(WeightType type, LevelBits levels) {
  return {type,
          256,
          sizeof(Block),
          levels,
          ScaleBits::byte,
          MinimumBits::byte,
          8,
          &Grouped32<Block>::read,
          &Grouped32<Block>::write};
}

using enum LevelBits;
constexpr FileFormat formats[] = {
    nibbles<quant::BlockQ4_0>(WeightType::q4_0, four, ScaleBits::half),
    nibbles<quant::BlockQ4_1>(WeightType::q4_1, four, ScaleBits::half_minimum),
    nibbles<quant::BlockQ5_0>(WeightType::q5_0, five, ScaleBits::half),
    nibbles<quant::BlockQ5_1>(WeightType::q5_1, five, ScaleBits::half_minimum),
    nibbles<quant::BlockIq4Nl>(WeightType::iq4_nl, table, ScaleBits::half),
    nibbles<quant::BlockMxfp4>(WeightType::mxfp4, table, ScaleBits::byte),
    {WeightType::q8_0, 32, sizeof(quant::BlockQ8_0), eight, ScaleBits::half, MinimumBits::none, 0, &read_q8, &write_q8},
    {WeightType::f16, 32, 64, sixteen, ScaleBits::none, MinimumBits::none, 0, &read_sixteen, &write_sixteen},
    {WeightType::bf16, 32, 64, sixteen, ScaleBits::none, MinimumBits::none, 0, &read_sixteen, &write_sixteen},
    {WeightType::q2_k, 256, sizeof(quant::BlockQ2K), two, ScaleBits::nibble, MinimumBits::nibble, 16, &read_q2,
     &write_q2},
    {WeightType::q3_k, 256, sizeof(quant::BlockQ3K), three, ScaleBits::six_bits, MinimumBits::none, 16, &read_q3,
     &write_q3},
    grouped<quant::BlockQ4K>(WeightType::q4_k, four),
    grouped<quant::BlockQ5K>(WeightType::q5_k, five),
    {WeightType::q6_k, 256, sizeof(quant::BlockQ6K), six, ScaleBits::two_bytes, MinimumBits::none, 16, &read_q6,
     &write_q6},
    {WeightType::iq4_xs, 256, sizeof(quant::BlockIq4Xs), table, ScaleBits::byte, MinimumBits::none, 8, &read_iq4,
     &write_iq4},
};

}  // namespace

const FileFormat* find_file_format(WeightType type) noexcept {
  for (const FileFormat& f : formats) {
    if (f.type == type) return &f;
  }
  return nullptr;
}

}  // namespace llminfer::cuda
