// The sandbox of a template run: how many steps it may take, how much memory its values may hold, how deep it may nest.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/fail.h"

namespace llminfer::text::jinja {

/// Bounds of parsing and of one run. Exceeding one is an Error (corrupt while parsing, invalid_argument while running).
struct Limits {
  std::size_t source_bytes = std::size_t{1} << 20;  ///< longest template
  int parse_depth = 100;                            ///< nesting of expressions and blocks in the source
  std::uint64_t steps = 100'000'000;                ///< nodes evaluated, plus one for each 32 bytes or element touched
  int depth = 600;                                  ///< nested evaluations; a macro call takes about six
  int value_depth = 128;                            ///< nesting of lists and dicts
  std::size_t memory_bytes = std::size_t{512} << 20;  ///< what values may hold at one time
  std::size_t output_bytes = std::size_t{64} << 20;   ///< length of the rendered text
};

/// Counts what one run uses. Values hold a pointer to it: it outlives them. One thread.
class Meter {
 public:
  explicit Meter(const Limits& limits) noexcept : limits_(limits) {}
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  void step(std::uint64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.steps) {
      core::fail(ErrorCode::invalid_argument, "the template takes more than {} steps", limits_.steps);
    }
  }
  /// Work over `bytes` bytes.
  void touch(std::size_t bytes) { step(1 + bytes / 32); }
  void take(std::size_t bytes) {
    if (bytes > limits_.memory_bytes - used_) {
      core::fail(ErrorCode::invalid_argument, "the template's values need more than {} bytes", limits_.memory_bytes);
    }
    used_ += bytes;
  }
  void give(std::size_t bytes) noexcept { used_ -= bytes; }
  const Limits& limits() const noexcept { return limits_; }

  /// One level of nested evaluation while it lives.
  class Level {
   public:
    explicit Level(Meter& meter) : meter_(meter) {
      if (meter_.depth_ >= meter_.limits_.depth) {
        core::fail(ErrorCode::invalid_argument, "the template nests deeper than {} evaluations", meter_.limits_.depth);
      }
      ++meter_.depth_;
    }
    ~Level() { --meter_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Meter& meter_;
  };

 private:
  Limits limits_;
  std::uint64_t steps_ = 0;
  std::size_t used_ = 0;
  int depth_ = 0;
};

}  // namespace llminfer::text::jinja
