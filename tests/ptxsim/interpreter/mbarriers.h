// The mbarrier objects of one block: 8 bytes of shared memory that count arrivals and the bytes of bulk copies.
//
// What a phase has seen is known to whoever waited for its end: each object carries what the arriving warps knew
// (SharedMemory::release), and a wait that succeeds takes it (SharedMemory::acquire). Copies are made by nobody's warp:
// who reads what they brought must have waited for the object that counts them.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "interpreter/shared_memory.h"

namespace ptxsim {

struct Instruction;

/// A cp.async.bulk from global to shared memory that an mbarrier counts.
struct BulkCopy {
  std::uint32_t to = 0;
  std::uint32_t bytes = 0;
  std::uint64_t from = 0;
};

class Mbarriers {
 public:
  explicit Mbarriers(SharedMemory& shared) : shared_(shared) {}

  /// What is wrong with a call; null where nothing is.
  using Problem = const char*;
  Problem init(std::uint32_t address, std::uint32_t count);
  Problem invalidate(std::uint32_t address);
  /// `state`: of the phase that runs, as test_wait wants it.
  Problem arrive(std::uint32_t address, std::uint32_t warp, std::uint32_t count, std::uint64_t& state);
  Problem expect(std::uint32_t address, std::uint32_t bytes, const Instruction& by);
  /// Starts a copy: made at once, or (`late`) when a warp whose wait for the object has failed comes again.
  Problem start(std::uint32_t address, const BulkCopy& copy, bool late, const Instruction& by);
  enum class Phase : std::uint8_t { of_state, of_parity };
  /// Whether the phase is over, in `done`; the warp then knows what it has seen. Once for all lanes that ask the same.
  Problem test(std::uint32_t address, std::uint32_t warp, Phase kind, std::uint64_t value, bool& done);

  /// Tests that failed since anything changed.
  std::uint64_t failed_waits() const noexcept { return failed_waits_; }
  /// The instruction that copies under way or missing bytes are of, null where there are none.
  const Instruction* unfinished() const noexcept;

 private:
  struct Object {
    std::uint32_t expected = 0;  // arrivals of a phase
    std::uint32_t pending = 0;   // those that are missing
    std::int64_t bytes = 0;      // expected less those that came
    std::uint64_t phase = 0;     // that runs
    std::uint32_t tried = 0;     // warps whose waits failed since the last copy was started
    SharedMemory::View seen{};   // by those who arrived
    SharedMemory::View over{};   // of phases that are over
    std::vector<BulkCopy> copies{};
    const Instruction* bytes_by = nullptr;  // the last that expected or copied
  };
  Object* find(std::uint32_t address);
  void finish(Object& o, const BulkCopy& copy);
  void end_phase(Object& o);

  SharedMemory& shared_;
  std::map<std::uint32_t, Object> objects_{};
  std::uint64_t failed_waits_ = 0;
};

}  // namespace ptxsim
