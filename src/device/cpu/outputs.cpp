// What a step gives back, and how the threads find it in the logits that each has just made.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "device/common/reduce_outputs.h"
#include "device/cpu/executor.h"

namespace llminfer::cpu {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

/// Of equals the lowest id: threads come to columns in any order.
bool is_better(const BestLogit& a, const BestLogit& b) noexcept {
  if (device::ranks_before(a.score, b.score)) return true;
  return a.id < b.id && !device::ranks_before(b.score, a.score);
}

/// Takes a logit into the falling list of the best k.
void insert(BestLogit* list, std::int64_t k, const BestLogit& logit) noexcept {
  std::int64_t at = k;
  for (; at > 0 && is_better(logit, list[at - 1]); --at) {
    if (at < k) list[at] = list[at - 1];
  }
  if (at < k) list[at] = logit;
}

}  // namespace

BestLogit* Executor::bests_of(int thread) const noexcept {
  return reinterpret_cast<BestLogit*>(base_ + program_.plan().bests_at +
                                      program_.plan().bests_bytes * static_cast<std::uint64_t>(thread));
}

BestLogit* Executor::tops_of(int thread, std::int64_t row) const noexcept {
  const WorkspacePlan& plan = program_.plan();
  return reinterpret_cast<BestLogit*>(base_ + plan.tops_at + plan.tops_bytes * static_cast<std::uint64_t>(thread)) +
         row * outputs_.k;
}

LogitSum* Executor::sums_of(std::int64_t row) const noexcept {
  const std::int64_t blocks = (width(program_.graph().logits) + sum_columns - 1) / sum_columns;
  return reinterpret_cast<LogitSum*>(base_ + program_.plan().sums_at) + row * blocks;
}

/// Tokens [begin, end) that row `row` of the outputs does not allow get minus infinity.
void Executor::forbid(std::int64_t row, std::int64_t begin, std::int64_t end, float* logits) const noexcept {
  if (outputs_.allowed.empty()) return;
  const std::int64_t words = (width(program_.graph().logits) + 31) / 32;
  const std::uint32_t* allowed = outputs_.allowed.data() + row * words;
  for (std::int64_t w = begin / 32; w * 32 < end; ++w) {
    if (allowed[w] == ~std::uint32_t{0}) continue;
    for (std::int64_t id = std::max(begin, 32 * w); id < std::min(end, 32 * w + 32); ++id) {
      float& logit = logits[id - begin];
      if ((allowed[w] >> id % 32 & 1U) == 0 && !std::isnan(logit)) logit = minus_infinity;
    }
  }
}

/// Before the thread sees any.
void Executor::forget_bests(int thread) noexcept {
  if (bests_) std::fill_n(bests_of(thread), outputs_count_, BestLogit{});
  if (tops_) std::fill_n(tops_of(thread, 0), outputs_count_ * outputs_.k, no_logit);
}

/// The thread's best logit of each row, now that those of some columns are there.
void Executor::find_bests(const core::Share& columns, const LogitRows& rows, int thread) noexcept {
  const std::int64_t count = columns.end - columns.begin;
  BestLogit* bests = bests_of(thread);
  for (std::int64_t r = 0; r < outputs_count_; ++r) {
    float* logits = rows.at + r * rows.stride;
    forbid(r, columns.begin, columns.end, logits);
    const float top = kernels_.largest(logits, count);
    if (device::ranks_before(bests[r].score, top)) continue;
    const auto is_top = [top](float logit) { return !device::ranks_before(top, logit); };
    const std::int64_t at = std::find_if(logits, logits + count, is_top) - logits;
    const BestLogit best{logits[at], static_cast<std::int32_t>(columns.begin + at)};
    if (is_better(best, bests[r])) bests[r] = best;
  }
}

