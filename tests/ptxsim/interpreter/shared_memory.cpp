#include "interpreter/shared_memory.h"

#include <algorithm>
#include <cstddef>

namespace ptxsim {

SharedMemory::SharedMemory(std::uint32_t bytes, int warps)
    : size_(bytes),
      warps_(static_cast<std::uint32_t>(warps) + 1),
      bytes_(bytes + 16, std::byte{0xff}),
      cells_((bytes + 3) / 4 + 1),
      known_(static_cast<std::size_t>(warps_) * warps_) {}

SharedMemory::Result SharedMemory::read_cell(Cell& c, const Thread& t, std::uint8_t mask) const {
  Result result = Result::ok;
  if ((c.init & mask) != mask) result = Result::uninitialised;
  if ((c.written & mask) != 0) {
    if (!ordered(t.warp, c.writer, c.write_time)) result = Result::race;
    if (c.writer == t.warp && c.lane != t.lane && c.warp_time == t.warp_time && c.serial != t.serial) {
      result = Result::race;
    }
  }
  if (c.pending != 0) result = Result::race;
  // Readers that this read is ordered behind need not be kept.
  std::uint32_t keep = 0;
  for (std::uint32_t rest = c.readers & ~(1U << t.warp); rest != 0; rest &= rest - 1) {
    const auto r = static_cast<std::uint32_t>(__builtin_ctz(rest));
    if (!ordered(t.warp, r, c.read_time)) keep |= 1U << r;
  }
  c.readers = keep | 1U << t.warp;
  c.read_time = time_;
  return result;
}

SharedMemory::Result SharedMemory::write_cell(Cell& c, const Thread& t, std::uint8_t mask, bool pending) const {
  Result result = Result::ok;
  if (c.pending != 0) result = Result::race;
  if (c.written != 0) {
    if (!ordered(t.warp, c.writer, c.write_time)) result = Result::race;
    if (c.writer == t.warp && c.lane != t.lane && c.warp_time == t.warp_time && c.serial != t.serial) {
      result = Result::race;
    }
  }
  for (std::uint32_t rest = c.readers; rest != 0; rest &= rest - 1) {
    if (!ordered(t.warp, static_cast<std::uint32_t>(__builtin_ctz(rest)), c.read_time)) result = Result::race;
  }
  c.readers = 0;
  const bool same = c.written != 0 && c.writer == t.warp && c.lane == t.lane && c.write_time == time_;
  c.written = static_cast<std::uint8_t>(same ? c.written | mask : mask);
  c.write_time = time_;
  c.writer = static_cast<std::uint8_t>(t.warp);
  c.lane = static_cast<std::uint8_t>(t.lane);
  c.warp_time = t.warp_time;
  c.serial = t.serial;
  c.init |= mask;
  c.pending = pending ? 1 : 0;
  return result;
}

/// Whether another thread wrote other bytes of the word: then bytes must be told apart.
bool SharedMemory::other_bytes(const Cell& c, const Thread& t, std::uint8_t mask) const {
  return mask != 0xf && (c.written | c.readers) != 0 && (c.written != mask || c.writer != t.warp || c.lane != t.lane);
}

SharedMemory::Cell* SharedMemory::split(std::uint32_t word) {
  Cell& c = cells_[word];
  if (byte_cells_.empty()) byte_cells_.resize(cells_.size() * 4);
  Cell* bytes = &byte_cells_[std::size_t{word} * 4];
  if (c.split) return bytes;
  for (unsigned b = 0; b < 4; ++b) {
    bytes[b] = c;
    bytes[b].written = static_cast<std::uint8_t>((c.written >> b) & 1U);
    bytes[b].init = static_cast<std::uint8_t>((c.init >> b) & 1U);
  }
  c.split = true;
  return bytes;
}

template <class F>
SharedMemory::Result SharedMemory::each(std::uint32_t address, std::uint32_t bytes, F f) {
  Result result = Result::ok;
  const std::uint32_t end = address + bytes;
  for (std::uint32_t word = address / 4; word * 4 < end; ++word) {
    const std::uint32_t first = std::max(address, word * 4) - word * 4;
    const std::uint32_t last = std::min(end, word * 4 + 4) - word * 4;
    const auto mask = static_cast<std::uint8_t>(((1U << last) - 1U) & ~((1U << first) - 1U));
    result = std::max(result, f(word, mask));
  }
  return result;
}

SharedMemory::Result SharedMemory::read(const Thread& t, std::uint32_t address, std::uint32_t bytes) {
  const Result by_others = cluster_read(t, address, bytes);
  const Result result = each(address, bytes, [&](std::uint32_t word, std::uint8_t mask) {
    Cell& c = cells_[word];
    if (!c.split && mask == 0xf) return read_cell(c, t, mask);
    // Sub-word reads mark the bytes that they read, so that a write beside them is no race.
    Result result = Result::ok;
    Cell* cells = split(word);
    for (unsigned b = 0; b < 4; ++b) {
      if ((mask >> b & 1U) != 0) result = std::max(result, read_cell(cells[b], t, 1));
    }
    return result;
  });
  return std::max(result, by_others);
}

SharedMemory::Result SharedMemory::write(const Thread& t, std::uint32_t address, std::uint32_t bytes, bool pending) {
  const Result by_others = cluster_write(t, address, bytes);
  const Result result = each(address, bytes, [&](std::uint32_t word, std::uint8_t mask) {
    Cell& c = cells_[word];
    if (!c.split && !other_bytes(c, t, mask)) return write_cell(c, t, mask, pending);
    Result result = Result::ok;
    Cell* cells = split(word);
    for (unsigned b = 0; b < 4; ++b) {
      if ((mask >> b & 1U) != 0) result = std::max(result, write_cell(cells[b], t, 1, pending));
    }
    return result;
  });
  return std::max(result, by_others);
}

void SharedMemory::complete(const Thread& t, std::uint32_t address, std::uint32_t bytes) {
  cluster_write(t, address, bytes);
  each(address, bytes, [&](std::uint32_t word, std::uint8_t mask) {
    const auto finish = [&](Cell& c) {
      c.pending = 0;
      c.write_time = time_;
      c.warp_time = t.warp_time;
      c.serial = t.serial;
    };
    Cell& c = cells_[word];
    if (!c.split) {
      finish(c);
      return Result::ok;
    }
    Cell* cells = split(word);
    for (unsigned b = 0; b < 4; ++b) {
      if ((mask >> b & 1U) != 0) finish(cells[b]);
    }
    return Result::ok;
  });
}

SharedMemory::Result SharedMemory::cluster_read(const Thread& t, std::uint32_t address, std::uint32_t bytes) {
  if (cluster_cells_.empty()) return Result::ok;
  return each(address, bytes, [&](std::uint32_t word, std::uint8_t) {
    ClusterCell& c = cluster_cells_[word];
    c.reads[t.rank] = std::max(c.reads[t.rank], static_cast<std::uint16_t>(t.arrived + 1));
    return c.writer != t.rank && c.write > t.known ? Result::race : Result::ok;
  });
}

SharedMemory::Result SharedMemory::cluster_write(const Thread& t, std::uint32_t address, std::uint32_t bytes) {
  if (cluster_cells_.empty()) return Result::ok;
  return each(address, bytes, [&](std::uint32_t word, std::uint8_t) {
    ClusterCell& c = cluster_cells_[word];
    bool ordered = c.writer == t.rank || c.write <= t.known;
    for (std::uint32_t r = 0; r < std::size(c.reads); ++r) ordered = ordered && (r == t.rank || c.reads[r] <= t.known);
    c = {static_cast<std::uint16_t>(t.arrived + 1), {}, static_cast<std::uint8_t>(t.rank)};
    return ordered ? Result::ok : Result::race;
  });
}

SharedMemory::Result SharedMemory::read_by_other(const Thread& t, std::uint32_t address, std::uint32_t bytes) {
  const Result race = cluster_read(t, address, bytes);
  return std::max(race, each(address, bytes, [&](std::uint32_t word, std::uint8_t mask) {
                    const auto look = [](const Cell& c, std::uint8_t of) {
                      return c.pending != 0 ? Result::race : (c.init & of) != of ? Result::uninitialised : Result::ok;
                    };
                    Cell& c = cells_[word];
                    if (!c.split) return look(c, mask);
                    Result result = Result::ok;
                    const Cell* cells = split(word);
                    for (unsigned b = 0; b < 4; ++b) {
                      if ((mask >> b & 1U) != 0) result = std::max(result, look(cells[b], 1));
                    }
                    return result;
                  }));
}

SharedMemory::Result SharedMemory::write_by_other(const Thread& t, std::uint32_t address, std::uint32_t bytes) {
  const Result race = cluster_write(t, address, bytes);
  each(address, bytes, [&](std::uint32_t word, std::uint8_t mask) {
    // Of this block's warps none has written there now; what they did before is in the cluster's cells.
    const auto mark = [](Cell& c, std::uint8_t of) {
      c.init |= of;
      c.written = 0;
      c.readers = 0;
    };
    Cell& c = cells_[word];
    if (!c.split) {
      mark(c, mask);
      return Result::ok;
    }
    Cell* cells = split(word);
    for (unsigned b = 0; b < 4; ++b) {
      if ((mask >> b & 1U) != 0) mark(cells[b], 1);
    }
    return Result::ok;
  });
  return race;
}

bool SharedMemory::used_after(std::uint32_t rank, std::uint32_t known) const {
  for (const ClusterCell& c : cluster_cells_) {
    if (c.writer != rank && c.write > known) return true;
    for (std::uint32_t r = 0; r < std::size(c.reads); ++r) {
      if (r != rank && c.reads[r] > known) return true;
    }
  }
  return false;
}

void SharedMemory::barrier(std::uint32_t warps) {
  std::vector<std::uint32_t> all(warps_, 0);
  for (std::uint32_t rest = warps; rest != 0; rest &= rest - 1) {
    const auto w = static_cast<std::uint32_t>(__builtin_ctz(rest));
    for (std::uint32_t v = 0; v < warps_; ++v) all[v] = std::max(all[v], known_[w * warps_ + v]);
  }
  for (std::uint32_t v = 0; v < warps_; ++v) {
    if ((std::uint64_t{warps} >> v & 1U) != 0) all[v] = time_;
  }
  for (std::uint32_t rest = warps; rest != 0; rest &= rest - 1) {
    const auto w = static_cast<std::uint32_t>(__builtin_ctz(rest));
    for (std::uint32_t v = 0; v < warps_; ++v) known_[w * warps_ + v] = std::max(known_[w * warps_ + v], all[v]);
  }
  ++time_;
}

void SharedMemory::merge(View& to, const View& from) {
  to.resize(std::max(to.size(), from.size()));
  for (std::size_t v = 0; v < from.size(); ++v) to[v] = std::max(to[v], from[v]);
}

void SharedMemory::release(std::uint32_t warp, View& view) {
  const auto mine = known_.begin() + static_cast<std::ptrdiff_t>(std::size_t{warp} * warps_);
  merge(view, View(mine, mine + static_cast<std::ptrdiff_t>(warps_)));
  view[warp] = time_++;
}

void SharedMemory::acquire(std::uint32_t warp, const View& view) {
  for (std::size_t v = 0; v < view.size(); ++v) {
    std::uint32_t& known = known_[std::size_t{warp} * warps_ + v];
    known = std::max(known, view[v]);
  }
}

SharedMemory::Result SharedMemory::start_copy(const Thread& t, std::uint32_t address, std::uint32_t bytes) {
  return each(address, bytes, [&](std::uint32_t word, std::uint8_t) {
    Cell* cells = &cells_[word];
    const bool bytes_apart = cells->split;
    if (bytes_apart) cells = split(word);
    Result result = Result::ok;
    for (int b = 0; b < (bytes_apart ? 4 : 1); ++b) {
      result = std::max(result, write_cell(cells[b], t, bytes_apart ? 1 : 0xf, true));
      cells[b].writer = static_cast<std::uint8_t>(warps_ - 1);
    }
    return result;
  });
}

void SharedMemory::complete_copy(std::uint32_t address, std::uint32_t bytes, View& view) {
  complete({warps_ - 1, 0, 0, 0}, address, bytes);
  view.resize(warps_);
  view[warps_ - 1] = time_++;
}

}  // namespace ptxsim
