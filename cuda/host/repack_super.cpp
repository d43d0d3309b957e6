#include "host/repack_super.h"

#include <cstring>

#include "host/fragment_place.h"
#include "quant/iq4.h"
#include "quant/k_quants.h"

namespace llminfer::cuda {
namespace {

constexpr SuperFormat formats[] = {
    {WeightType::q4_k, sizeof(quant::BlockQ4K), 0, 8, 4},
    {WeightType::q5_k, sizeof(quant::BlockQ5K), 4, 8, 4},
    {WeightType::q6_k, sizeof(quant::BlockQ6K), 8, 4, 4},
    {WeightType::iq4_xs, sizeof(quant::BlockIq4Xs), 0, 4, 2},
};

/// A block of any of the formats: whole numbers and the bits of its halves.
struct Block256 {
  std::uint8_t levels[256] = {};
  std::uint8_t small[8][2] = {};  // of a group of 32: scale and minimum, or the
                                  // scales of its halves plus 128, or one
  std::uint16_t halves[2] = {};   // d, dmin
};

/// The six-bit scales and minima as they stand in the file.
void store_scales(const Block256& in, std::uint8_t (&scales)[12]) noexcept {
  for (unsigned g = 0; g < 4; ++g) {
    const auto upper = [](int v) { return static_cast<unsigned>(v) >> 4 << 6; };
    scales[g] = static_cast<std::uint8_t>(in.small[g][0] | upper(in.small[g + 4][0]));
    scales[g + 4] = static_cast<std::uint8_t>(in.small[g][1] | upper(in.small[g + 4][1]));
    scales[g + 8] = static_cast<std::uint8_t>((in.small[g + 4][0] & 15U) | (in.small[g + 4][1] & 15U) << 4);
  }
}

template <class Block>
Block256 read_grouped32(const std::byte* from) noexcept {
  const auto block = quant::load_block<Block>(from);
  Block256 out;
  out.halves[0] = block.d;
  out.halves[1] = block.dmin;
  for (unsigned g = 0; g < 8; ++g) {
    out.small[g][0] = static_cast<std::uint8_t>(quant::scale_q4(block.scales, g));
    out.small[g][1] = static_cast<std::uint8_t>(quant::minimum_q4(block.scales, g));
    for (unsigned i = 0; i < 32; ++i) {
      unsigned level = block.qs[32 * (g / 2) + i] >> (4 * (g % 2)) & 15U;
      if constexpr (requires { block.qh; }) level |= (block.qh[i] >> g & 1U) << 4;
      out.levels[32 * g + i] = static_cast<std::uint8_t>(level);
    }
  }
  return out;
}

template <class Block>
void write_grouped32(const Block256& in, std::byte* to) noexcept {
  Block block{};
  block.d = in.halves[0];
  block.dmin = in.halves[1];
  store_scales(in, block.scales);
  for (unsigned i = 0; i < 256; ++i) {
    const unsigned group = i / 32, level = in.levels[i];
    std::uint8_t& q = block.qs[32 * (group / 2) + i % 32];
    q = static_cast<std::uint8_t>(q | (level & 15U) << (4 * (group % 2)));
    if constexpr (requires { block.qh; }) {
      std::uint8_t& h = block.qh[i % 32];
      h = static_cast<std::uint8_t>(h | (level >> 4) << group);
    }
  }
  std::memcpy(to, &block, sizeof(block));
}

Block256 read_q6(const std::byte* from) noexcept {
  const auto block = quant::load_block<quant::BlockQ6K>(from);
  Block256 out;
  out.halves[0] = block.d;
  for (unsigned g = 0; g < 16; ++g) out.small[g / 2][g % 2] = static_cast<std::uint8_t>(block.scales[g] + 128);
  for (unsigned i = 0; i < 256; ++i) {
    const int low = quant::split_nibble(block.ql + 64 * (i / 128), 64, i % 128);
    out.levels[i] = static_cast<std::uint8_t>(low | quant::two_bits(block.qh, i) << 4);
  }
  return out;
}

void write_q6(const Block256& in, std::byte* to) noexcept {
  quant::BlockQ6K block{};
  block.d = in.halves[0];
  for (unsigned g = 0; g < 16; ++g) block.scales[g] = static_cast<std::int8_t>(in.small[g / 2][g % 2] - 128);
  for (unsigned i = 0; i < 256; ++i) {
    const unsigned level = in.levels[i];
    std::uint8_t& low = block.ql[64 * (i / 128) + i % 64];
    low = static_cast<std::uint8_t>(low | (level & 15U) << (i % 128 / 64 * 4));
    std::uint8_t& high = block.qh[32 * (i / 128) + i % 32];
    high = static_cast<std::uint8_t>(high | (level >> 4) << (2 * (i % 128 / 32)));
  }
  std::memcpy(to, &block, sizeof(block));
}

Block256 read_iq4(const std::byte* from) noexcept {
  const auto block = quant::load_block<quant::BlockIq4Xs>(from);
  Block256 out;
  out.halves[0] = block.d;
  for (unsigned g = 0; g < 8; ++g) {
    const unsigned low = block.scales_l[g / 2] >> (4 * (g % 2)) & 15U, high = block.scales_h >> (2 * g) & 3U;
    out.small[g][0] = static_cast<std::uint8_t>((low | high << 4) + 96);  // less 32, plus 128
    for (unsigned i = 0; i < 32; ++i) {
      out.levels[32 * g + i] = static_cast<std::uint8_t>(quant::split_nibble(block.qs + 16 * g, 16, i));
    }
  }
  return out;
}

void write_iq4(const Block256& in, std::byte* to) noexcept {
  quant::BlockIq4Xs block{};
  block.d = in.halves[0];
  for (unsigned g = 0; g < 8; ++g) {
    const unsigned scale = in.small[g][0] - 96U;
    block.scales_l[g / 2] = static_cast<std::uint8_t>(block.scales_l[g / 2] | (scale & 15U) << (4 * (g % 2)));
    block.scales_h = static_cast<std::uint16_t>(block.scales_h | (scale >> 4 & 3U) << (2 * g));
    for (unsigned i = 0; i < 32; ++i) {
      std::uint8_t& q = block.qs[16 * g + i % 16];
      q = static_cast<std::uint8_t>(q | in.levels[32 * g + i] << (i / 16 * 4));
    }
  }
  std::memcpy(to, &block, sizeof(block));
}

Block256 read_block(WeightType type, const std::byte* from) noexcept {
  if (type == WeightType::iq4_xs) return read_iq4(from);
  if (type == WeightType::q4_k) return read_grouped32<quant::BlockQ4K>(from);
  return type == WeightType::q5_k ? read_grouped32<quant::BlockQ5K>(from) : read_q6(from);
}

void write_block(WeightType type, const Block256& in, std::byte* to) noexcept {
  if (type == WeightType::iq4_xs) return write_iq4(in, to);
  if (type == WeightType::q4_k) return write_grouped32<quant::BlockQ4K>(in, to);
  type == WeightType::q5_k ? write_grouped32<quant::BlockQ5K>(in, to) : write_q6(in, to);
}

/// Where the parts of one row's block of 256 columns begin.
template <class Byte>
struct Parts {
  Parts(const FragmentLayout& l, const SuperFormat& f, const Planes<Byte>& p, std::int64_t row, std::int64_t super)
      : levels(p.levels.data() + row / 16 * l.tile_level_bytes + super * 4 * 512),
        high(f.high_bytes == 0 ? nullptr
                               : p.high.data() + row / 16 * l.tile_high_bytes + super * 4 * 32 * f.high_bytes),
        scales(p.scales.data() + row / 16 * l.tile_scale_bytes + super * super_scale_bytes(f)) {}
  Byte* levels;
  Byte* high;
  Byte* scales;
};

/// Bytes of levels and bits in them, of a row and column of the block.
struct LevelPlace {
  LevelPlace(const SuperFormat& f, std::int64_t row, std::int64_t column) noexcept {
    const FragmentPlace p = place_of(row, column % 64);
    const std::int64_t chunk = column / 64, nibble = p.reg + p.element * 4;
    low_byte = chunk * 512 + p.lane * 16 + p.step * 4 + nibble / 2;
    low_bit = nibble % 2 * 4;
    const std::int64_t bit =
        f.high_bytes == 4 ? p.step * 4 + p.reg + p.element * 16 : p.step % 2 * 8 + p.reg * 2 + p.element * 16;
    const std::int64_t word = f.high_bytes == 4 ? 0 : p.step / 2 * 4;
    high_byte = (chunk * 32 + p.lane) * f.high_bytes + word + bit / 8;
    high_bit = bit % 8;
  }
  std::int64_t low_byte, low_bit, high_byte, high_bit;
};

/// Calls f(bytes of the planes, bytes of the block, count) for each scale of a
/// row.
template <class Byte, class Block, class F>
void each_scale(const SuperFormat& format, std::int64_t row, Byte* scales, Block& block, F f) {
  const std::int64_t g = row % 8, second = row % 16 / 8;
  const int group = format.group_bytes, groups = 16 / group;  // of 16 bytes
  for (std::int64_t n = 0; n < 8; ++n) {
    f(scales + n / groups * 128 + g * 16 + n % groups * group + second * (group / 2), block.small[n], group / 2);
  }
  const int bytes = format.super_bytes / 2;
  f(scales + 64 * group + g * format.super_bytes + second * bytes, block.halves, bytes);
}

}  // namespace

const SuperFormat* find_super(WeightType type) noexcept {
  for (const SuperFormat& f : formats) {
    if (f.type == type) return &f;
  }
  return nullptr;
}

void repack_super_rows(const FragmentLayout& l, std::span<const std::byte> file, std::int64_t rows,
                       const Planes<std::byte>& planes) noexcept {
  const SuperFormat& format = *find_super(l.type);
  const std::byte* from = file.data();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t super = 0; super < l.columns / 256; ++super, from += format.block_bytes) {
      const Block256 block = read_block(l.type, from);
      const Parts<std::byte> parts(l, format, planes, row, super);
      each_scale(format, row, parts.scales, block,
                 [](std::byte* to, const void* v, int n) { std::memcpy(to, v, static_cast<std::size_t>(n)); });
      for (std::int64_t i = 0; i < 256; ++i) {
        const LevelPlace at(format, row % 16, i);
        const unsigned level = block.levels[i];
        parts.levels[at.low_byte] |= static_cast<std::byte>((level & 15U) << at.low_bit);
        if (parts.high != nullptr) parts.high[at.high_byte] |= static_cast<std::byte>(level >> 4 << at.high_bit);
      }
    }
  }
}

void unpack_super_rows(const FragmentLayout& l, const Planes<const std::byte>& planes, std::int64_t rows,
                       std::span<std::byte> file) noexcept {
  const SuperFormat& format = *find_super(l.type);
  const unsigned high_mask = format.high_bytes == 8 ? 3 : 1;
  std::byte* to = file.data();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t super = 0; super < l.columns / 256; ++super, to += format.block_bytes) {
      Block256 block;
      const Parts<const std::byte> parts(l, format, planes, row, super);
      each_scale(format, row, parts.scales, block,
                 [](const std::byte* from, void* v, int n) { std::memcpy(v, from, static_cast<std::size_t>(n)); });
      for (std::int64_t i = 0; i < 256; ++i) {
        const LevelPlace at(format, row % 16, i);
        unsigned level = static_cast<unsigned>(parts.levels[at.low_byte]) >> at.low_bit & 15U;
        if (parts.high != nullptr) {
          level |= (static_cast<unsigned>(parts.high[at.high_byte]) >> at.high_bit & high_mask) << 4;
        }
        block.levels[i] = static_cast<std::uint8_t>(level);
      }
      write_block(l.type, block, to);
    }
  }
}

}  // namespace llminfer::cuda
