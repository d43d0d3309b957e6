// Text that remembers where each byte came from, through every string operation of a template.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llminfer::text::jinja {

/// Where a byte came from. Only markup may spell a special token.
enum class Origin : std::uint8_t {
  markup,   ///< the template's own words, and what the application vouches for
  content,  ///< messages, tools and whatever else came from outside
  tail,     ///< the mark behind a message that is to be continued; never reaches a prompt
};

/// Bytes [end of the run before, end) have one origin.
struct Run {
  std::size_t end;
  Origin origin;
};

/// Bytes and their origins. Neighbouring runs always differ and none is empty.
class SpannedText {
 public:
  SpannedText() = default;
  SpannedText(std::string_view text, Origin origin) { append(text, origin); }

  const std::string& bytes() const noexcept { return bytes_; }
  std::string_view view() const noexcept { return bytes_; }
  std::size_t size() const noexcept { return bytes_.size(); }
  bool empty() const noexcept { return bytes_.empty(); }
  const std::vector<Run>& runs() const noexcept { return runs_; }

  /// Origin of the byte at `offset` < size().
  Origin origin_at(std::size_t offset) const noexcept { return runs_[run_at(offset)].origin; }
  void append(std::string_view text, Origin origin);
  /// Bytes [begin, end) of another text, which must not be this one.
  void append(const SpannedText& other, std::size_t begin, std::size_t end);
  void append(const SpannedText& other) { append(other, 0, other.size()); }
  void truncate(std::size_t size) noexcept;

 private:
  std::size_t run_at(std::size_t offset) const noexcept;

  std::string bytes_;
  std::vector<Run> runs_;
};

}  // namespace llminfer::text::jinja
