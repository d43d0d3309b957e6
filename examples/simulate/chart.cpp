#include "chart.h"

#include <algorithm>
#include <cmath>

#include "../common/format.h"

namespace examples {
namespace {

constexpr double page_width = 960, panel_width = 460, panel_height = 300;
constexpr double left = 70, right = 14, top = 34, bottom = 46;  // of a panel, around its plot

struct Look {
  const char* colour;
  const char* dashes;
  int marker;
};
// Dark enough for paper; told apart by dashes and markers where there is no colour.
constexpr Look looks[] = {{"#8c510a", "2 3", 0},      {"#01665e", "7 4", 1}, {"#2b3a8c", "none", 2},
                          {"#a50f4b", "10 3 2 3", 3}, {"#444444", "1 2", 0}, {"#7a6a00", "4 2", 1}};
const Look& look(std::size_t i) { return looks[i % std::size(looks)]; }

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::string text(double x, double y, const char* anchor, const std::string& what, const char* more = "") {
  return print("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, more) + escaped(what) + "</text>\n";
}

std::string marker(int kind, double x, double y, const char* colour) {
  const double r = 3.6;
  switch (kind) {
    case 0:
      return print("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"#fff\" stroke=\"%s\" stroke-width=\"1.6\"/>\n", x,
                   y, r, colour);
    case 1:
      return print("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x - r, y - r, 2 * r,
                   2 * r, colour);
    case 2:
      return print("<path d=\"M%.1f %.1fl%.1f %.1fh%.1fz\" fill=\"%s\"/>\n", x, y - r - 1, r + 1, 2 * r + 1, -2 * r - 2,
                   colour);
    default:
      return print(
          "<path d=\"M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz\" fill=\"#fff\" stroke=\"%s\" stroke-width=\"1.6\"/>\n",
          x, y - r - 1, r + 1, r + 1, -r - 1, r + 1, -r - 1, -r - 1, colour);
  }
}

/// One direction of a plot: values to pixels.
class Axis {
 public:
  Axis(double low, double high, bool logarithmic, double from, double to)
      : log_(logarithmic), low_(low), high_(high), from_(from), to_(to) {
    if (log_) {
      low_ = std::pow(10, std::floor(std::log10(std::max(low, 1e-12))));
      high_ = std::max(low_ * 10, std::pow(10, std::ceil(std::log10(std::max(high, 1e-12)))));
    } else if (!(high_ > low_)) {
      high_ = low_ + 1;
    }
  }
  double at(double value) const {
    const double share =
        log_ ? std::log(std::max(value, low_) / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
    return from_ + (to_ - from_) * std::clamp(share, 0.0, 1.0);
  }
  std::vector<double> ticks() const {
    std::vector<double> out;
    if (log_) {
      const bool many = high_ / low_ > 1.5e3;
      for (double decade = low_; decade <= high_ * 1.001; decade *= 10) {
        for (const double step : {1.0, 2.0, 5.0}) {
          if ((step < 1.5 || !many) && decade * step <= high_ * 1.001) out.push_back(decade * step);
        }
      }
      return out;
    }
    double step = std::pow(10, std::floor(std::log10((high_ - low_) / 4)));
    if ((high_ - low_) / step > 12) step *= 2.5;
    if ((high_ - low_) / step > 7) step *= 2;
    for (double t = std::ceil(low_ / step) * step; t <= high_ + step * 1e-6; t += step) out.push_back(t);
    return out;
  }

 private:
  bool log_;
  double low_, high_, from_, to_;
};

std::string number(double value) {
  const double size = std::abs(value);
  if (size >= 1e6) return print("%gM", value / 1e6);
  if (size >= 1e4) return print("%gk", value / 1e3);
  return print("%.4g", size < 1e-9 ? 0.0 : value);
}

struct Range {
  double low = 0, high = 0;
  bool any = false;
  void add(double v) {
    low = any ? std::min(low, v) : v;
    high = any ? std::max(high, v) : v;
    any = true;
  }
};

std::string grid(const Chart& chart, const Axis& x, const Axis& y) {
  std::string out;
  const double floor = panel_height - bottom;
  for (const double t : y.ticks()) {
    out += print("<path d=\"M%.1f %.1fH%.1f\" stroke=\"#ddd\"/>\n", left, y.at(t), panel_width - right);
    out += text(left - 6, y.at(t) + 4, "end", number(t));
  }
  std::vector<std::pair<double, std::string>> ticks = chart.x_ticks;
  if (ticks.empty()) {
    for (const double t : x.ticks()) ticks.emplace_back(t, number(t));
  }
  for (const auto& [t, label] : ticks) {
    out += print("<path d=\"M%.1f %.1fv4\" stroke=\"#333\"/>\n", x.at(t), floor);
    out += text(x.at(t), floor + 17, "middle", label);
  }
  out += print("<path d=\"M%.1f %.1fV%.1fH%.1f\" fill=\"none\" stroke=\"#333\"/>\n", left, top, floor,
               panel_width - right);
  out += text((left + panel_width - right) / 2, panel_height - 10, "middle", chart.x_label);
  out += print("<g transform=\"translate(14 %.1f) rotate(-90)\">", (top + floor) / 2) +
         text(0, 0, "middle", chart.y_label) + "</g>\n";
  return out;
}

std::string line(const ChartSeries& series, const Axis& x, const Axis& y, const Look& style) {
  std::string out;
  std::string path;
  for (const auto& [px, py] : series.points) path += print("%s%.1f %.1f", path.empty() ? "M" : "L", x.at(px), y.at(py));
  if (!path.empty()) {
    out += "<path d=\"" + path +
           print("\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\" stroke-dasharray=\"%s\"/>\n", style.colour,
                 style.dashes);
  }
  if (!series.markers) return out;
  for (const auto& [px, py] : series.points) out += marker(style.marker, x.at(px), y.at(py), style.colour);
  return out;
}

std::string panel(const Chart& chart) {
  Range xs;
  Range ys;
  for (const ChartSeries& series : chart.series) {
    for (const auto& [px, py] : series.points) {
      xs.add(px);
      if (!chart.log_y || py > 0) ys.add(py);
    }
  }
  if (chart.zero_y && !chart.log_y) ys.add(0);
  const double margin = chart.x_ticks.empty() ? 0 : 0.25;
  const Axis x(xs.low - margin, xs.high + margin, chart.log_x, left, panel_width - right);
  const Axis y(ys.low, chart.log_y ? ys.high : ys.high * 1.05, chart.log_y, panel_height - bottom, top);
  std::string out = text(left, 20, "start", chart.title, " font-weight=\"bold\"");
  out += grid(chart, x, y);
  for (std::size_t i = 0; i < chart.series.size(); ++i) out += line(chart.series[i], x, y, look(i));
  return out;
}

std::string legend(const std::vector<ChartSeries>& series, double y) {
  std::string out;
  double x = 24;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const Look& style = look(i);
    out += print("<path d=\"M%.1f %.1fh36\" stroke=\"%s\" stroke-width=\"1.8\" stroke-dasharray=\"%s\"/>\n", x, y,
                 style.colour, style.dashes);
    out += marker(style.marker, x + 18, y, style.colour);
    out += text(x + 44, y + 4, "start", series[i].name);
    x += 64 + 7.2 * static_cast<double>(series[i].name.size());
  }
  return out;
}

}  // namespace

std::string svg_page(const std::string& title, const std::vector<std::string>& lines,
                     const std::vector<Chart>& charts) {
  double y = 28;
  std::string body = text(24, y, "start", title, " font-size=\"17\" font-weight=\"bold\"");
  for (const std::string& l : lines) body += text(24, y += 18, "start", l);
  y += 24;
  if (!charts.empty()) body += legend(charts.front().series, y);
  y += 16;
  for (std::size_t i = 0; i < charts.size(); ++i) {
    body += print("<g transform=\"translate(%.1f %.1f)\">\n", 10 + (i % 2 == 0 ? 0 : page_width / 2),
                  y + static_cast<double>(i / 2) * panel_height) +
            panel(charts[i]) + "</g>\n";
  }
  const double height = y + static_cast<double>((charts.size() + 1) / 2) * panel_height + 8;
  return print(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
             "font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n"
             "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
             page_width, height, page_width, height) +
         body + "</svg>\n";
}

}  // namespace examples
