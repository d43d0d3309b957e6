#include "profile/svg.h"

#include <fmt/format.h>

namespace llminfer::profile {
namespace {

struct Fill {
  const char* colour;
  const char* hatch;  // path within 8 x 8, drawn in white
};

// Colours by Okabe and Ito, which most people tell apart, and their lighter halves; hatching for all others and for
// paper.
constexpr Fill fill_table[Svg::fills] = {
    {"#0072b2", ""},
    {"#e69f00", "M0 8L8 0"},
    {"#009e73", "M0 4H8"},
    {"#cc79a7", "M0 0L8 8"},
    {"#56b4e9", "M4 0V8"},
    {"#d55e00", "M0 4H8M4 0V8"},
    {"#8a8a8a", "M0 8L8 0M0 0L8 8"},
    {"#b8a100", "M0 2H8M0 6H8"},
    {"#3d5a80", "M2 0V8M6 0V8"},
    {"#7fb7a3", "M0 8L8 0M-2 2L2 -2M6 10L10 6"},
    {"#c9a3b8", "M2 2h2v2h-2z"},
    {"#bdbdbd", "M0 7H8"},
};

}  // namespace

std::string escaped(std::string_view text) {
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
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20) out += c;
    }
  }
  return out;
}

std::string bytes_text(double bytes) {
  static constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < std::size(units)) bytes /= 1000, ++unit;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.3g} {}", bytes, units[unit]);
}

Svg::Svg(std::string_view name, int width, int height, std::string_view title) : name_(name) {
  out_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" "
      "font-family=\"system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif\" font-size=\"13\" fill=\"#222\">\n"
      "<title>{}</title>\n<defs>\n",
      width, height, escaped(title), escaped(title));
  for (std::size_t i = 0; i < fills; ++i) {
    out_ += fmt::format(
        "<pattern id=\"{}-{}\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\"><rect width=\"8\" height=\"8\" "
        "fill=\"{}\"/><path d=\"{}\" stroke=\"#fff\" stroke-width=\"1.2\" stroke-opacity=\".75\" "
        "fill=\"none\"/></pattern>\n",
        name_, i, fill_table[i].colour, fill_table[i].hatch);
  }
  out_ += fmt::format("</defs>\n<rect width=\"{}\" height=\"{}\" fill=\"#fff\"/>\n", width, height);
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view style) {
  out_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1, x2, y2, style);
}

void Svg::rect(double x, double y, double width, double height, std::string_view style) {
  out_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" {}/>\n", x, y, width, height,
                      style);
}

void Svg::circle(double x, double y, double radius, std::string_view style) {
  out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" {}/>\n", x, y, radius, style);
}

void Svg::diamond(double x, double y, double radius, std::string_view style) {
  out_ += fmt::format("<path d=\"M{:.1f} {:.1f}l{:.1f} {:.1f}l{:.1f} {:.1f}l{:.1f} {:.1f}z\" {}/>\n", x, y - radius,
                      radius, radius, -radius, radius, -radius, -radius, style);
}

void Svg::polyline(std::string_view points, std::string_view style) {
  out_ += fmt::format("<polyline points=\"{}\" {}/>\n", points, style);
}

void Svg::text(double x, double y, std::string_view text, Anchor anchor, std::string_view style) {
  static constexpr const char* anchors[] = {"start", "middle", "end"};
  out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", x, y,
                      anchors[static_cast<int>(anchor)], style, escaped(text));
}

void Svg::turned(double x, double y, double degrees, std::string_view text, std::string_view style) {
  out_ +=
      fmt::format("<text transform=\"translate({:.1f} {:.1f}) rotate({:.1f})\" text-anchor=\"middle\" {}>{}</text>\n",
                  x, y, degrees, style, escaped(text));
}

std::string Svg::fill(std::size_t i) const {
  return fmt::format("fill=\"url(#{}-{})\" stroke=\"#222\" stroke-width=\".7\"", name_, i % fills);
}

std::string Svg::take() && { return std::move(out_) + "</svg>\n"; }

}  // namespace llminfer::profile
