#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "profile/pictures.h"
#include "profile/svg.h"

namespace llminfer::profile {
namespace {

constexpr int width = 860, height = 520;
constexpr double left = 74, right = 836, top = 22, bottom = 448;

constexpr std::string_view roof_label =
    "font-size=\"12\" fill=\"#333\" stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\"";

/// A logarithmic axis over whole powers of ten.
struct Axis {
  int low = 0, high = 1;  // exponents
  double from = 0, to = 1;

  double at(double value) const {
    const double t = (std::log10(value) - low) / (high - low);
    return from + t * (to - from);
  }
};

struct Mark {
  const OpSummary* op = nullptr;
  PhaseKind phase = PhaseKind::decode;
  double share = 0;  // of its phase
};

std::string number(int exponent) {
  return exponent >= 0 ? fmt::format("{:.0f}", std::pow(10.0, exponent))
                       : fmt::format("{:g}", std::pow(10.0, exponent));
}

class Roofline {
 public:
  explicit Roofline(const ProfileReport& report)
      : report_(report), svg_("roof", width, height, "Roofline: operations per second over operations per byte") {
    for (const PhaseReport& phase : report.phases) {
      for (const OpSummary& op : phase.by_op) {
        const double share = phase.seconds > 0 ? op.seconds / phase.seconds : 0;
        if (op.flops > 0 && op.bytes() > 0 && share >= 0.002) marks_.push_back({&op, phase.kind, share});
      }
    }
    std::stable_sort(marks_.begin(), marks_.end(), [](const Mark& a, const Mark& b) { return a.share > b.share; });
    scale();
  }

  std::string draw() && {
    grid();
    roofs();
    for (const Mark& m : marks_) mark(m);
    legend();
    return std::move(svg_).take();
  }

 private:
  void scale() {
    const double top_rate = std::max(report_.int8_rate, report_.f32_rate) / 1e9;
    double low_x = 0.1, high_x = 100, low_y = top_rate / 100;
    for (const Mark& m : marks_) {
      low_x = std::min(low_x, m.op->intensity());
      high_x = std::max(high_x, m.op->intensity());
      if (m.op->flops_per_s() > 0) low_y = std::min(low_y, m.op->flops_per_s() / 1e9);
    }
    high_x = std::max(high_x, 3 * top_rate / std::max(1e-9, report_.memory_rate / 1e9));
    x_ = {static_cast<int>(std::floor(std::log10(low_x))), static_cast<int>(std::ceil(std::log10(high_x))), left,
          right};
    y_ = {static_cast<int>(std::floor(std::log10(std::max(1e-6, low_y)))),
          static_cast<int>(std::ceil(std::log10(1.2 * top_rate))), bottom, top};
  }

  void grid() {
    for (int e = x_.low; e <= x_.high; ++e) {
      const double x = x_.at(std::pow(10.0, e));
      svg_.line(x, top, x, bottom, "stroke=\"#ddd\"");
      svg_.text(x, bottom + 18, number(e), Anchor::middle);
    }
    for (int e = y_.low; e <= y_.high; ++e) {
      const double y = y_.at(std::pow(10.0, e));
      svg_.line(left, y, right, y, "stroke=\"#ddd\"");
      svg_.text(left - 8, y + 4, number(e), Anchor::end);
    }
    svg_.rect(left, top, right - left, bottom - top, "fill=\"none\" stroke=\"#555\"");
    svg_.text((left + right) / 2, bottom + 40, "operations per byte", Anchor::middle);
    svg_.turned(20, (top + bottom) / 2, -90, "billions of operations per second");
  }

  /// A slope of bytes per second up to the flat roof, clipped to the frame, and its label along it: `part` of the way
  /// up, `away` pixels above the line or (negative) below.
  void slope(double rate, double roof, std::string_view style, const std::string& label, double part, double away) {
    const double gb = rate / 1e9, start = std::max(std::pow(10.0, x_.low), std::pow(10.0, y_.low) / gb);
    const double end = std::min(roof / 1e9 / gb, std::pow(10.0, x_.high));
    if (start >= end) return;
    svg_.line(x_.at(start), y_.at(start * gb), x_.at(end), y_.at(end * gb), style);
    const double at = start * std::pow(end / start, part);
    const double angle = std::atan2(y_.at(end * gb) - y_.at(start * gb), x_.at(end) - x_.at(start));
    const double x = x_.at(at) + away * std::sin(angle), y = y_.at(at * gb) - away * std::cos(angle);
    svg_.turned(x, y, angle * 180 / 3.141592653589793, label, roof_label);
    const double half = 3.2 * static_cast<double>(label.size());
    for (int quarters = -4; quarters <= 4; ++quarters) {
      const double t = quarters * half / 4;
      const double cx = x + t * std::cos(angle), cy = y + t * std::sin(angle);
      labels_.push_back({cx - 8, cy - 9, cx + 8, cy + 6});
    }
  }

