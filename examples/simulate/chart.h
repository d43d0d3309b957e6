// Line charts as SVG: self-contained, and readable without colour (series differ by dashes and markers too).
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace examples {

struct ChartSeries {
  std::string name{};
  std::vector<std::pair<double, double>> points{};
  bool markers = true;
};

struct Chart {
  std::string title{};
  std::string x_label{};
  std::string y_label{};
  bool log_x = false;
  bool log_y = false;
  bool zero_y = true;                                     ///< the axis begins at 0; not with log_y
  std::vector<std::pair<double, std::string>> x_ticks{};  ///< empty: chosen
  std::vector<ChartSeries> series{};                      ///< the i-th of every chart looks alike
};

/// A page of charts, two in a row, under a title, lines of text and one legend.
std::string svg_page(const std::string& title, const std::vector<std::string>& lines, const std::vector<Chart>& charts);

}  // namespace examples
