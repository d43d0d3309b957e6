// Roof of AMX: tdpbf16ps from tiles.
#include "device/cpu/peak.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AMX_BEGIN
namespace llminfer::cpu::avx512 {
namespace {
#include "device/cpu/avx512/tiles.h"

const int chains = 6;

/// Of the process's permission to use tiles: the table "amx" has it.
float tile_products(std::int64_t rounds) {
  TileConfig config = {};
  config.palette = 1;
  for (int i = 0; i < 8; ++i) {
    config.bytes[i] = 64;
    config.rows[i] = 16;
  }
  std::uint32_t pairs[256];
  for (std::uint32_t& x : pairs) x = 0x3a803a80;  // 2^-10, twice
  configure_tiles(config);
  clear_tile<0>(), clear_tile<1>(), clear_tile<2>(), clear_tile<3>(), clear_tile<4>(), clear_tile<5>();
  load_tile<6>(pairs, 64);
  load_tile<7>(pairs, 64);
  for (std::int64_t r = 0; r < rounds; ++r) {
    multiply_tiles<0, 6, 7>(), multiply_tiles<1, 6, 7>(), multiply_tiles<2, 6, 7>();
    multiply_tiles<3, 6, 7>(), multiply_tiles<4, 6, 7>(), multiply_tiles<5, 6, 7>();
  }
  float out[256];
  store_tile<0>(out, 64);
  release_tiles();
  return out[0];
}

}  // namespace

void add_amx_peak_loop(PeakLoops& loops) noexcept {
  loops.bf16 = tile_products;
  loops.bf16_ops = std::int64_t{2} * 16 * 16 * 32 * chains;
}

}  // namespace llminfer::cpu::avx512
LLMINFER_TARGET_END
#endif
