// Ctrl-C that means what is going on: it cancels an answer, and at the prompt it is reported like a line.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

namespace examples {

/// While it lives, SIGINT ends nothing by itself. Make it before any other thread (a Device starts some), because
/// threads inherit which signals they take.
class CtrlC {
 public:
  CtrlC();
  CtrlC(const CtrlC&) = delete;
  CtrlC& operator=(const CtrlC&) = delete;
  ~CtrlC();

  /// Work that Ctrl-C cancels, for as long as the object lives; one at a time.
  class Work {
   public:
    explicit Work(CtrlC& owner) : owner_(owner), token_(owner.begin()) {}
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    ~Work() { owner_.end(); }
    const std::stop_token& token() const noexcept { return token_; }

   private:
    CtrlC& owner_;
    std::stop_token token_;
  };

  /// A pipe that has a byte for each Ctrl-C that met no work. Whoever waits for input waits for this too.
  int fd() const noexcept { return pipe_[0]; }

 private:
  std::stop_token begin();
  void end();
  void wait();

  int pipe_[2] = {-1, -1};
  std::mutex mutex_;
  std::optional<std::stop_source> work_;  // guarded by mutex_
  std::atomic<bool> ending_{false};
  std::thread waiter_;  // takes the signals, so that no code runs inside a signal handler
};

}  // namespace examples
