#include "runtime/scheduler.h"

#include <algorithm>

namespace llminfer::runtime {
namespace {

enum Mark : std::uint8_t { none = 0, preempted = 1, admitted = 2, failed = 4, granted = 8 };

bool differ(double a, double b) noexcept { return a < b || b < a; }

/// One call's work on one state.
class Planner {
 public:
  Planner(const SchedulerLimits& limits, const SchedulerState& state, Schedule& out) noexcept
      : limits_(limits), state_(state), out_(out), free_(state.free_pages) {
    out_.preempt.clear();
    out_.admit.clear();
    out_.fail.clear();
    out_.items.clear();
    out_.order.clear();
    out_.levels.clear();
    out_.marks.assign(state_.requests.size(), Mark::none);
    for (std::size_t i = 0; i < state_.requests.size(); ++i) {
      out_.order.push_back(static_cast<std::int32_t>(i));
      out_.levels.push_back(level_of(state_.requests[i]));
      running_ += state_.requests[i].running ? 1 : 0;
    }
    std::sort(out_.order.begin(), out_.order.end(), [this](std::int32_t a, std::int32_t b) { return before(a, b); });
  }

  void run() noexcept {
    keep_pages();
    admit_waiting();
    share_tokens();
  }

 private:
  const ScheduledRequest& at(std::int32_t i) const noexcept { return state_.requests[static_cast<std::size_t>(i)]; }
  std::uint8_t& mark(std::int32_t i) noexcept { return out_.marks[static_cast<std::size_t>(i)]; }
  bool gone(std::int32_t i) noexcept { return (mark(i) & (Mark::preempted | Mark::failed)) != 0; }
  bool runs(std::int32_t i) noexcept { return !gone(i) && (at(i).running || (mark(i) & Mark::admitted) != 0); }

  std::int64_t level_of(const ScheduledRequest& request) const noexcept {
    const std::uint64_t age = state_.step - std::min(state_.step, request.arrival_step);
    return std::int64_t{request.priority} + static_cast<std::int64_t>(age / std::max<std::uint64_t>(1, limits_.aging));
  }
  std::int64_t level(std::int32_t i) const noexcept { return out_.levels[static_cast<std::size_t>(i)]; }
  bool before(std::int32_t a, std::int32_t b) const noexcept {
    if (level(a) != level(b)) return level(a) > level(b);
    if (at(a).running != at(b).running) return at(a).running;
    // Those that run keep their rank; of those that wait the caller with least comes first.
    if (!at(a).running && differ(at(a).caller_served, at(b).caller_served)) {
      return at(a).caller_served < at(b).caller_served;
    }
    return at(a).arrival < at(b).arrival;
  }
  /// Pages that come back when `i` loses its own, and those that this plan has given it.
  PageCounts pages_of(std::int32_t i) noexcept {
    return at(i).pages + ((mark(i) & Mark::granted) != 0 ? at(i).missing : PageCounts());
  }

  void preempt(std::int32_t i) noexcept {
    if (runs(i)) --running_;
    mark(i) |= Mark::preempted;
    free_ += pages_of(i);
    out_.preempt.push_back(i);
  }

  /// Who loses its pages before others: first those that compute nothing, then those that wait, then the running;
  /// each from the worst rank on. -1: nobody but `for_whom` and those that it may not push out.
  std::int32_t victim(std::int32_t for_whom, bool admission) noexcept {
    for (const int kind : {0, 1, 2}) {
      for (auto it = out_.order.rbegin(); it != out_.order.rend(); ++it) {
        const std::int32_t i = *it;
        if (i == for_whom || gone(i) || (mark(i) & Mark::admitted) != 0) continue;
        if (!at(i).running && (!at(i).pages.any() || (admission && running_ >= limits_.max_sequences))) continue;
        const int its_kind = !at(i).ready ? 0 : !at(i).running ? 1 : 2;
        if (its_kind != kind) continue;
        if (kind == 2 && admission && level(i) >= level(for_whom)) continue;
        if (kind == 2 && !admission && before(i, for_whom)) continue;
        return i;
      }
    }
    return -1;
  }

  /// Running sequences that compute get the pages of their history, best rank first.
  void keep_pages() noexcept {
    for (const std::int32_t i : out_.order) {
      if (!at(i).running || !at(i).ready || gone(i)) continue;
      const PageCounts& missing = at(i).missing;
      while (!missing.fit(free_)) {
        const std::int32_t other = victim(i, false);
        if (other < 0) break;
        preempt(other);
      }
      if (missing.fit(free_)) {
        free_ -= missing;
        mark(i) |= Mark::granted;
      } else if (running_ > 1) {
        preempt(i);  // a better one runs: wait for its pages
      } else {
        fail(i);
      }
    }
  }