/// The thread's k best logits of each row, now that those of some columns are there; and the sums of blocks of columns,
/// whose logits are gone then.
void Executor::find_tops(const core::Share& columns, const LogitRows& rows, int thread) noexcept {
  const auto [begin, end] = columns;
  const std::int64_t k = outputs_.k;
  for (std::int64_t r = 0; r < outputs_count_; ++r) {
    float* logits = rows.at + r * rows.stride;
    forbid(r, begin, end, logits);
    BestLogit* list = tops_of(thread, r);
    for (std::int64_t b = begin; b < end; b += sum_columns) {
      const std::int64_t count = std::min(end - b, sum_columns);
      float* block = logits + (b - begin);
      const float top = kernels_.largest(block, count);
      if (is_better({top, static_cast<std::int32_t>(b)}, list[k - 1])) {
        for (std::int64_t i = 0; i < count; ++i) insert(list, k, {block[i], static_cast<std::int32_t>(b + i)});
      }
      sums_of(r)[b / sum_columns] = {top,
                                     top == minus_infinity ? 0.0F : kernels_.exponentials(block, block, count, top)};
    }
  }
}

void Executor::merge_bests(std::int64_t row, int threads) noexcept {
  BestLogit best;
  for (int thread = 0; thread < threads; ++thread) {
    const BestLogit& other = bests_of(thread)[row];
    if (is_better(other, best)) best = other;
  }
  outputs_.ids[static_cast<std::size_t>(row)] = best.id;
  outputs_.scores[static_cast<std::size_t>(row)] = best.score;
}

/// The k best of all threads' lists; and the sums of blocks from left to right, so that no bit depends on the threads.
void Executor::merge_tops(std::int64_t row, int threads) noexcept {
  const std::int64_t k = outputs_.k, columns = width(program_.graph().logits);
  std::array<std::int32_t, core::ThreadPool::max_threads> taken{};
  std::int32_t* ids = outputs_.ids.data() + row * k;
  float* scores = outputs_.scores.data() + row * k;
  for (std::int64_t i = 0; i < k; ++i) {  // k is at most the number of columns: some list has one left
    int from = 0;
    BestLogit best = no_logit;
    for (int thread = 0; thread < threads; ++thread) {
      const std::int32_t at = taken[static_cast<std::size_t>(thread)];
      if (at == k || !is_better(tops_of(thread, row)[at], best)) continue;
      from = thread;
      best = tops_of(thread, row)[at];
    }
    ++taken[static_cast<std::size_t>(from)];
    ids[i] = best.id;
    scores[i] = best.score;
  }
  double sum = 0;
  const LogitSum* sums = sums_of(row);
  for (std::int64_t b = 0; b * sum_columns < columns; ++b) {
    sum += sums[b].sum * std::exp(static_cast<double>(sums[b].top) - scores[0]);
  }
  outputs_.log_sum_exp[static_cast<std::size_t>(row)] =
      scores[0] == minus_infinity ? minus_infinity : static_cast<float>(scores[0] + std::log(sum));
}

void Executor::finish(int thread, int threads) noexcept {
  const core::Share share = core::share_of(outputs_count_, thread, threads);
  const backend::Graph& graph = program_.graph();
  for (std::int64_t r = share.begin; r < share.end; ++r) {
    switch (outputs_.kind) {
      case backend::OutputKind::hidden:
        std::memcpy(outputs_.values.data() + r * width(graph.hidden), value(graph.hidden, r, thread),
                    sizeof(float) * static_cast<std::size_t>(width(graph.hidden)));
        break;
      case backend::OutputKind::logits:
        if (logits_ != nullptr) break;
        std::memcpy(outputs_.values.data() + r * width(graph.logits), value(graph.logits, r, thread),
                    sizeof(float) * static_cast<std::size_t>(width(graph.logits)));
        break;
      case backend::OutputKind::arg_max:
        if (bests_) {
          merge_bests(r, threads);
          break;
        }
        [[fallthrough]];
      case backend::OutputKind::top_k:
        if (tops_) {
          merge_tops(r, threads);
          break;
        }
        device::reduce_row({value(graph.logits, r, thread), static_cast<std::size_t>(width(graph.logits))},
                           static_cast<std::size_t>(r), outputs_);
        break;
    }
  }
}

}  // namespace llminfer::cpu
