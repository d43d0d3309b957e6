// One thread block: its warps, shared memory and barriers.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "interpreter/launch.h"
#include "interpreter/mbarriers.h"
#include "interpreter/shared_memory.h"
#include "interpreter/warp.h"

namespace ptxsim {

class Cluster;

class Block {
 public:
  /// `rank`: in the cluster.
  Block(LaunchState& launch, Cluster& cluster, Dim3 position, std::uint32_t number, std::uint32_t rank);

  /// Runs until all warps are done, about `budget` warp instructions ran or the other blocks of the cluster are waited
  /// for. True: done.
  bool run(std::uint64_t budget);

  const Kernel& kernel() const noexcept { return launch_.kernel; }
  LaunchState& launch() noexcept { return launch_; }
  Dim3 position() const noexcept { return position_; }
  std::uint32_t number() const noexcept { return number_; }  ///< in the grid, x fastest
  std::uint32_t rank() const noexcept { return rank_; }
  Cluster& cluster() noexcept { return cluster_; }
  bool done() const noexcept { return done_; }
  std::vector<Warp>& warps() noexcept { return warps_; }
  std::size_t warp_count() const noexcept { return warps_.size(); }
  SharedMemory& shared() noexcept { return shared_; }
  Mbarriers& mbarriers() noexcept { return mbarriers_; }
  /// A warp reached bar.sync, bar.arrive or their like. True: it has to wait.
  bool arrive(Warp& warp, const Instruction& i);
  /// "warp 3 at file.cu:12", for each warp that is not done.
  std::string positions() const;
  /// Where its first warp that is not done stands.
  const Instruction& stands_at() const;

 private:
  struct Barrier {
    std::uint32_t arrived = 0;  // warps
    std::uint32_t waiting = 0;
    std::uint32_t threads = 0;   // of those that arrived
    std::uint32_t expected = 0;  // 0: all threads of the block
    const Instruction* at = nullptr;
  };
  std::uint32_t threads_alive() const;
  bool try_release(Barrier& barrier);
  void order_warps(std::vector<std::uint32_t>& order);
  void end();
  void report_deadlock();
  const Instruction& place_of(const Warp& warp) const;

  LaunchState& launch_;
  Cluster& cluster_;
  Dim3 position_;
  std::uint32_t number_;
  std::uint32_t rank_;
  bool done_ = false;
  SharedMemory shared_;
  Mbarriers mbarriers_{shared_};
  std::vector<Warp> warps_;
  std::array<Barrier, 16> barriers_{};
  std::mt19937_64 random_;
};

}  // namespace ptxsim
