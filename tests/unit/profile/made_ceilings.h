// Ceilings of a machine that does not exist.
#pragma once

#include <llminfer/ceilings.hpp>

namespace llminfer::tests {

inline ThreadCeilings made_threads(int threads) {
  const double n = threads;
  ThreadCeilings at;
  at.threads = threads;
  at.read = {14e9 * n, 0.02};
  at.copy = {10e9 * n, 0.03};
  at.caches = {
      {1, 32768, {200e9 * n, 0.01}}, {2, 524288, {100e9 * n, 0.01}}, {3, std::uint64_t{32} << 20, {35e9 * n, 0.02}}};
  at.f32 = {100e9 * n, 0.01};
  at.int8 = {400e9 * n, 0.01};
  at.barrier_s = threads > 1 ? 3e-7 : 0;
  return at;
}

/// Of a device with `threads` of two cores.
inline Ceilings made_ceilings(int threads = 2) {
  Ceilings out;
  out.library = "test";
  out.device = "cpu";
  out.name = "Made \"up\"";
  out.isa = "avx2";
  out.threads = threads;
  out.at = {made_threads(1), made_threads(2)};
  out.op_overhead_s = 3e-7;
  return out;
}

}  // namespace llminfer::tests
