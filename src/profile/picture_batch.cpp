#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "profile/pictures.h"
#include "profile/svg.h"

namespace llminfer::profile {
namespace {

constexpr int width = 860, height = 340;
constexpr double left = 74, right = 836, top = 26, bottom = 280;

/// A round number of at least a fifth of the whole.
double tick_of(double most) {
  const double raw = std::max(1e-9, most / 5), power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double step : {1.0, 2.0, 5.0, 10.0}) {
    if (step * power >= raw) return step * power;
  }
  return 10 * power;
}

}  // namespace

std::string batch_picture(const ProfileReport& report) {
  Svg svg("batch", width, height, "Forecast throughput over batch size");
  if (report.batches.size() < 2) {
    svg.text(left, 60, "no decoding was recorded");
    return std::move(svg).take();
  }
  double most = 0;
  for (const BatchPoint& p : report.batches) most = std::max(most, p.tokens_per_s);
  const double tick = tick_of(most), ceiling = std::max(tick, std::ceil(1.08 * most / tick) * tick);
  const double last = std::log2(report.batches.back().sequences);
  const auto x = [&](double n) { return left + std::log2(n) / last * (right - left); };
  const auto y = [&](double rate) { return bottom - rate / ceiling * (bottom - top); };
  const auto ticks = static_cast<int>(std::lround(ceiling / tick));
  for (int i = 0; i <= ticks; ++i) {
    const double v = i * tick;
    svg.line(left, y(v), right, y(v), "stroke=\"#ddd\"");
    svg.text(left - 8, y(v) + 4, fmt::format("{:.0f}", v), Anchor::end);
  }
  std::string points;
  for (const BatchPoint& p : report.batches) {
    points += fmt::format("{:.1f},{:.1f} ", x(p.sequences), y(p.tokens_per_s));
    svg.text(x(p.sequences), bottom + 18, std::to_string(p.sequences), Anchor::middle);
  }
  if (report.knee > 0 && report.knee <= report.batches.back().sequences) {
    const double at = x(report.knee);
    svg.line(at, top, at, bottom, "stroke=\"#222\" stroke-dasharray=\"6 4\"");
    const bool flip = at > (left + right) / 2;
    svg.text(flip ? at - 8 : at + 8, bottom - 12,
             fmt::format("knee: {} sequences, then arithmetic takes the time", report.knee),
             flip ? Anchor::end : Anchor::start,
             "font-size=\"12\" stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\"");
  }
  svg.polyline(points, "fill=\"none\" stroke=\"#0072b2\" stroke-width=\"2.2\"");
  for (const BatchPoint& p : report.batches) {
    svg.circle(x(p.sequences), y(p.tokens_per_s), 4, "fill=\"#fff\" stroke=\"#0072b2\" stroke-width=\"2\"");
    const bool first = p.sequences == report.batches.front().sequences;  // beside the axis, not on it
    svg.text(x(p.sequences) + (first ? 8 : 0), y(p.tokens_per_s) - 10, fmt::format("{:.0f}", p.tokens_per_s),
             first ? Anchor::start : Anchor::middle,
             "font-size=\"12\" stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\"");
  }
  svg.rect(left, top, right - left, bottom - top, "fill=\"none\" stroke=\"#555\"");
  svg.text((left + right) / 2, bottom + 42, "sequences computed at once", Anchor::middle);
  svg.turned(20, (top + bottom) / 2, -90, "tokens per second, all sequences");
  return std::move(svg).take();
}

}  // namespace llminfer::profile
