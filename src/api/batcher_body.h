// The state behind a Batcher: its engine and the thread that runs it.
#pragma once

#include <functional>
#include <llminfer/batcher.hpp>
#include <memory>
#include <span>
#include <vector>

#include "api/session_body.h"
#include "core/thread.h"
#include "runtime/batch_engine.h"

namespace llminfer {
inline namespace v0 {

class Batcher::Body {
 public:
  /// Throws what is wrong with the options, and what memory reports. `clock`, `swap_always`: for tests.
  Body(Model model, BatcherOptions options,
       std::shared_ptr<const runtime::Clock> clock = std::make_shared<const runtime::SteadyClock>(),
       bool swap_always = false);
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;
  ~Body();

  /// The session to continue: the given one, or its history in a new one of this pool. Throws what is wrong with it.
  std::shared_ptr<Session::Body> session_for(const Session& session, const GenerateOptions& generate) const;
  /// An empty one in the engine's pool.
  std::shared_ptr<Session::Body> open(int context) const;

  /// The request of a session that is ready for it; without a sink its pieces wait in a queue.
  std::shared_ptr<runtime::BatchRequest> make_request(const std::shared_ptr<Session::Body>& session,
                                                      const GenerateOptions& generate,
                                                      std::unique_ptr<runtime::BatchSink> sink = {}) const;
  using Sessions = std::span<const std::shared_ptr<Session::Body>>;
  using Requests = std::span<const std::shared_ptr<runtime::BatchRequest>>;
  /// Marks the sessions as in use while their requests are submitted, and afterwards if that worked.
  void submit(Sessions sessions, Requests requests) const;

  /// Continuations of one history that are to be submitted together.
  struct Group {
    std::vector<std::shared_ptr<Session::Body>> sessions;
    std::vector<std::shared_ptr<runtime::BatchRequest>> requests;
  };
  /// The sink of the i-th; empty: none.
  using MakeSink = std::function<std::unique_ptr<runtime::BatchSink>(int, const std::shared_ptr<Session::Body>&)>;
  Group make_group(const Session& session, int count, GenerateOptions generate, const MakeSink& make_sink = {}) const;
  void submit(const Group& group) const { submit(group.sessions, group.requests); }

  const Model model;
  const api::ProfileUse profiled;
  const BatcherOptions options;
  const std::shared_ptr<runtime::BatchEngine> engine;

 private:
  std::unique_ptr<core::Thread> thread_;
};

}  // namespace v0
}  // namespace llminfer
