// Answers of a batch, written in the order of the prompts whatever the order in which they end.
#pragma once

#include <condition_variable>
#include <cstdio>
#include <deque>
#include <llminfer/generator.hpp>
#include <mutex>
#include <string>
#include <vector>

namespace examples {

/// One continuation of a prompt.
struct Answer {
  std::string text{};
  llminfer::Result<llminfer::Outcome> outcome = llminfer::Outcome{};
  bool ended = false;
};

/// (any thread) Answers of the prompts that are not written yet. A line of JSON is written as soon as all answers of a
/// prompt and of those before it are there.
class Results {
 public:
  explicit Results(std::FILE* out) : out_(out) {}

  /// A prompt with `count` answers to come; its number.
  std::size_t add(int count);
  /// A prompt that cannot be answered.
  void add_error(const std::string& message);

  void append(std::size_t prompt, int answer, std::string_view text);
  void end(std::size_t prompt, int answer, llminfer::Result<llminfer::Outcome> outcome);

  /// Waits until at most `open` prompts have answers to come, or for `most`. False: it took longer.
  bool wait(std::size_t open, std::chrono::milliseconds most);

  std::size_t done() const;
  std::size_t all() const;
  std::size_t failed() const;
  std::size_t new_tokens() const;

 private:
  struct Entry {
    std::vector<Answer> answers{};
    int to_come = 0;
    std::string error{};
  };
  Entry& at(std::size_t prompt) { return entries_[prompt - first_]; }
  void write_ready();
  void write(std::size_t prompt, const Entry& entry);

  std::FILE* const out_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;  // from prompt first_ on
  std::size_t first_ = 0;
  std::size_t open_ = 0;
  std::size_t failed_ = 0;
  std::size_t new_tokens_ = 0;
};

}  // namespace examples
