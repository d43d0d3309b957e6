#include "runtime/simulation/traffic_source.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/fail.h"

namespace llminfer::runtime::simulation {
namespace {

constexpr double day_seconds = 86400;
constexpr double latest_seconds = 1e9;  // 31 years: nanoseconds still fit

void check(const char* field, double value, double least, double most) {
  if (!(value >= least && value <= most)) {
    core::fail(ErrorCode::invalid_argument, "Traffic::{} is {}, must be {} to {}", field, value, least, most);
  }
}

void check(const Traffic& traffic) {
  check("requests", static_cast<double>(traffic.requests), 1, 1e9);
  check("rate", traffic.rate, 1e-6, 1e6);
  check("burstiness", traffic.burstiness, 0, 100);
  check("daily_swing", traffic.daily_swing, 0, 1);
  check("prompt.median", traffic.prompt.median, 1, 1e6);
  check("prompt.sigma", traffic.prompt.sigma, 0, 4);
  check("output.median", traffic.output.median, 1, 1e6);
  check("output.sigma", traffic.output.sigma, 0, 4);
  check("prefix_share", traffic.prefix_share, 0, 1);
  check("prefix_tokens", traffic.prefix_tokens, 0, 1e6);
  check("prefixes", traffic.prefixes, 1, 1e6);
}

/// When the rate 1 + swing sin(2 pi t / day) has summed up to `even`: by bisection, the sum rises with t.
double with_swing(double even, double swing) noexcept {
  if (swing <= 0) return even;
  const double scale = day_seconds / (2 * std::numbers::pi);
  double low = std::max(0.0, even - 2 * swing * scale);
  double high = even;
  for (int i = 0; i < 60; ++i) {
    const double t = (low + high) / 2;
    (t + swing * scale * (1 - std::cos(t / scale)) < even ? low : high) = t;
  }
  return high;
}

}  // namespace

TrafficSource::TrafficSource(const Traffic& traffic, std::int32_t context)
    : traffic_(traffic), context_(context), gaps_(traffic.seed), lengths_(~traffic.seed), left_(traffic.requests) {
  check(traffic_);
  if (context < 2) core::fail(ErrorCode::invalid_argument, "the context is {}, a request needs 2 tokens", context);
  draw();
}

void TrafficSource::pop() noexcept {
  if (--left_ > 0) draw();
}

std::int32_t TrafficSource::length(const TokenCounts& counts, std::int32_t most) noexcept {
  const double drawn = counts.median * std::exp(counts.sigma * lengths_.normal());
  return static_cast<std::int32_t>(std::lround(std::clamp(drawn, 1.0, static_cast<double>(std::max(1, most)))));
}

void TrafficSource::draw() noexcept {
  const double spread = traffic_.burstiness * traffic_.burstiness;
  const double gap = spread > 1e-12 ? gaps_.gamma(1 / spread) * spread : 1;
  even_seconds_ = std::min(latest_seconds, even_seconds_ + gap / traffic_.rate);
  const double seconds = with_swing(even_seconds_, traffic_.daily_swing);
  next_.time_ns = std::max(next_.time_ns, static_cast<std::int64_t>(seconds * 1e9));
  next_.output = length(traffic_.output, context_ / 2);
  const std::int32_t room = context_ - next_.output;
  const std::int32_t own = length(traffic_.prompt, room);
  const bool shared = lengths_.uniform() < traffic_.prefix_share;
  next_.prefix = shared ? static_cast<std::int32_t>(lengths_.below(static_cast<std::uint64_t>(traffic_.prefixes))) : -1;
  next_.prefix_tokens = shared ? std::min(traffic_.prefix_tokens, room - 1) : 0;
  next_.prompt = std::min(own, room - next_.prefix_tokens) + next_.prefix_tokens;
  next_.seed = lengths_.bits();
}

void fill_prompt(const Arrival& arrival, std::int32_t vocabulary, std::vector<Token>& out) {
  out.resize(static_cast<std::size_t>(arrival.prompt));
  const auto n = static_cast<std::uint64_t>(vocabulary);
  for (std::int32_t i = 0; i < arrival.prompt; ++i) {
    const std::uint64_t seed = i < arrival.prefix_tokens
                                   ? 0x9E3779B97F4A7C15ULL * static_cast<std::uint64_t>(arrival.prefix + 1)
                                   : arrival.seed;
    out[static_cast<std::size_t>(i)] = static_cast<Token>((mix(seed + static_cast<std::uint64_t>(i)) >> 32) * n >> 32);
  }
}

}  // namespace llminfer::runtime::simulation