  void fail(std::int32_t i) noexcept {
    if (runs(i)) --running_;
    mark(i) |= Mark::failed;
    free_ += pages_of(i);
    out_.fail.push_back(i);
  }

  void admit_waiting() noexcept {
    for (const std::int32_t i : out_.order) {
      if (at(i).running || !at(i).ready || gone(i)) continue;
      if (!make_room(i)) break;
    }
  }

  /// Admits `i` (or fails it, when it does not fit even alone). False: it must wait, and so must those behind it.
  bool make_room(std::int32_t i) noexcept {
    const PageCounts& missing = at(i).missing;
    const PageCounts spare = spare_pages();
    const auto fits = [&] {
      return running_ < limits_.max_sequences && (running_ > 0 ? missing + spare : missing).fit(free_);
    };
    if (!fits()) {
      const Room room = room_for(i, spare);
      if (room == Room::later) return false;
      if (room == Room::never) {
        fail(i);
        return true;
      }
    }
    while (!fits()) {
      const std::int32_t other = victim(i, true);
      if (other < 0) return false;
      preempt(other);
    }
    mark(i) |= Mark::admitted;
    ++running_;
    free_ -= missing;
    out_.admit.push_back(i);
    return true;
  }

  /// What stays free at an admission, for pages that the running will need soon.
  PageCounts spare_pages() const noexcept {
    PageCounts spare;
    for (std::size_t i = 0; i < PageCounts::classes; ++i) {
      if (limits_.total_pages[i] > 0) spare[i] = std::max<std::int64_t>(1, limits_.total_pages[i] / 64);
    }
    return spare;
  }

  enum class Room { now, later, never };

  /// Whether pushing out all that `i` may push out would make room: nobody loses its pages for nothing.
  Room room_for(std::int32_t i, const PageCounts& spare) noexcept {
    PageCounts pages = free_;
    std::int32_t places = running_;
    for (const std::int32_t other : out_.order) {
      if (other == i || gone(other) || (mark(other) & Mark::admitted) != 0) continue;
      if (at(other).running && at(other).ready && level(other) >= level(i)) continue;
      pages += pages_of(other);
      places -= at(other).running ? 1 : 0;
    }
    if (places == 0) return at(i).missing.fit(pages) ? Room::now : Room::never;
    return places < limits_.max_sequences && (at(i).missing + spare).fit(pages) ? Room::now : Room::later;
  }

  void share_tokens() noexcept {
    // The order by rank has done its work; now by priority, then by what each got for its weight.
    const auto idle = [this](std::int32_t i) { return !runs(i) || !at(i).ready; };
    out_.order.erase(std::remove_if(out_.order.begin(), out_.order.end(), idle), out_.order.end());
    std::sort(out_.order.begin(), out_.order.end(), [this](std::int32_t a, std::int32_t b) {
      if (level(a) != level(b)) return level(a) > level(b);
      if (differ(at(a).caller_served, at(b).caller_served)) return at(a).caller_served < at(b).caller_served;
      if (differ(at(a).served, at(b).served)) return at(a).served < at(b).served;
      return at(a).arrival < at(b).arrival;
    });
    std::int32_t generating = 0;
    std::int32_t chunks = 0;
    for (const std::int32_t i : out_.order) (left(i) == 1 ? generating : chunks) += 1;
    std::int32_t budget = limits_.step_tokens;
    // At least an eighth of the step for chunks; of a step of one token every second one.
    std::int32_t kept = chunks == 0 ? 0 : budget > 1 ? std::max(1, budget / 8) : static_cast<int>(state_.step % 2);
    if (generating == 0) kept = budget;
    budget -= give(true, budget - kept);
    give(false, budget);
  }

  std::int32_t left(std::int32_t i) const noexcept { return at(i).tokens - at(i).computed; }

  /// Items for the generating sequences, or for the others, of `budget` tokens in all; returns the tokens used.
  std::int32_t give(bool generating, std::int32_t budget) noexcept {
    std::int32_t used = 0;
    for (const std::int32_t i : out_.order) {
      if (used == budget) break;
      if ((left(i) == 1) != generating) continue;
      const std::int32_t count = std::min(left(i), budget - used);
      out_.items.push_back({i, count});
      used += count;
    }
    return used;
  }

  const SchedulerLimits& limits_;
  const SchedulerState& state_;
  Schedule& out_;
  PageCounts free_;
  std::int32_t running_ = 0;
};

}  // namespace

void Schedule::reserve(std::size_t requests) {
  preempt.reserve(requests);
  admit.reserve(requests);
  fail.reserve(requests);
  items.reserve(requests);
  order.reserve(requests);
  marks.reserve(requests);
  levels.reserve(requests);
}

void schedule(const SchedulerLimits& limits, const SchedulerState& state, Schedule& out) noexcept {
  Planner(limits, state, out).run();
}

}  // namespace llminfer::runtime
