#include "core/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "core/fail.h"
#include "core/futex.h"
#include "core/signals_blocked.h"

namespace llminfer::core {
namespace {

using Clock = std::chrono::steady_clock;

// How long a waiting thread keeps its core before it gives it away. A pause takes about 40 to 140 cycles, so 2000 are
// some 30 to 90 us: longer than the differences between threads in one phase. Where the core is wanted by others of the
// pool (more threads than cores), the one that is waited for may need this very core, and every pause is lost: then the
// patience falls to its least. So it adapts: waits that end while spinning double it, waits that do not quarter it.
constexpr int most_spins_with_cores = 2000;
constexpr int least_spins = 30;
// Yields before a worker without work sleeps: about a millisecond on an idle machine, enough to bridge the sampling
// between two tokens.
constexpr int yields_before_sleep = 1500;
// A yield that takes this long gave the core to a stranger for a time slice. Then the next waits sleep: who sleeps gets
// its core back as soon as it is woken, who yields when the stranger's slice is over. The more often yields prove long,
// the longer until another one is tried.
constexpr auto long_yield = std::chrono::microseconds(500);
constexpr int least_sleeps = 4;
constexpr int most_sleeps = 1024;

void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("isb");  // as long as x86's pause; `yield` takes no time on most cores
#endif
}

// Counters wrap around after 2^32 phases; their distance does not.
bool reached(std::uint32_t value, std::uint32_t target) noexcept {
  return static_cast<std::int32_t>(value - target) >= 0;
}

void more_patience(int& spins, int most) noexcept { spins = std::min(spins * 2, most); }
void less_patience(int& spins) noexcept { spins = std::max(spins / 4, least_spins); }

/// Yields once; whether that took long.
bool yield_is_long() noexcept {
  const Clock::time_point start = Clock::now();
  ::sched_yield();
  return Clock::now() - start > long_yield;
}

int most_spins_for(int threads) noexcept {
  const unsigned cores = std::thread::hardware_concurrency();  // on Linux, those this process may run on
  return cores != 0 && static_cast<unsigned>(threads) > cores ? least_spins : most_spins_with_cores;
}

}  // namespace

ThreadPool::ThreadPool(int threads) : threads_(threads), most_spins_(most_spins_for(threads)) {
  if (threads < 1 || threads > max_threads) {
    fail(ErrorCode::invalid_argument, "threads must be 1 to {}, not {}", max_threads, threads);
  }
  const auto count = static_cast<std::size_t>(threads);
  slots_ = std::make_unique<Slot[]>(count);
  for (std::size_t i = 0; i < count; ++i) slots_[i].barriers.spins = slots_[i].between_runs.spins = most_spins_;
  workers_.reserve(count - 1);
  const SignalsBlocked blocked;
  try {
    for (int thread = 1; thread < threads; ++thread) {
      workers_.emplace_back([this, thread]() noexcept { work(thread); });
    }
  } catch (const std::system_error& error) {
    stop_workers();
    fail(ErrorCode::unavailable, "the system refused thread {} of {}: {}", workers_.size() + 2, threads, error.what());
  } catch (...) {
    stop_workers();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop_workers(); }

void ThreadPool::wait_until_reached(const std::atomic<std::uint32_t>& counter, std::uint32_t target,
                                    Patience& patience) noexcept {
  if (reached(counter.load(std::memory_order_acquire), target)) return;
  const int spins = patience.sleeps > 0 ? most_spins_ : patience.spins;
  for (int i = 0; i < spins; ++i) {
    pause();
    if (reached(counter.load(std::memory_order_acquire), target)) return more_patience(patience.spins, most_spins_);
  }
  less_patience(patience.spins);
  if (patience.sleeps > 0) {
    --patience.sleeps;
    return sleep_until_reached(counter, target);
  }
  while (!reached(counter.load(std::memory_order_acquire), target)) {
    if (!yield_is_long()) continue;
    patience.sleeps = std::max(patience.next_sleeps, least_sleeps);
    patience.next_sleeps = std::min(2 * patience.sleeps, most_sleeps);
    return sleep_until_reached(counter, target);
  }
  patience.next_sleeps /= 2;
}

// Either this thread sees the counter reached, or who reaches it sees a sleeper: both look after they wrote, in the one
// order of sequentially consistent operations.
void ThreadPool::sleep_until_reached(const std::atomic<std::uint32_t>& counter, std::uint32_t target) noexcept {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  for (std::uint32_t seen = 0; !reached(seen = counter.load(std::memory_order_seq_cst), target);) {
    sleep_while(counter, seen);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void ThreadPool::reach(std::atomic<std::uint32_t>& counter, std::uint32_t value) noexcept {
  counter.exchange(value, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) wake_all(counter);
}

void ThreadPool::stop_workers() noexcept {
  stopping_.store(true, std::memory_order_relaxed);
  reach(run_, run_.load(std::memory_order_relaxed) + 1);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(Function function, void* context) noexcept {
  take_turn();
  function_ = function;
  context_ = context;
  const std::uint32_t current = run_.load(std::memory_order_relaxed) + 1;  // this thread's turn: nobody else writes it
  reach(run_, current);
  function(context, 0, threads_);
  for (int thread = 1; thread < threads_; ++thread) {
    wait_until_reached(slots_[static_cast<std::size_t>(thread)].runs, current, slots_[0].between_runs);
  }
  end_turn();
}

void ThreadPool::barrier(int thread) noexcept {
  Slot& own = slots_[static_cast<std::size_t>(thread)];
  const std::uint32_t phase = own.phase.load(std::memory_order_relaxed) + 1;
  reach(own.phase, phase);
  // Each begins with its right neighbour, so that not all look at the same line first.
  for (int step = 1; step < threads_; ++step) {
    const int other = thread + step < threads_ ? thread + step : thread + step - threads_;
    wait_until_reached(slots_[static_cast<std::size_t>(other)].phase, phase, own.barriers);
  }
}

void ThreadPool::work(int thread) noexcept {
  Slot& own = slots_[static_cast<std::size_t>(thread)];
  std::uint32_t last = 0;
  while (true) {
    last = await_run(last, own.between_runs);
    if (stopping_.load(std::memory_order_relaxed)) return;
    function_(context_, thread, threads_);
    reach(own.runs, last);
  }
}

// Waits for the run after `last` and gives its number. Runs cannot be missed: the next one begins only after this
// thread has finished the one before.
std::uint32_t ThreadPool::await_run(std::uint32_t last, Patience& patience) noexcept {
  const std::uint32_t next = last + 1;
  for (int i = 0; i < patience.spins; ++i) {
    if (run_.load(std::memory_order_acquire) == next) {
      more_patience(patience.spins, most_spins_);
      return next;
    }
    pause();
  }
  less_patience(patience.spins);
  for (int i = 0; i < yields_before_sleep && run_.load(std::memory_order_acquire) != next; ++i) {
    if (yield_is_long()) break;
  }
  sleep_until_reached(run_, next);
  return next;
}

// Callers are served in order. They sleep while they wait: a run takes milliseconds.
void ThreadPool::take_turn() noexcept {
  const std::uint32_t ticket = next_ticket_.fetch_add(1, std::memory_order_relaxed);
  std::uint32_t serving = 0;
  while ((serving = serving_.load(std::memory_order_acquire)) != ticket) {
    serving_.wait(serving, std::memory_order_seq_cst);
  }
}

void ThreadPool::end_turn() noexcept {
  serving_.fetch_add(1, std::memory_order_seq_cst);
  serving_.notify_all();
}

}  // namespace llminfer::core