  void flat(double rate, double slope_rate, std::string_view style, const std::string& label) {
    const double y = y_.at(rate / 1e9),
                 x = x_.at(std::clamp(rate / slope_rate, std::pow(10.0, x_.low), std::pow(10.0, x_.high)));
    svg_.line(x, y, right, y, style);
    svg_.text(right - 6, y - 6, label, Anchor::end, roof_label);
    labels_.push_back({right - 6 - 6.4 * static_cast<double>(label.size()), y - 18, right, y - 2});
  }

  void roofs() {
    const double most = std::max(report_.int8_rate, report_.f32_rate);
    constexpr const char* solid = "stroke=\"#222\" stroke-width=\"2\"";
    constexpr const char* dashed = "stroke=\"#222\" stroke-width=\"1.3\" stroke-dasharray=\"7 5\"";
    slope(report_.memory_rate, most, solid, fmt::format("main memory {:.1f} GB/s", report_.memory_rate / 1e9), 0.84,
          -17);
    if (report_.cache_rate > 1.05 * report_.memory_rate) {
      slope(report_.cache_rate, most, dashed, fmt::format("last cache {:.0f} GB/s", report_.cache_rate / 1e9), 0.72, 8);
    }
    flat(report_.int8_rate, report_.memory_rate, solid,
         fmt::format("8-bit products {:.0f} GOP/s", report_.int8_rate / 1e9));
    if (report_.f32_rate < 0.95 * report_.int8_rate) {
      flat(report_.f32_rate, report_.memory_rate, dashed, fmt::format("f32 {:.0f} GFLOP/s", report_.f32_rate / 1e9));
    }
  }

  static double radius(double share) { return 3.5 + 17 * std::sqrt(std::min(1.0, share)); }

  void shape(PhaseKind phase, double x, double y, double r) {
    constexpr const char* styles[] = {"fill=\"#e69f00\" fill-opacity=\".75\" stroke=\"#222\"",
                                      "fill=\"#0072b2\" fill-opacity=\".75\" stroke=\"#222\"",
                                      "fill=\"#009e73\" fill-opacity=\".75\" stroke=\"#222\""};
    const char* style = styles[static_cast<int>(phase)];
    if (phase == PhaseKind::decode) svg_.circle(x, y, r, style);
    if (phase == PhaseKind::prefill) svg_.rect(x - 0.89 * r, y - 0.89 * r, 1.77 * r, 1.77 * r, style);
    if (phase == PhaseKind::mixed) svg_.diamond(x, y, 1.25 * r, style);
  }

  void mark(const Mark& m) {
    const double x = x_.at(m.op->intensity());
    const double y = y_.at(std::max(std::pow(10.0, y_.low), m.op->flops_per_s() / 1e9));
    const double r = radius(m.share);
    shape(m.phase, x, y, r);
    if (m.share < 0.01) return;
    const std::string label = fmt::format("{} {:.0f} %", m.op->name, 100 * m.share);
    place(label, x, y, r);
  }

  struct Box {
    double x0, y0, x1, y1;
    bool meets(const Box& o) const { return x0 < o.x1 && o.x0 < x1 && y0 < o.y1 && o.y0 < y1; }
  };

  /// Beside the mark: the first place that no other label has.
  void place(const std::string& label, double x, double y, double r) {
    const double w = 6.8 * static_cast<double>(label.size()), h = 14;
    const double places[][2] = {{x + r + 4, y + 4},      {x - r - 4 - w, y + 4},  {x - w / 2, y - r - 6},
                                {x - w / 2, y + r + 15}, {x + r + 4, y + 18},     {x + r + 4, y - 12},
                                {x - r - 4 - w, y + 18}, {x - r - 4 - w, y - 12}, {x + r + 4, y + 32}};
    for (const auto& p : places) {
      const Box box{p[0], p[1] - h + 3, p[0] + w, p[1] + 3};
      const bool inside = box.x0 > left && box.x1 < right && box.y0 > top && box.y1 < bottom;
      const bool free = std::none_of(labels_.begin(), labels_.end(), [&](const Box& b) { return b.meets(box); });
      if (!inside || !free) continue;
      labels_.push_back(box);
      svg_.text(p[0], p[1], label, Anchor::start,
                "font-size=\"12\" stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\"");
      return;
    }
  }

  void legend() {
    double x = left;
    for (const PhaseReport& phase : report_.phases) {
      shape(phase.kind, x + 8, height - 14, 7);
      svg_.text(x + 22, height - 10, to_string(phase.kind));
      x += 100;
    }
    svg_.text(right, height - 10, "area: share of the phase's time", Anchor::end, "fill=\"#555\"");
  }

  const ProfileReport& report_;
  Svg svg_;
  Axis x_, y_;
  std::vector<Mark> marks_;
  std::vector<Box> labels_;
};

}  // namespace

std::string roofline_picture(const ProfileReport& report) { return Roofline(report).draw(); }

}  // namespace llminfer::profile
