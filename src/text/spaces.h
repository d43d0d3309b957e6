// SentencePiece writes spaces as U+2581. Inside the library such vocabularies are held with plain spaces, so that text
// needs no rewriting; a U+2581 in a text then counts as a space, as it does for SentencePiece.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace llminfer::text {

inline constexpr std::string_view space_mark = "\xE2\x96\x81";

inline void append_marks_as_spaces(std::string_view text, std::string& out) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t mark = text.find(space_mark, at);
    if (mark == std::string_view::npos) mark = text.size();
    out.append(text.substr(at, mark - at));
    if (mark < text.size()) out += ' ';
    at = mark + space_mark.size();
  }
}

/// A text with its marks as spaces and perhaps a space in front, and where each byte came from.
class SpacedText {
 public:
  /// `text` must outlive the next call.
  void set(std::string_view text, bool space_in_front) {
    origin_.clear();
    shift_ = 0;
    text_ = text;
    if (text.find(space_mark) == std::string_view::npos) {
      if (!space_in_front) return;
      buffer_.assign(1, ' ');
      buffer_.append(text);
      shift_ = 1;
    } else {
      buffer_.assign(space_in_front ? 1 : 0, ' ');
      origin_.assign(buffer_.size(), 0);
      for (std::size_t at = 0; at < text.size();) {
        const bool mark = text.substr(at, space_mark.size()) == space_mark;
        buffer_ += mark ? ' ' : text[at];
        origin_.push_back(at);
        at += mark ? space_mark.size() : 1;
      }
      origin_.push_back(text.size());
    }
    text_ = buffer_;
  }

  std::string_view text() const noexcept { return text_; }
  /// Byte of the given text that position `at` (up to and including the end) stands for.
  std::size_t origin(std::size_t at) const noexcept {
    if (!origin_.empty()) return origin_[at];
    return at < shift_ ? 0 : at - shift_;
  }

 private:
  std::string buffer_;
  std::string_view text_;
  std::vector<std::size_t> origin_;
  std::size_t shift_ = 0;
};

}  // namespace llminfer::text
