// Panels to slabs for every format, block by block through the file's own structs.
#include "device/cpu/portable/float_kernels.h"

#include "quant/floats.h"
#include "quant/iq4.h"
#include "quant/k_quants.h"
#include "quant/legacy.h"
#include "quant/mxfp4.h"

namespace llminfer::cpu::portable {
namespace {

/// 32 weights of one row in the terms of slab.h.
struct Lane {
  int levels[32];
  float d = 0, m = 0, dm = 0;
  int scale[2] = {0, 0};
  int pair[2] = {0, 0};
};

void expand(const quant::BlockQ4_0& block, unsigned, Lane& lane) {
  for (unsigned i = 0; i < 32; ++i) lane.levels[i] = quant::split_nibble(block.qs, 16, i);
  lane.d = core::f16_to_f32(block.d);
}

void expand(const quant::BlockQ4_1& block, unsigned, Lane& lane) {
  for (unsigned i = 0; i < 32; ++i) lane.levels[i] = quant::split_nibble(block.qs, 16, i);
  lane.d = core::f16_to_f32(block.d);
  lane.m = core::f16_to_f32(block.m);
}

void expand(const quant::BlockQ5_0& block, unsigned, Lane& lane) {
  for (unsigned i = 0; i < 32; ++i) lane.levels[i] = quant::five_bits(block.qh, block.qs, i);
  lane.d = core::f16_to_f32(block.d);
}

void expand(const quant::BlockQ5_1& block, unsigned, Lane& lane) {
  for (unsigned i = 0; i < 32; ++i) lane.levels[i] = quant::five_bits(block.qh, block.qs, i);
  lane.d = core::f16_to_f32(block.d);
  lane.m = core::f16_to_f32(block.m);
}

void expand(const quant::BlockQ8_0& block, unsigned, Lane& lane) {
  for (unsigned i = 0; i < 32; ++i) lane.levels[i] = block.qs[i];
  lane.d = core::f16_to_f32(block.d);
}

void expand(const quant::BlockQ4K& block, unsigned group, Lane& lane) {
  for (unsigned i = 0; i < 32; ++i) lane.levels[i] = (block.qs[32 * (group / 2) + i] >> (4 * (group % 2))) & 15;
  lane.d = core::f16_to_f32(block.d) * static_cast<float>(quant::scale_q4(block.scales, group));
  lane.m = -(core::f16_to_f32(block.dmin) * static_cast<float>(quant::minimum_q4(block.scales, group)));
}

void expand(const quant::BlockQ5K& block, unsigned group, Lane& lane) {
  for (unsigned i = 0; i < 32; ++i) {
    const int low = (block.qs[32 * (group / 2) + i] >> (4 * (group % 2))) & 15;
    lane.levels[i] = low | ((block.qh[i] >> group) & 1) << 4;
  }
  lane.d = core::f16_to_f32(block.d) * static_cast<float>(quant::scale_q4(block.scales, group));
  lane.m = -(core::f16_to_f32(block.dmin) * static_cast<float>(quant::minimum_q4(block.scales, group)));
}

void expand(const quant::BlockQ6K& block, unsigned group, Lane& lane) {
  for (unsigned i = 0; i < 32; ++i) {
    const unsigned at = 32 * group + i;
    lane.levels[i] = quant::split_nibble(block.ql + 64 * (at / 128), 64, at % 128) | quant::two_bits(block.qh, at) << 4;
  }
  lane.d = core::f16_to_f32(block.d);
  for (unsigned h = 0; h < 2; ++h) {
    lane.scale[h] = block.scales[2 * group + h];
    lane.pair[h] = -32 * lane.scale[h];
  }
}

void expand(const quant::BlockQ3K& block, unsigned group, Lane& lane) {
  for (unsigned i = 0; i < 32; ++i) {
    const unsigned at = 32 * group + i;
    lane.levels[i] = quant::two_bits(block.qs, at) | ((block.hmask[at % 32] >> (at / 32)) & 1) << 2;
  }
  lane.d = core::f16_to_f32(block.d);
  for (unsigned h = 0; h < 2; ++h) {
    lane.scale[h] = quant::scale_q3(block.scales, 2 * group + h);
    lane.pair[h] = -4 * lane.scale[h];
  }
}

void expand(const quant::BlockQ2K& block, unsigned group, Lane& lane) {
  for (unsigned i = 0; i < 32; ++i) lane.levels[i] = quant::two_bits(block.qs, 32 * group + i);
  lane.d = core::f16_to_f32(block.d);
  lane.dm = -core::f16_to_f32(block.dmin);
  for (unsigned h = 0; h < 2; ++h) {
    lane.scale[h] = block.scales[2 * group + h] & 15;
    lane.pair[h] = block.scales[2 * group + h] >> 4;
  }
}

void expand(const quant::BlockIq4Nl& block, unsigned, Lane& lane) {
  for (unsigned i = 0; i < 32; ++i) lane.levels[i] = quant::iq4_levels[quant::split_nibble(block.qs, 16, i)];
  lane.d = core::f16_to_f32(block.d);
}

void expand(const quant::BlockIq4Xs& block, unsigned group, Lane& lane) {
  const int low = (block.scales_l[group / 2] >> (4 * (group % 2))) & 15;
  const int scale = (low | ((block.scales_h >> (2 * group)) & 3) << 4) - 32;
  for (unsigned i = 0; i < 32; ++i) {
    lane.levels[i] = quant::iq4_levels[quant::split_nibble(block.qs + 16 * group, 16, i)];
  }
  lane.d = core::f16_to_f32(block.d) * static_cast<float>(scale);
}

void expand(const quant::BlockMxfp4& block, unsigned, Lane& lane) {
  for (unsigned i = 0; i < 32; ++i) lane.levels[i] = quant::mxfp4_levels[quant::split_nibble(block.qs, 16, i)] + 12;
  lane.d = quant::half_power_of_two(block.e);
}

template <class Block>
void set_levels(const Lane& lane, int row, Block& block) {
  for (int i = 0; i < 32; ++i) block.levels[i / 4][row][i % 4] = static_cast<std::uint8_t>(lane.levels[i]);
}

void set(const Lane& lane, int row, SlabScaled& block) {
  set_levels(lane, row, block);
  block.d[row] = lane.d;
}

void set(const Lane& lane, int row, SlabMin& block) {
  set_levels(lane, row, block);
  block.d[row] = lane.d;
  block.m[row] = lane.m;
}

void set(const Lane& lane, int row, SlabByte& block) {
  for (int i = 0; i < 32; ++i) block.levels[i % 2][i / 4][row][i % 4 / 2] = static_cast<std::int16_t>(lane.levels[i]);
  block.d[row] = lane.d;
}

void set(const Lane& lane, int row, SlabGroup& block) {
  set_levels(lane, row, block);
  block.d[row] = lane.d;
  block.dm[row] = lane.dm;
  for (int h = 0; h < 2; ++h) {
    block.scale[h][row][0] = block.scale[h][row][1] = static_cast<std::int16_t>(lane.scale[h]);
    block.pair[row][h] = static_cast<std::int16_t>(lane.pair[h]);
  }
}

template <class Block, class SlabBlock>
void unpack_type(const UnpackArgs& args) {
  constexpr unsigned groups = Block::weights / 32;
  for (std::int64_t b = 0; b < args.blocks; ++b) {
    SlabBlock* out = reinterpret_cast<SlabBlock*>(args.slab) + b * groups;
    for (int row = 0; row < panel_rows; ++row) {
      std::byte bytes[sizeof(Block)];
      unpack_blocks(*args.shape, args.panel, row, args.first + b, 1, bytes);
      const Block block = quant::load_block<Block>(bytes);
      for (unsigned group = 0; group < groups; ++group) {
        Lane lane;
        expand(block, group, lane);
        set(lane, row, out[group]);
      }
    }
  }
}

/// 16-bit floats: pairs of columns in one line. An odd last column leaves a row of zeros behind it.
template <float (*convert)(std::uint16_t)>
void unpack_pairs(const UnpackArgs& args) {
  float* out = reinterpret_cast<float*>(args.slab);
  for (std::int64_t b = 0; b < args.blocks; ++b, out += 2 * panel_rows) {
    for (int row = 0; row < panel_rows; ++row) {
      std::uint16_t bits[2];
      std::memcpy(bits, args.words + b * static_cast<std::int64_t>(line_bytes) + 4 * row, 4);
      out[row] = convert(bits[0]);
      out[panel_rows + row] = convert(bits[1]);
    }
  }
}

float half(std::uint16_t bits) { return core::f16_to_f32(bits); }
float bf16(std::uint16_t bits) { return core::bf16_to_f32(bits); }

}  // namespace

void unpack_panel(const UnpackArgs& args) {
  switch (args.shape->type) {
    case WeightType::q4_0:
      return unpack_type<quant::BlockQ4_0, SlabScaled>(args);
    case WeightType::q4_1:
      return unpack_type<quant::BlockQ4_1, SlabMin>(args);
    case WeightType::q5_0:
      return unpack_type<quant::BlockQ5_0, SlabScaled>(args);
    case WeightType::q5_1:
      return unpack_type<quant::BlockQ5_1, SlabMin>(args);
    case WeightType::q8_0:
      return unpack_type<quant::BlockQ8_0, SlabByte>(args);
    case WeightType::q2_k:
      return unpack_type<quant::BlockQ2K, SlabGroup>(args);
    case WeightType::q3_k:
      return unpack_type<quant::BlockQ3K, SlabGroup>(args);
    case WeightType::q4_k:
      return unpack_type<quant::BlockQ4K, SlabMin>(args);
    case WeightType::q5_k:
      return unpack_type<quant::BlockQ5K, SlabMin>(args);
    case WeightType::q6_k:
      return unpack_type<quant::BlockQ6K, SlabGroup>(args);
    case WeightType::iq4_nl:
      return unpack_type<quant::BlockIq4Nl, SlabByte>(args);
    case WeightType::iq4_xs:
      return unpack_type<quant::BlockIq4Xs, SlabByte>(args);
    case WeightType::mxfp4:
      return unpack_type<quant::BlockMxfp4, SlabScaled>(args);
    case WeightType::f16:
      return unpack_pairs<half>(args);
    case WeightType::bf16:
      return unpack_pairs<bf16>(args);
    case WeightType::f32:
    case WeightType::as_stored:
      std::memcpy(args.slab, args.words, static_cast<std::size_t>(args.blocks) * line_bytes);
  }
}

}  // namespace llminfer::cpu::portable
