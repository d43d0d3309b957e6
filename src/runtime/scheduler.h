// Which sequences the next step computes. A pure function: state in, plan out; it knows numbers only.
//
// Policy, per step:
//  * Rank: higher priority first, then who came first. Age counts as priority (one level every `aging` steps), so that
//    nobody waits for ever behind a stream of higher ones.
//  * Pages (of each class, see PageCounts): a running sequence gets the page that its next token needs; if none is free
//  the worst-ranked holder of
//    pages loses all of its own (preemption: its tokens stay and are computed again later). Those that do not compute
//    anyway (their client does not read, or they wait) lose theirs first.
//  * Admission: in rank order while there is a place and pages for the whole history; the first that does not fit
//    blocks those behind it, so that a long prompt is not passed over for ever. Only a higher priority pushes a running
//    one out. Of equal priorities the caller that got least for its weight comes first.
//  * Tokens: one for each sequence that generates, then chunks of histories still to compute. Equal priorities share by
//    weight: callers with the fewest tokens per weight so far first, and so among the requests of a caller. A part of
//    the step is kept for chunks, so that many generating sequences do not keep a prompt waiting.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/page_counts.h"

namespace llminfer::runtime {

/// Fixed at start.
struct SchedulerLimits {
  std::int32_t step_tokens = 512;   ///< most tokens of a step
  std::int32_t max_sequences = 32;  ///< most running sequences
  PageCounts total_pages{};
  std::uint64_t aging = 4096;  ///< steps that count as much as one level of priority
};

/// One live request as the scheduler sees it.
struct ScheduledRequest {
  std::uint64_t arrival = 0;       ///< order of submission, unique
  std::uint64_t arrival_step = 0;  ///< step count at submission
  int priority = 0;
  std::int32_t tokens = 0;    ///< history
  std::int32_t computed = 0;  ///< of these, less than tokens if it is ready
  PageCounts pages{};         ///< in its tables: what it gives back when it loses them
  PageCounts missing{};       ///< to take before it can go on; of groups without a window for its whole history
  double served = 0;          ///< tokens computed so far, over its weight
  double caller_served = 0;   ///< the same of all requests of its caller
  bool running = false;       ///< admitted and not preempted since
  bool ready = false;         ///< has tokens to compute, and a client that will take what follows
};

struct SchedulerState {
  std::span<const ScheduledRequest> requests{};
  PageCounts free_pages{};
  std::uint64_t step = 0;
};

/// Indices into SchedulerState::requests. Carried out in this order: preempt, admit, then items.
struct Schedule {
  struct Item {
    std::int32_t request = 0;
    std::int32_t count = 0;  ///< of its next uncomputed tokens
  };
  std::vector<std::int32_t> preempt{};  ///< lose their pages and run no more
  std::vector<std::int32_t> admit{};    ///< run from now on
  std::vector<std::int32_t> fail{};     ///< cannot be computed even alone: out of pages
  std::vector<Item> items{};            ///< the step; each request at most once, all running

  // Scratch of schedule(), here so that it is reserved once.
  std::vector<std::int32_t> order{};
  std::vector<std::uint8_t> marks{};
  std::vector<std::int64_t> levels{};

  /// Room for `requests` requests; after this schedule() allocates nothing.
  void reserve(std::size_t requests);
  bool empty() const noexcept { return preempt.empty() && fail.empty() && items.empty(); }
};

/// At most Schedule's reserved number of requests. Same state, same plan.
void schedule(const SchedulerLimits& limits, const SchedulerState& state, Schedule& out) noexcept;

}  // namespace llminfer::runtime
