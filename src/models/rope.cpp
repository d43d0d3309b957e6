#include "models/rope.h"

#include <algorithm>
#include <cmath>

#include "core/fail.h"

namespace llminfer::models {
namespace {

using format::RopeParameters;
using format::RopeScaling;

/// The pair whose wavelength makes `rotations` turns over the original context (YaRN's r, solved for the index).
double pair_with_rotations(double rotations, int dimensions, double base, int context) {
  const double pi = 3.14159265358979323846;
  return dimensions * std::log(context / (rotations * 2 * pi)) / (2 * std::log(base));
}

/// YaRN: low pairs keep their frequency, high pairs are interpolated, a ramp between.
struct YarnRamp {
  double low = 0;
  double high = 0;
  double strength = 1;

  /// Share of the original frequency that pair i keeps.
  double kept(int pair) const {
    const double t = (pair - low) / std::max(0.001, high - low);
    return (1.0 - std::clamp(t, 0.0, 1.0)) * strength;
  }
};

YarnRamp make_ramp(const RopeParameters& rope, int dimensions, double base) {
  const double fast = rope.yarn_beta_fast.value_or(32.0F);
  const double slow = rope.yarn_beta_slow.value_or(1.0F);
  YarnRamp ramp;
  ramp.low = std::max(0.0, std::floor(pair_with_rotations(fast, dimensions, base, rope.original_context_length)));
  ramp.high =
      std::min(dimensions - 1.0, std::ceil(pair_with_rotations(slow, dimensions, base, rope.original_context_length)));
  ramp.strength = rope.yarn_ext_factor.value_or(1.0F);
  return ramp;
}

double mscale(double factor, double weight) { return factor <= 1.0 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0; }

/// YaRN's correction of the attention temperature, applied to cos and sin.
double yarn_magnitude(const RopeParameters& rope) {
  const double factor = rope.factor;
  double magnitude = mscale(factor, 1.0);
  if (rope.yarn_log_multiplier && *rope.yarn_log_multiplier != 0)
    magnitude /= mscale(factor, *rope.yarn_log_multiplier);
  return magnitude;
}

}  // namespace

backend::RopeTable make_rope_table(const RopeParameters& rope, int dimensions, bool windowed,
                                   std::span<const float> divisors) {
  const int pairs = dimensions / 2;
  if (!divisors.empty() && divisors.size() != static_cast<std::size_t>(pairs)) {
    core::fail(ErrorCode::corrupt, "{} RoPE factors for {} pairs", divisors.size(), pairs);
  }
  const double base = windowed ? rope.freq_base_swa.value_or(rope.freq_base) : rope.freq_base;
  const bool yarn = rope.scaling == RopeScaling::yarn && rope.yarn_ext_factor.value_or(1.0F) != 0;
  const bool interpolated = rope.scaling == RopeScaling::linear || rope.scaling == RopeScaling::yarn;
  const YarnRamp ramp = yarn ? make_ramp(rope, dimensions, base) : YarnRamp{0, 0, 0};

  backend::RopeTable table;
  table.inverse_frequency.reserve(static_cast<std::size_t>(pairs));
  for (int i = 0; i < pairs; ++i) {
    double frequency = std::pow(base, -2.0 * i / dimensions);
    if (!divisors.empty()) {
      const float divisor = divisors[static_cast<std::size_t>(i)];
      if (!(divisor > 0) || !std::isfinite(divisor)) {
        core::fail(ErrorCode::corrupt, "RoPE factor {} is {}", i, divisor);
      }
      frequency /= divisor;
    }
    if (interpolated) {
      const double kept = yarn ? ramp.kept(i) : 0.0;
      frequency = frequency / rope.factor * (1.0 - kept) + frequency * kept;
    }
    table.inverse_frequency.push_back(static_cast<float>(frequency));
  }
  const double magnitude = (yarn ? yarn_magnitude(rope) : 1.0) * rope.attn_factor.value_or(1.0F);
  table.magnitude = static_cast<float>(magnitude);
  return table;
}

}  // namespace llminfer::models
