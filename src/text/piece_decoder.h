// Bytes in pieces to complete UTF-8 text: a character that is not finished yet waits for its other bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace llminfer::text {

/// A small value: copy it to fork a stream, assign an earlier copy to rewind one.
/// What can be no character becomes U+FFFD, one for each maximal subpart, as the WHATWG decoder does.
class PieceDecoder {
 public:
  /// Most bytes of text that `bytes` bytes can give, with what waited before them: for reserving.
  static constexpr std::size_t most_text(std::size_t bytes) noexcept { return 3 * (bytes + 3); }

  /// Appends to `text` what `bytes` completed.
  void feed(std::string_view bytes, std::string& text);
  /// The end: an unfinished character becomes U+FFFD.
  void finish(std::string& text);
  /// Bytes of the unfinished character, at most 3.
  std::size_t held() const noexcept { return count_; }

 private:
  std::array<char, 4> pending_{};
  std::uint8_t count_ = 0;
};

}  // namespace llminfer::text
