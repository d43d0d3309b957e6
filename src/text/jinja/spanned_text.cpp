#include "text/jinja/spanned_text.h"

#include <algorithm>

namespace llminfer::text::jinja {

std::size_t SpannedText::run_at(std::size_t offset) const noexcept {
  const auto found = std::upper_bound(runs_.begin(), runs_.end(), offset,
                                      [](std::size_t position, const Run& run) { return position < run.end; });
  return static_cast<std::size_t>(found - runs_.begin());
}

void SpannedText::append(std::string_view text, Origin origin) {
  if (text.empty()) return;
  if (runs_.empty() || runs_.back().origin != origin) runs_.push_back({bytes_.size(), origin});
  bytes_.append(text);
  runs_.back().end = bytes_.size();
}

void SpannedText::append(const SpannedText& other, std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  for (std::size_t run = other.run_at(begin); begin < end; ++run) {
    const std::size_t stop = std::min(end, other.runs_[run].end);
    append(other.view().substr(begin, stop - begin), other.runs_[run].origin);
    begin = stop;
  }
}

void SpannedText::truncate(std::size_t size) noexcept {
  if (size >= bytes_.size()) return;
  bytes_.erase(size);
  while (!runs_.empty() && (runs_.size() > 1 ? runs_[runs_.size() - 2].end : 0) >= size) runs_.pop_back();
  if (!runs_.empty()) runs_.back().end = size;
}

}  // namespace llminfer::text::jinja
