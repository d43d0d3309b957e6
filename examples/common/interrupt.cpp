#include "interrupt.h"

#include <signal.h>
#include <unistd.h>

#include "program.h"

namespace examples {
namespace {

sigset_t signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

Interrupt::Interrupt() {
  const sigset_t set = signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  waiter_ = std::thread([this] { wait(); });
}

Interrupt::~Interrupt() {
  ending_ = true;
  pthread_kill(waiter_.native_handle(), SIGTERM);
  waiter_.join();
}

void Interrupt::wait() {
  const sigset_t set = signals();
  for (int taken = 0;;) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    if (ending_) return;
    if (++taken > 1) _exit(exit_interrupted);
    source_.request_stop();
  }
}

}  // namespace examples
