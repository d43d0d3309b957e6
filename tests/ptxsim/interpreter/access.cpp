#include "interpreter/access.h"

#include <algorithm>

#include "interpreter/cluster.h"

namespace ptxsim {
namespace {

Space space_of(std::uint64_t address) noexcept {
  if ((address & window_mask) == shared_window) return Space::shared;
  if ((address & window_mask) == local_window) return Space::local;
  return Space::global;
}

std::string hex(std::uint64_t v) {
  std::string s;
  do {
    s.insert(s.begin(), "0123456789abcdef"[v & 15]);
    v >>= 4;
  } while (v != 0);
  return "0x" + s;
}

std::string who(Warp& w, std::uint32_t lane) {
  return "block " + std::to_string(w.block().number()) + ", warp " + std::to_string(w.index()) + ", lane " +
         std::to_string(lane);
}

void check_bounds(Warp& w, const Instruction& i, const Access& a, std::uint32_t lane) {
  const std::uint64_t address = a.address[lane];
  bool inside = false;
  if (a.space == Space::shared) {
    inside = address + a.bytes <= w.block().shared().size();
  } else if (a.space == Space::local) {
    inside = address + a.bytes <= w.block().kernel().local_bytes;
  } else {
    inside = w.block().launch().memory.contains(address, a.bytes);
  }
  if (inside && address % a.bytes == 0) return;
  const char* space = a.space == Space::shared ? "shared" : a.space == Space::local ? "local" : "global";
  const std::string text = who(w, lane) + ": " + std::to_string(a.bytes) + " bytes at " + space + " " + hex(address);
  w.block().launch().abort(inside ? Check::alignment : Check::bounds, i, text);
}

/// Bounds and alignment of all lanes at once. False: a lane may be wrong, or they lie in different allocations.
bool all_inside(Warp& w, const Access& a) {
  const std::uint64_t any = a.address[__builtin_ctz(a.mask)];
  std::uint64_t least = any, most = any, all = any;
  for (std::uint32_t l = 0; l < 32; ++l) {
    const std::uint64_t v = (a.mask >> l & 1U) != 0 ? a.address[l] : any;
    least = std::min(least, v);
    most = std::max(most, v);
    all |= v;
  }
  if ((all & (a.bytes - 1)) != 0) return false;
  if (a.space == Space::global) return w.block().launch().memory.contains(least, most - least + a.bytes);
  const std::uint64_t size = a.space == Space::shared ? w.block().shared().size() : w.block().kernel().local_bytes;
  return most + a.bytes <= size;
}

/// Whether lane l of all 32 has the l-th of neighbouring pieces.
bool in_a_row(const Access& a) {
  if (a.mask != ~0U) return false;
  std::uint64_t other = 0;
  for (std::uint32_t l = 0; l < 32; ++l) other |= a.address[l] ^ (a.address[0] + l * std::uint64_t{a.bytes});
  return other == 0;
}

/// The different sectors of a request, each with the places (2 bytes) that are asked for.
struct Sectors {
  std::uint64_t number[32];
  std::uint32_t places[32];
  int count = 0;

