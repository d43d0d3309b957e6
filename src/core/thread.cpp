#include "core/thread.h"

#include <system_error>

#include "core/fail.h"
#include "core/signals_blocked.h"

namespace llminfer::core {

Thread::Thread(std::function<void()> body) {
  const SignalsBlocked blocked;
  try {
    thread_ = std::make_unique<std::thread>(std::move(body));
  } catch (const std::system_error& e) {
    fail(ErrorCode::unavailable, "no thread could be started: {}", e.what());
  }
}

Thread::~Thread() {
  if (thread_->get_id() == std::this_thread::get_id()) {
    thread_->detach();
  } else {
    thread_->join();
  }
}

}  // namespace llminfer::core
