// Builds a string value piece by piece; every piece is charged before it is copied.
#pragma once

#include <algorithm>
#include <string_view>
#include <utility>

#include "text/jinja/value.h"

namespace llminfer::text::jinja {

class Builder {
 public:
  explicit Builder(Meter& meter) noexcept : meter_(meter) {}
  ~Builder() { meter_.give(charged_); }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  void add(std::string_view text, Origin origin = Origin::markup) {
    const bool same = !text_.runs().empty() && text_.runs().back().origin == origin;
    charge(text.size() + (same ? 0 : sizeof(Run)));
    text_.append(text, origin);
  }
  void add(const SpannedText& text, std::size_t begin, std::size_t end) {
    if (begin >= end) return;
    charge(end - begin + std::min(text.runs().size(), end - begin) * sizeof(Run));
    text_.append(text, begin, end);
  }
  void add(const SpannedText& text) { add(text, 0, text.size()); }
  std::size_t size() const noexcept { return text_.size(); }
  const SpannedText& text() const noexcept { return text_; }
  SpannedText take() noexcept { return std::exchange(text_, SpannedText()); }
  Value string(bool html = false) {
    meter_.give(std::exchange(charged_, 0));
    return make_string(&meter_, take(), html);
  }
  Meter& meter() noexcept { return meter_; }

 private:
  void charge(std::size_t bytes) {
    meter_.touch(bytes);
    meter_.take(bytes);
    charged_ += bytes;
  }

  Meter& meter_;
  SpannedText text_;
  std::size_t charged_ = 0;
};

}  // namespace llminfer::text::jinja
