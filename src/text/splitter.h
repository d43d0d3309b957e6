// Runs the passes of a pre-tokenizer over a text with PCRE2. Immutable; each caller brings its own Scratch.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llminfer::text {

class Splitter {
 public:
  /// Compiles the passes (see PreRules). `jit`: let PCRE2 make machine code where it can; the results are the same.
  explicit Splitter(std::span<const std::string_view> passes, bool jit = true);
  ~Splitter();
  Splitter(const Splitter&) = delete;
  Splitter& operator=(const Splitter&) = delete;

  /// Memory of one caller.
  class Scratch {
   public:
    explicit Scratch(const Splitter& splitter);
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

   private:
    friend class Splitter;
    struct Body;
    std::unique_ptr<Body> body_;
    std::vector<std::size_t> before_;
  };

  /// Sets `ends` to where each piece ends, ascending, the last at text.size(). The text must be UTF-8.
  void split(std::string_view text, Scratch& scratch, std::vector<std::size_t>& ends) const;
  /// As split for any bytes: what is not UTF-8 counts as U+FFFD, one for each maximal subpart.
  void split_bytes(std::string_view text, Scratch& scratch, std::vector<std::size_t>& ends) const;

 private:
  struct Pass;
  void run(const Pass& pass, std::string_view text, Scratch& scratch, std::vector<std::size_t>& ends) const;

  std::vector<Pass> passes_;
};

}  // namespace llminfer::text
