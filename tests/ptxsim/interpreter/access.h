// How lanes reach memory: addresses, checks, counts. Every load, store and copy goes through here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpreter/module.h"
#include "interpreter/shared_memory.h"
#include "interpreter/warp.h"

namespace ptxsim {

enum class AccessKind : std::uint8_t { read, write, atomic };

/// One warp instruction's access, lane by lane.
struct Access {
  std::uint64_t address[32];  ///< generic or of the space
  std::uint32_t mask = 0;
  std::uint32_t bytes = 0;  ///< a lane
  Space space = Space::generic;
  AccessKind kind = AccessKind::read;
  bool counted = true;  ///< in wavefronts, if it is shared memory's
  bool strong = false;  ///< volatile, relaxed, acquire, ...: meant to meet others
};

/// Addresses of the lanes of `mask` from an operand and an offset. A generic space becomes the one that the addresses
/// lie in; lanes in different spaces are a finding.
void gather_addresses(Warp& w, const Instruction& i, const Operand& base, std::int64_t offset, Access& a);

/// Bounds, alignment, races, counts. Aborts the launch where the access cannot be made.
void check_access(Warp& w, const Instruction& i, const Access& a);

/// Host memory behind a lane's address, and behind all of them.
std::byte* host_pointer(Warp& w, const Access& a, std::uint32_t lane);
void host_pointers(Warp& w, const Access& a, std::byte* (&out)[32]);

/// For the checks of shared memory.
SharedMemory::Thread thread_of(const Warp& w, std::uint32_t lane) noexcept;
void report_shared(Warp& w, const Instruction& i, SharedMemory::Result r, std::uint32_t lane, std::uint64_t address);

/// Shared-memory wavefronts of 32 (or fewer) pieces of `bytes` each: those that fit conflict-free into one phase are
/// taken together. Adds to the counts of instruction `i`.
void count_wavefronts(Warp& w, const Instruction& i, const Access& a);

}  // namespace ptxsim
