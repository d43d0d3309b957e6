// SentencePiece's precompiled_charsmap: which character sequences are replaced by which. A double array (32-bit units,
// little-endian, after their size in bytes) finds the longest sequence; the replacements follow, each ended by a NUL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace llminfer::text {

class Charsmap {
 public:
  /// Empty: replaces nothing but what is not UTF-8. Throws corrupt when sizes contradict each other. Keeps no copy:
  /// `data` must outlive it.
  explicit Charsmap(std::string_view data);

  struct Match {
    std::string_view text;     ///< what stands for the bytes taken: in the map, in the input, or U+FFFD
    std::size_t consumed = 0;  ///< bytes of the input taken, at least 1
  };
  /// The start of `text`, which is not empty: the longest sequence of the map, else one character.
  Match match(std::string_view text) const noexcept;

 private:
  std::uint32_t unit(std::size_t index) const noexcept;

  std::string_view units_;
  std::string_view replacements_;
};

}  // namespace llminfer::text
