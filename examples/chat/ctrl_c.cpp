#include "ctrl_c.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace examples {
namespace {

sigset_t interrupts() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

CtrlC::CtrlC() {
  if (pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  const sigset_t set = interrupts();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  waiter_ = std::thread([this] { wait(); });
}

CtrlC::~CtrlC() {
  ending_ = true;
  pthread_kill(waiter_.native_handle(), SIGINT);
  waiter_.join();
  close(pipe_[0]);
  close(pipe_[1]);
}

std::stop_token CtrlC::begin() {
  const std::lock_guard<std::mutex> lock(mutex_);
  work_.emplace();
  return work_->get_token();
}

void CtrlC::end() {
  const std::lock_guard<std::mutex> lock(mutex_);
  work_.reset();
}

void CtrlC::wait() {
  const sigset_t set = interrupts();
  for (;;) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    if (ending_) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (work_) {
      work_->request_stop();
    } else {
      (void)!write(pipe_[1], "c", 1);  // full: nobody reads, and one more says nothing new
    }
  }
}

}  // namespace examples
