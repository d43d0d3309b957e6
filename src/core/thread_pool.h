// Threads that compute one thing together: fork, barriers inside, join. Made for a step of a decoder, which is some
// hundred short phases: workers spin between phases, and sleep only when no work comes for a while or when others keep
// the cores busy.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace llminfer::core {

/// A fixed number of threads, the caller of run() being one of them. Any thread may call run(); calls take turns in the
/// order in which they came. Nothing is allocated after construction.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): padding keeps what is polled on lines of its own
class ThreadPool {
 public:
  /// Runs on every thread of the pool. `thread` is in [0, threads); thread 0 is the caller of run().
  using Function = void (*)(void* context, int thread, int threads) noexcept;

  static constexpr int max_threads = 1024;

  /// Starts threads - 1 workers. Throws Exception{invalid_argument} unless 1 <= threads <= max_threads, and
  /// Exception{unavailable} if the system refuses a thread; none is left running then.
  explicit ThreadPool(int threads);
  /// No run() may be in progress.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const noexcept { return threads_; }

  /// Calls function(context, t, threads()) once for every t at the same time and returns when all have returned. What
  /// the caller wrote before is visible to all of them, what they wrote is visible after. Must not be called from
  /// inside a run of the same pool.
  void run(Function function, void* context) noexcept;

  /// Inside a run only: waits until every thread of the pool is here, and makes what each wrote before visible to all.
  /// `thread` is the number that the function was given. Every thread must make the same number of calls in a run.
  void barrier(int thread) noexcept;

 private:
  /// How long a thread spins before it gives its core away, and whether it then sleeps at once instead of yielding.
  struct Patience {
    int spins = 0;
    int sleeps = 0;       ///< so many waits to come
    int next_sleeps = 0;  ///< if the next yield after those is a long one again
  };

  // One cache line a thread, so that a thread's store disturbs nobody but those who wait for it. (128: neighbouring
  // lines are fetched in pairs.)
  // NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
  struct alignas(128) Slot {
    std::atomic<std::uint32_t> phase{0};  // barriers this thread has reached since construction
    std::atomic<std::uint32_t> runs{0};   // runs this thread has finished since construction
    // Touched by this thread alone, so on a line that nobody polls.
    alignas(128) Patience barriers{};
    Patience between_runs{};
  };

  void work(int thread) noexcept;
  void wait_until_reached(const std::atomic<std::uint32_t>& counter, std::uint32_t target, Patience& patience) noexcept;
  void sleep_until_reached(const std::atomic<std::uint32_t>& counter, std::uint32_t target) noexcept;
  void reach(std::atomic<std::uint32_t>& counter, std::uint32_t value) noexcept;
  std::uint32_t await_run(std::uint32_t last, Patience& patience) noexcept;
  void take_turn() noexcept;
  void end_turn() noexcept;
  void stop_workers() noexcept;

  const int threads_;
  const int most_spins_;
  std::unique_ptr<Slot[]> slots_;
  std::vector<std::thread> workers_;

  // Written by the caller of run() before it counts `run_` up, read by workers after they saw that.
  Function function_ = nullptr;
  void* context_ = nullptr;
  std::atomic<bool> stopping_{false};
  alignas(128) std::atomic<std::uint32_t> run_{0};  // runs begun since construction; workers sleep on it
  alignas(128) std::atomic<int> sleepers_{0};       // threads that sleep, or are about to, until a counter is reached

  // The queue of callers: who holds the number that is being served may run.
  alignas(128) std::atomic<std::uint32_t> next_ticket_{0};
  std::atomic<std::uint32_t> serving_{0};
};

/// Runs body(thread, threads) on every thread of the pool. The body must be noexcept: nothing could catch what it
/// throws on a worker.
template <class Body>
void parallel(ThreadPool& pool, Body&& body) noexcept {
  using Plain = std::remove_reference_t<Body>;
  static_assert(std::is_nothrow_invocable_v<Plain&, int, int>, "the body must be noexcept and take (thread, threads)");
  const auto call = [](void* context, int thread, int threads) noexcept {
    (*static_cast<Plain*>(context))(thread, threads);
  };
  pool.run(call, const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

/// A half-open range of work items.
struct Share {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// The thread's part of `count` items, cut at multiples of `grain` (> 0): contiguous, in the order of threads, sizes
/// differing by at most one grain. Parts may be empty.
constexpr Share share_of(std::int64_t count, int thread, int threads, std::int64_t grain = 1) noexcept {
  const std::int64_t grains = count / grain + (count % grain != 0 ? 1 : 0);
  const std::int64_t each = grains / threads;
  const std::int64_t more = grains % threads;  // the first `more` threads take one grain more
  const std::int64_t first = thread * each + (thread < more ? thread : more);
  const std::int64_t last = first + each + (thread < more ? 1 : 0);
  return {first * grain < count ? first * grain : count, last * grain < count ? last * grain : count};
}

}  // namespace llminfer::core
