// Blocks that run together and reach each other's shared memory. Without a cluster in the launch it is one block.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "interpreter/block.h"
#include "interpreter/launch.h"

namespace ptxsim {

class Cluster {
 public:
  /// `number`: of the cluster in the grid, x fastest.
  Cluster(LaunchState& launch, std::uint32_t number);

  /// Runs until all blocks are done or about `budget` warp instructions ran. True: done.
  bool run(std::uint64_t budget);

  /// Null where there is no block of that rank.
  Block* block(std::uint32_t rank) noexcept { return rank < blocks_.size() ? blocks_[rank].get() : nullptr; }
  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(blocks_.size()); }
  /// A warp reached a barrier of the cluster. True: it has to wait.
  bool arrive(Warp& warp, const Instruction& i);
  /// A warp or block has ended: others may wait for nobody else.
  void leave() { try_complete(); }
  /// The warps of all blocks that are not done.
  std::string positions() const;

 private:
  /// What the warps that arrive for a phase hand on.
  struct Phase {
    bool unfenced = false, waited_for_grid = false;
    SharedMemory::View seen[max_cluster]{};  // of each block by its warps
  };
  void order_blocks(std::vector<std::uint32_t>& order);
  void try_complete();
  void pass(Warp& warp);

  LaunchState& launch_;
  std::vector<std::unique_ptr<Block>> blocks_{};
  std::uint32_t completed_ = 0;  // phases
  Phase phases_[2];              // a warp is at most one ahead of another
  std::mt19937_64 random_;
};

}  // namespace ptxsim
