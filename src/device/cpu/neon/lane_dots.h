// dots() of kernels/dot.inc by SDOT: four bytes of activations are a lane of a register, so that one load serves 16 of
// them. Roof: as many dot products a cycle as the core has pipes. Included after vectors.h in a dotprod region.

/// By four bytes `lane` of q.
LLMINFER_INLINE I dot_lane(I sum, I u, int8x16_t q, int lane) {
  const int8x16_t a = vreinterpretq_s8_s32(u);
  switch (lane) {
    case 0:
      return vdotq_laneq_s32(sum, a, q, 0);
    case 1:
      return vdotq_laneq_s32(sum, a, q, 1);
    case 2:
      return vdotq_laneq_s32(sum, a, q, 2);
    default:
      return vdotq_laneq_s32(sum, a, q, 3);
  }
}

/// s[c] += levels of words [first, first + words) . q, of block b.
LLMINFER_INLINE void lane_dots(const std::uint8_t (*levels)[panel_rows][4], int part, const QuantColumn* columns,
                               int count, std::int64_t b, int first, int words, I* s) {
#pragma GCC unroll 2
  for (int w = first; w < first + words; w += 4) {
    int8x16_t q[4];
#pragma GCC unroll 4
    for (int c = 0; c < count; ++c) q[c] = vld1q_s8(columns[c].q + 32 * b + 4 * w);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const I u = load_i(levels[w + i], part);
#pragma GCC unroll 4
      for (int c = 0; c < count; ++c) s[c] = dot_lane(s[c], u, q[c], i);
    }
  }
}
