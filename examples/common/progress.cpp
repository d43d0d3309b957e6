#include "progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace examples {

ProgressLine::ProgressLine(bool force) : enabled_(force || isatty(STDERR_FILENO) == 1) {}

void ProgressLine::show(const std::string& text) {
  const auto now = std::chrono::steady_clock::now();
  if (!enabled_ || now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  const std::string padding(shown_ - std::min(shown_, text.size()), ' ');
  std::fprintf(stderr, "\r%s%s", text.c_str(), padding.c_str());
  std::fflush(stderr);
  shown_ = text.size();
}

void ProgressLine::clear() {
  if (shown_ == 0) return;
  std::fprintf(stderr, "\r%*s\r", static_cast<int>(shown_), "");
  std::fflush(stderr);
  shown_ = 0;
}

}  // namespace examples
