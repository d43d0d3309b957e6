#include "runtime/pool.h"

#include <thread>

#include "core/fail.h"
#include "runtime/executor.h"

namespace llminfer::runtime {

Pool::Pool(PoolOptions options) : options_(std::move(options)) {
  for (const std::int32_t pages : options_.pages) {
    if (pages <= 0) core::fail(ErrorCode::invalid_argument, "a pool of {} pages", pages);
    pools_.emplace_back(pages, options_.host);
  }
  storage_ = options_.program->make_kv(options_.format, options_.pages).value();
  workspace_ = options_.program->workspace().value();
  executor_ = std::make_unique<Executor>(*options_.graph, options_.limits);
}

Pool::~Pool() = default;

void Pool::give_way() const noexcept {
  // Bounded: a waiter that gets no processor must not stop the batch.
  for (int i = 0; i < 1000 && waiting_.load(std::memory_order_relaxed) > 0; ++i) std::this_thread::yield();
}

}  // namespace llminfer::runtime
