// The library's threads start with all signals blocked, so that the host's handlers run on the host's threads.
#pragma once

#include <signal.h>

namespace llminfer::core {

/// Blocks all signals of the calling thread, and of those that it starts, while it lives.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    blocked_ = ::pthread_sigmask(SIG_SETMASK, &all, &before_) == 0;
  }
  ~SignalsBlocked() {
    if (blocked_) ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
  bool blocked_ = false;
};

}  // namespace llminfer::core
