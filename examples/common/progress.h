// One line on standard error that is overwritten as work goes on.
#pragma once

#include <chrono>
#include <string>

namespace examples {

/// Shows text at most ten times a second, and only on a terminal or when forced; gone when the object is.
class ProgressLine {
 public:
  explicit ProgressLine(bool force = false);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() { clear(); }

  void show(const std::string& text);
  void clear();

 private:
  bool enabled_ = false;
  std::size_t shown_ = 0;  // characters on the line now
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace examples