  explicit Sectors(const Access& a) {
    if (in_a_row(a) && a.address[0] % 32 == 0) {
      count = static_cast<int>(a.bytes);  // 32 lanes of that many bytes
      for (int n = 0; n < count; ++n) number[n] = (a.address[0] >> 5) + static_cast<std::uint64_t>(n);
      std::fill_n(places, count, 0xffffU);
      return;
    }
    std::uint64_t most = 0;
    int last = 0;
    for (std::uint32_t m = a.mask; m != 0; m &= m - 1) {
      const std::uint64_t address = a.address[__builtin_ctz(m)];
      const std::uint64_t sector = address >> 5;  // aligned: an access lies in one sector
      const std::uint32_t wanted = ((1U << (a.bytes + 1) / 2) - 1U) << ((address & 31) >> 1);
      if (count == 0 || sector > most) {
        most = sector;
        last = count++;
        number[last] = sector;
        places[last] = wanted;
        continue;
      }
      if (number[last] != sector) {
        last = count - 1;
        while (last >= 0 && number[last] != sector) --last;
        if (last < 0) {
          last = count++;
          number[last] = sector;
          places[last] = 0;
        }
      }
      places[last] |= wanted;
    }
  }
};

void count_global(Warp& w, const Instruction& i, const Access& a, const Sectors& sectors) {
  LaunchState& launch = w.block().launch();
  std::uint64_t first = 0;
  for (int n = 0; n < sectors.count; ++n) first += launch.tracker.count_sector(sectors.number[n]) ? 1 : 0;
  AccessCounts& c = launch.accesses[launch.index_of(i)];
  ++c.requests;
  c.lane_bytes += std::uint64_t{a.bytes} * static_cast<std::uint64_t>(__builtin_popcount(a.mask));
  c.sectors += static_cast<std::uint64_t>(sectors.count);
  if (a.kind != AccessKind::read) return;
  ArgumentCounts* argument = launch.arguments.of(a.address[__builtin_ctz(a.mask)]);
  if (argument == nullptr) return;
  ++argument->requests;
  argument->lane_bytes += std::uint64_t{a.bytes} * static_cast<std::uint64_t>(__builtin_popcount(a.mask));
  argument->sectors += static_cast<std::uint64_t>(sectors.count);
  argument->unique_sectors += first;
  if (a.bytes == 16) argument->wide_sectors += static_cast<std::uint64_t>(sectors.count);
}

/// A launch that may begin before the one ahead of it is complete must wait before it touches what that one does.
void check_grid_order(Warp& w, const Instruction& i, const Access& a, const Sectors& sectors) {
  LaunchState& launch = w.block().launch();
  if (!launch.options.early || w.waited_for_grid) return;
  for (int n = 0; n < sectors.count; ++n) {
    if (!launch.tracker.touched_before(sectors.number[n], a.kind != AccessKind::read)) continue;
    launch.findings.add(Check::grid_order, i,
                        who(w, static_cast<std::uint32_t>(__builtin_ctz(a.mask))) +
                            ": the launch before may not be done with global " + hex(sectors.number[n] << 5));
    return;
  }
}

void check_global_races(Warp& w, const Instruction& i, const Access& a, const Sectors& sectors) {
  LaunchState& launch = w.block().launch();
  check_grid_order(w, i, a, sectors);
  using Kind = GlobalTracker::Access;
  // Strong accesses are how blocks meet on purpose: they are treated as atomics.
  const Kind kind = a.strong || a.kind == AccessKind::atomic ? Kind::atomic
                    : a.kind == AccessKind::write            ? Kind::write
                                                             : Kind::read;
  if (a.strong && a.kind == AccessKind::read) return;
  for (int n = 0; n < sectors.count; ++n) {
    const GlobalTracker::Who block{w.block().number(), w.cluster_arrived};
    if (launch.tracker.access(block, sectors.number[n], sectors.places[n], kind)) continue;
    std::uint32_t lane = 0;
    while ((a.mask >> lane & 1U) == 0 || a.address[lane] >> 5 != sectors.number[n]) ++lane;
    launch.findings.add(Check::global_race, i, who(w, lane) + ": another block touched global " + hex(a.address[lane]));
  }
}

void check_shared(Warp& w, const Instruction& i, const Access& a) {
  SharedMemory& shared = w.block().shared();
  for (std::uint32_t m = a.mask; m != 0; m &= m - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(m));
    const auto address = static_cast<std::uint32_t>(a.address[lane]);
    const SharedMemory::Thread t = thread_of(w, lane);
    const SharedMemory::Result r =
        a.kind == AccessKind::read ? shared.read(t, address, a.bytes) : shared.write(t, address, a.bytes);
    report_shared(w, i, r, lane, address);
  }
}

/// The block whose shared memory an address is; null where there is none.
Block* owner_of(Warp& w, std::uint64_t address) {
  const std::uint64_t rank = address >> rank_bit;
  return rank == 0 ? &w.block() : w.block().cluster().block(static_cast<std::uint32_t>(rank - 1));
}

/// Of one lane.
void check_cluster(Warp& w, const Instruction& i, const Access& a, std::uint32_t lane) {
  LaunchState& launch = w.block().launch();
  Block* owner = owner_of(w, a.address[lane]);
  const std::string who_is = who(w, lane) + ": ";
  if (owner == nullptr) launch.abort(Check::cluster, i, who_is + "no block of the cluster has this rank");
  const auto address = static_cast<std::uint32_t>(a.address[lane] & shared_offset_mask);
  const std::string what =
      std::to_string(a.bytes) + " bytes at shared " + hex(address) + " of block " + std::to_string(owner->number());
  if (std::uint64_t{address} + a.bytes > owner->shared().size()) launch.abort(Check::bounds, i, who_is + what);
  if (address % a.bytes != 0) launch.abort(Check::alignment, i, who_is + what);
  const SharedMemory::Thread t = thread_of(w, lane);
  const bool reads = a.kind == AccessKind::read, checks = launch.options.check_races && !a.strong;
  SharedMemory& shared = owner->shared();
  SharedMemory::Result r = SharedMemory::Result::ok;
  if (owner == &w.block()) {
    if (checks) r = reads ? shared.read(t, address, a.bytes) : shared.write(t, address, a.bytes);
  } else {
    launch.cluster_bytes += a.bytes;
    if (owner->done()) launch.findings.add(Check::cluster, i, who_is + what + ", which has ended");
    if (w.cluster_known == 0) launch.findings.add(Check::cluster, i, who_is + what + ", which may not have begun");
    if (checks) r = reads ? shared.read_by_other(t, address, a.bytes) : shared.write_by_other(t, address, a.bytes);
  }
  report_shared(w, i, r, lane, a.address[lane]);
}

}  // namespace

