// A thread that ends with its owner. Its file is one of the few with std::thread, whose destructor refers to
// std::terminate.
#pragma once

#include <functional>
#include <memory>
#include <thread>

namespace llminfer::core {

/// Runs a function once, on a thread of its own.
class Thread {
 public:
  /// `body` must not throw. Throws unavailable when the system has no thread to give, and bad_alloc.
  explicit Thread(std::function<void()> body);
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;
  /// Waits for the end of `body`; called by `body` itself, leaves it to end alone.
  ~Thread();

 private:
  std::unique_ptr<std::thread> thread_;
};

}  // namespace llminfer::core
