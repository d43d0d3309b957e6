// One step of a batch: what goes in, what comes out. Versioned with backend.hpp, unstable until 1.0.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include <llminfer/error.hpp>
#include <llminfer/types.hpp>

namespace llminfer {
inline namespace v0 {
namespace backend {

/// Result of a step, without allocation: `message` is a static string, null on success.
struct Status {
  ErrorCode code = ErrorCode::invalid_argument;
  const char* message = nullptr;
  bool ok() const noexcept { return message == nullptr; }
};

/// Pages of one sequence in one state group: entry i is the page that holds positions [i * page_size, (i+1) *
/// page_size), or -1 where no query can reach any more. Owned by the caller, unchanged during the step.
struct PageTable {
  const std::int32_t* pages = nullptr;
  std::int32_t count = 0;
};

/// Tokens [first, first + count) of the batch belong to one sequence and stand at positions start, start + 1, ...
struct SequenceRange {
  std::int32_t first = 0;
  std::int32_t count = 0;
  std::int32_t start = 0;
  std::int32_t adapter = 0;  ///< 0 = none; devices of this version refuse others
};

/// A step over n tokens. Ranges cover the tokens in order; positions of a range count up by one. Everything is borrowed
/// for the duration of the call.
struct StepBatch {
  std::span<const Token> tokens{};            ///< [n]
  std::span<const std::int32_t> positions{};  ///< [n]
  std::span<const SequenceRange> sequences{};
  std::span<const PageTable> page_tables{};     ///< [state groups x sequences], group-major
  std::span<const std::int32_t> output_rows{};  ///< token indices whose outputs are wanted, rising
};

/// In arg_max and top_k, a token outside the mask counts as -infinity and is chosen only where nothing else is left
/// (then too lower ids first). A NaN counts as more than any number, its token allowed or not, so that none goes
/// unseen; log_sum_exp is then NaN, and -infinity of a row where every logit is.
enum class OutputKind : std::uint8_t {
  logits,   ///< values: rows x width of Graph::logits
  hidden,   ///< values: rows x width of Graph::hidden; the head does not run
  arg_max,  ///< ids, scores [rows]: the best logit, lowest id on ties
  top_k,    ///< ids, scores [rows x k]: falling, lower id first on ties; log_sum_exp [rows] over the allowed tokens
};

/// Where outputs go: host memory of the caller. Spans that the kind does not use may be empty.
struct StepOutputs {
  OutputKind kind = OutputKind::logits;
  std::span<float> values{};
  std::span<std::int32_t> ids{};
  std::span<float> scores{};
  std::span<float> log_sum_exp{};
  std::int32_t k = 0;                        ///< top_k only
  std::span<const std::uint32_t> allowed{};  ///< empty, or rows x ceil(vocabulary / 32) words: bit set = token allowed
};

/// Set from any thread to end a step early; a device may look at it between layers or not at all.
class StopFlag {
 public:
  void request() noexcept { stop_.store(true, std::memory_order_relaxed); }
  void clear() noexcept { stop_.store(false, std::memory_order_relaxed); }
  bool requested() const noexcept { return stop_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> stop_{false};
};

/// Time spent on ops [first_op, first_op + op_count) of the graph. Times in nanoseconds of one monotonic clock.
struct OpSpan {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t wait_ns = 0;  ///< of this time, what the calling thread spent waiting for the others
  std::int32_t first_op = 0;
  std::int32_t op_count = 0;
};

/// Receives spans in order, on the thread that called run(). Must not block.
class ProfileSink {
 public:
  virtual ~ProfileSink() = default;
  virtual void on_span(const OpSpan& span) noexcept = 0;
};

}  // namespace backend
}  // namespace v0
}  // namespace llminfer