SharedMemory::Thread thread_of(const Warp& w, std::uint32_t lane) noexcept {
  return {w.index(), lane, w.warp_time, w.serial, w.rank(), w.cluster_arrived, w.cluster_known};
}

void report_shared(Warp& w, const Instruction& i, SharedMemory::Result r, std::uint32_t lane, std::uint64_t address) {
  if (r == SharedMemory::Result::ok) return;
  const bool race = r == SharedMemory::Result::race;
  w.block().launch().findings.add(
      race ? Check::shared_race : Check::uninitialised, i,
      who(w, lane) + (race ? ": unordered accesses to shared " : ": nobody wrote shared ") + hex(address));
}

void gather_addresses(Warp& w, const Instruction& i, const Operand& base, std::int64_t offset, Access& a) {
  if (base.bytes == 4) {
    const std::uint32_t* b = w.lanes<std::uint32_t>(base);
    for (std::uint32_t l = 0; l < 32; ++l) a.address[l] = b[l] + static_cast<std::uint64_t>(offset);
  } else {
    const std::uint64_t* b = w.lanes<std::uint64_t>(base);
    for (std::uint32_t l = 0; l < 32; ++l) a.address[l] = b[l] + static_cast<std::uint64_t>(offset);
  }
  if (a.space == Space::shared || a.space == Space::local || a.space == Space::cluster) {
    for (std::uint64_t& v : a.address) v &= 0xffffffffU;
    return;
  }
  if (a.space != Space::generic) return;
  a.space = space_of(a.address[__builtin_ctz(a.mask)]);
  if (a.space == Space::global) return;
  std::uint64_t all = 0;
  for (std::uint32_t m = a.mask; m != 0; m &= m - 1) {
    std::uint64_t& v = a.address[__builtin_ctz(m)];
    if (space_of(v) != a.space) w.block().launch().abort(Check::unsupported, i, "lanes in different spaces");
    v &= 0xffffffffU;
    all |= v;
  }
  if (a.space == Space::shared && all > shared_offset_mask) a.space = Space::cluster;
}

