// Ctrl-C as a stop request.
#pragma once

#include <atomic>
#include <stop_token>
#include <thread>

namespace examples {

/// While it lives, the first SIGINT or SIGTERM requests a stop and the second ends the process. Make it before any
/// other thread (a Device starts some), because threads inherit which signals they take.
class Interrupt {
 public:
  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();

  std::stop_token token() const noexcept { return source_.get_token(); }
  bool requested() const noexcept { return source_.stop_requested(); }

 private:
  void wait();

  std::stop_source source_;
  std::atomic<bool> ending_{false};
  std::thread waiter_;  // takes the signals, so that no code runs inside a signal handler
};

}  // namespace examples
