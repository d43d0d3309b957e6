// A picture as SVG text: shapes, labels, and fills that differ without colour too.
#pragma once

#include <string>
#include <string_view>

namespace llminfer::profile {

/// With the five characters that mean something to XML replaced, and control characters left out.
std::string escaped(std::string_view text);

/// "98.4 MB": powers of ten.
std::string bytes_text(double bytes);

enum class Anchor { start, middle, end };

class Svg {
 public:
  /// `name` goes before the ids of the fills, so that several pictures can stand in one page. `title` is read aloud.
  Svg(std::string_view name, int width, int height, std::string_view title);

  void line(double x1, double y1, double x2, double y2, std::string_view style);
  void rect(double x, double y, double width, double height, std::string_view style);
  void circle(double x, double y, double radius, std::string_view style);
  /// A square of this half diagonal that stands on its corner.
  void diamond(double x, double y, double radius, std::string_view style);
  /// Points "x,y x,y ...".
  void polyline(std::string_view points, std::string_view style);
  void text(double x, double y, std::string_view text, Anchor anchor = Anchor::start, std::string_view style = {});
  /// Turned by so many degrees, its middle at the point.
  void turned(double x, double y, double degrees, std::string_view text, std::string_view style = {});

  /// A style for the i-th of a row of neighbours: a colour, and hatching that differs from the others'.
  std::string fill(std::size_t i) const;
  static constexpr std::size_t fills = 12;

  std::string take() &&;

 private:
  std::string name_;
  std::string out_;
};

}  // namespace llminfer::profile