void check_access(Warp& w, const Instruction& i, const Access& a) {
  if (a.space == Space::cluster) {
    for (std::uint32_t m = a.mask; m != 0; m &= m - 1) {
      check_cluster(w, i, a, static_cast<std::uint32_t>(__builtin_ctz(m)));
    }
    if (w.block().launch().options.count_accesses && a.counted) count_wavefronts(w, i, a);
    return;
  }
  if (!all_inside(w, a)) {
    for (std::uint32_t m = a.mask; m != 0; m &= m - 1) {
      check_bounds(w, i, a, static_cast<std::uint32_t>(__builtin_ctz(m)));
    }
  }
  const Options& options = w.block().launch().options;
  if (a.space == Space::shared) {
    if (options.count_accesses && a.counted) count_wavefronts(w, i, a);
    if (options.check_races && a.kind != AccessKind::atomic && !a.strong) check_shared(w, i, a);
    return;
  }
  if (a.space == Space::local) return;
  if (a.kind != AccessKind::read) w.unfenced = true;
  if (!options.count_accesses && !options.check_races) return;
  const Sectors sectors(a);
  if (options.count_accesses) count_global(w, i, a, sectors);
  if (options.check_races) check_global_races(w, i, a, sectors);
}

std::byte* host_pointer(Warp& w, const Access& a, std::uint32_t lane) {
  if (a.space == Space::cluster) {
    return owner_of(w, a.address[lane])->shared().data() + (a.address[lane] & shared_offset_mask);
  }
  if (a.space == Space::shared) return w.block().shared().data() + a.address[lane];
  if (a.space == Space::local) return w.local(lane) + a.address[lane];
  return reinterpret_cast<std::byte*>(a.address[lane]);
}

void host_pointers(Warp& w, const Access& a, std::byte* (&out)[32]) {
  if (a.space == Space::cluster) {
    for (std::uint32_t l = 0; l < 32; ++l) out[l] = (a.mask >> l & 1U) != 0 ? host_pointer(w, a, l) : nullptr;
    return;
  }
  std::byte* base = a.space == Space::shared ? w.block().shared().data() : nullptr;
  std::uint64_t step = 0;
  if (a.space == Space::local) {
    base = w.local(0);
    step = w.block().kernel().local_bytes;
  }
  const auto from = reinterpret_cast<std::uint64_t>(base);
  for (std::uint32_t l = 0; l < 32; ++l) out[l] = reinterpret_cast<std::byte*>(from + l * step + a.address[l]);
}

void count_wavefronts(Warp& w, const Instruction& i, const Access& a) {
  LaunchState& launch = w.block().launch();
  AccessCounts& c = launch.accesses[launch.index_of(i)];
  ++c.requests;
  c.lane_bytes += std::uint64_t{a.bytes} * static_cast<std::uint64_t>(__builtin_popcount(a.mask));
  const std::uint32_t lanes = a.bytes <= 4 ? 32 : a.bytes == 8 ? 16 : 8;  // of one phase
  const std::uint32_t words = std::max(1U, a.bytes / 4);
  if (a.bytes >= 4 && in_a_row(a)) {  // neighbours never share a bank
    c.sectors += 32 / lanes;
    c.ideal += 32 / lanes;
    return;
  }
  for (std::uint32_t first = 0; first < 32; first += lanes) {
    // Different words of a bank come one after another; one word for many lanes at once.
    std::uint64_t rows[32][32];
    std::uint32_t used[32] = {};
    std::uint32_t most = 0;
    for (std::uint32_t l = first; l < first + lanes; ++l) {
      if ((a.mask >> l & 1U) == 0) continue;
      for (std::uint32_t k = 0; k < words; ++k) {
        const std::uint64_t word = (a.address[l] >> 2) + k;
        const std::uint32_t bank = word & 31;
        std::uint32_t n = 0;
        while (n < used[bank] && rows[bank][n] != word) ++n;
        if (n == used[bank] && n < 32) rows[bank][used[bank]++] = word;
        most = std::max(most, used[bank]);
      }
    }
    c.sectors += most;
    c.ideal += most != 0 ? 1 : 0;
  }
}

}  // namespace ptxsim
