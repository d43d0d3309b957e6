// The events of a simulated server in order of time: arrivals, and the ends of its replicas' steps.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "runtime/simulation/replica.h"
#include "runtime/simulation/timeline.h"

namespace llminfer::runtime::simulation {

class Simulator {
 public:
  /// `tally` is what the replicas, at least one, count in.
  Simulator(const TrafficSource& traffic, std::vector<std::unique_ptr<Replica>> replicas, const Tally& tally);

  /// Serves everything. `progress` is called with the number of requests that have ended, now and then. Throws
  /// cancelled after a stop request.
  void run(const std::function<void(std::int64_t)>& progress, const std::stop_token& stop);

  SimulationReport report() const;

 private:
  /// When a replica has its next event.
  struct Wake {
    std::int64_t ns = 0;
    bool idle = true;  // nothing to do but to wait for an arrival
  };

  std::size_t next_replica() const noexcept;
  std::int64_t wake_ns(std::size_t replica) const noexcept;
  void receive(std::int64_t now);
  std::int64_t share() const noexcept;
  void observe(std::int64_t now) noexcept;

  TrafficSource traffic_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<Wake> wakes_;  // of each replica
  const Tally& tally_;
  std::deque<Arrival> queue_;
  Timeline timeline_;
  TimelineState state_;   // since the last event
  std::int64_t now_ = 0;  // of the last event
  std::int64_t first_arrival_ns_ = 0;
  std::int64_t requests_ = 0;
  std::int64_t queue_most_ = 0;
  double page_share_most_ = 0;
};

}  // namespace llminfer::runtime::simulation
