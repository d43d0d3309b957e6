// Shared memory of one block, with who touched it when.
//
// Time is a counter that every barrier advances. Warp w knows what warp v did up to known(w, v): a barrier that both
// pass sets it to now. An access is ordered behind one of v at time t when known(w, v) >= t. Within a warp, lanes are
// ordered by instructions that synchronise the warp.
#pragma once

#include <cstdint>
#include <vector>

namespace ptxsim {

class SharedMemory {
 public:
  /// All bytes 0xff and unwritten.
  SharedMemory(std::uint32_t bytes, int warps);

  std::byte* data() noexcept { return bytes_.data(); }
  std::uint32_t size() const noexcept { return size_; }

  struct Thread {
    std::uint32_t warp = 0;
    std::uint32_t lane = 0;
    std::uint32_t warp_time = 0;  ///< number of warp synchronisations so far
    std::uint32_t serial = 0;     ///< of the instruction: lanes of one instruction do not race
    std::uint32_t rank = 0;       ///< of the block in its cluster
    std::uint32_t arrived = 0;    ///< at barriers of the cluster
    std::uint32_t known = 0;      ///< barriers of the cluster behind which it is ordered
  };
  enum class Result : std::uint8_t { ok, race, uninitialised };
  /// Bounds are the caller's. `write` of an asynchronous copy: `pending` at issue, complete() at the wait.
  Result read(const Thread& t, std::uint32_t address, std::uint32_t bytes);
  Result write(const Thread& t, std::uint32_t address, std::uint32_t bytes, bool pending = false);
  void complete(const Thread& t, std::uint32_t address, std::uint32_t bytes);

  /// Other blocks may come: an access of theirs is ordered behind one of this block, or the other way round, by a
  /// barrier of the cluster that the one arrives at behind its access and the other has waited for.
  void join_cluster() { cluster_cells_.resize(cells_.size()); }
  /// By threads of other blocks.
  Result read_by_other(const Thread& t, std::uint32_t address, std::uint32_t bytes);
  Result write_by_other(const Thread& t, std::uint32_t address, std::uint32_t bytes);
  /// Whether another block than `rank`, whose memory this is, used it behind its arrival at barrier `known`.
  bool used_after(std::uint32_t rank, std::uint32_t known) const;

  /// The warps of the mask passed a barrier together.
  void barrier(std::uint32_t warps);

  /// What somebody knows of what others did: a time for each of them.
  using View = std::vector<std::uint32_t>;
  static void merge(View& to, const View& from);
  /// Adds all that a warp knows and did to `view`; takes it from there.
  void release(std::uint32_t warp, View& view);
  void acquire(std::uint32_t warp, const View& view);
  /// A copy that no warp makes: asked for by a thread, over when `view` knows it.
  Result start_copy(const Thread& t, std::uint32_t address, std::uint32_t bytes);
  void complete_copy(std::uint32_t address, std::uint32_t bytes, View& view);

 private:
  struct Cell {
    std::uint32_t write_time = 0;  // 0: not written
    std::uint32_t warp_time = 0;
    std::uint32_t serial = 0;
    std::uint32_t read_time = 0;
    std::uint32_t readers = 0;  // warps that are not known to be ordered before each other
    std::uint8_t writer = 0;
    std::uint8_t lane = 0;
    std::uint8_t written = 0;  // bytes of the last write
    std::uint8_t init = 0;     // bytes ever written
    std::uint8_t pending = 0;
    bool split = false;  // the four bytes have cells of their own
  };
  bool ordered(std::uint32_t warp, std::uint32_t before, std::uint32_t time) const {
    return warp == before || known_[warp * warps_ + before] >= time;
  }
  Result read_cell(Cell& c, const Thread& t, std::uint8_t mask) const;
  Result write_cell(Cell& c, const Thread& t, std::uint8_t mask, bool pending) const;
  bool other_bytes(const Cell& c, const Thread& t, std::uint8_t mask) const;
  Cell* split(std::uint32_t word);
  template <class F>
  Result each(std::uint32_t address, std::uint32_t bytes, F f);

  /// Times are arrivals at barriers of the cluster before the access, and one; 0: none.
  struct ClusterCell {
    std::uint16_t write = 0;
    std::uint16_t reads[8] = {};  // by rank
    std::uint8_t writer = 0;
  };
  Result cluster_read(const Thread& t, std::uint32_t address, std::uint32_t bytes);
  Result cluster_write(const Thread& t, std::uint32_t address, std::uint32_t bytes);

  std::uint32_t size_;
  std::uint32_t warps_;  // and one more, who makes copies
  std::uint32_t time_ = 1;
  std::vector<std::byte> bytes_;
  std::vector<Cell> cells_;
  std::vector<Cell> byte_cells_;
  std::vector<std::uint32_t> known_;
  std::vector<ClusterCell> cluster_cells_{};  // by word; empty where there is no cluster
};

}  // namespace ptxsim
