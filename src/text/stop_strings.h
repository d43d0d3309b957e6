// Stop strings: text passes through, but never a byte of a stop string, and nothing waits that cannot become one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_trie.h"

namespace llminfer::text {

/// One Aho-Corasick automaton over bytes for all stop strings of a request. Immutable, shared by its matchers.
class StopStrings {
 public:
  static constexpr std::size_t most_bytes = std::size_t{1} << 20;  ///< of all strings together

  /// Throws invalid_argument for an empty string or too many bytes. No strings at all: nothing ever stops.
  explicit StopStrings(std::vector<std::string> strings);

  bool empty() const noexcept { return strings_.empty(); }
  std::string_view string(std::size_t index) const noexcept { return strings_[index]; }
  /// Bytes of the longest one.
  std::size_t longest() const noexcept { return longest_; }

 private:
  friend class StopMatcher;
  static constexpr std::uint32_t nothing = 0xFFFFFFFFu;
  struct State {
    std::uint32_t fallback = 0;     // the longest proper suffix that is a state
    std::uint32_t depth = 0;        // bytes of the string that leads here
    std::uint32_t string = 0;       // some stop string that starts with it
    std::uint32_t match = nothing;  // the longest stop string that ends here
  };

  std::vector<std::string> strings_;
  ByteTrie trie_;
  std::vector<State> states_;
  std::size_t longest_ = 0;
};

/// One stream's place in the automaton: a value of two words, copied to fork, assigned back to rewind.
class StopMatcher {
 public:
  explicit StopMatcher(std::shared_ptr<const StopStrings> strings) noexcept : strings_(std::move(strings)) {}

  /// Appends to `out` what of the bytes so far can no longer be part of a stop string: at most held() + bytes.size().
  /// Returns the index of the stop string that is now complete: of those that end at the first byte where one does, the
  /// longest. Then the bytes before it were appended, and the rest of `bytes` was not looked at; reset() to go on.
  std::optional<std::size_t> feed(std::string_view bytes, std::string& out);
  /// The end: appends what waited.
  void finish(std::string& out);
  void reset() noexcept { state_ = 0; }
  /// Bytes that wait because they begin a stop string.
  std::size_t held() const noexcept { return strings_->states_[state_].depth; }
  std::size_t longest() const noexcept { return strings_->longest(); }

 private:
  std::shared_ptr<const StopStrings> strings_;
  std::uint32_t state_ = 0;
};

}  // namespace llminfer::text
