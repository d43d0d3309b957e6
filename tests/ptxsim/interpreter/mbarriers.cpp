#include "interpreter/mbarriers.h"

#include <cstring>

namespace ptxsim {
namespace {

constexpr std::uint32_t most_arrivals = (1U << 20) - 1;
constexpr std::int64_t most_bytes = (1 << 20) - 1;
constexpr const char* unknown = "no mbarrier was made there";

}  // namespace

Mbarriers::Object* Mbarriers::find(std::uint32_t address) {
  const auto it = objects_.find(address);
  return it == objects_.end() ? nullptr : &it->second;
}

Mbarriers::Problem Mbarriers::init(std::uint32_t address, std::uint32_t count) {
  if (count == 0 || count > most_arrivals) return "a count that no mbarrier takes";
  if (find(address) != nullptr) return "an mbarrier is there already";
  Object o;
  o.expected = o.pending = count;
  objects_.emplace(address, o);
  failed_waits_ = 0;
  return nullptr;
}

Mbarriers::Problem Mbarriers::invalidate(std::uint32_t address) {
  Object* o = find(address);
  if (o == nullptr) return unknown;
  if (!o->copies.empty() || o->bytes != 0) return "copies that the mbarrier counts are under way";
  objects_.erase(address);
  return nullptr;
}

Mbarriers::Problem Mbarriers::arrive(std::uint32_t address, std::uint32_t warp, std::uint32_t count,
                                     std::uint64_t& state) {
  Object* o = find(address);
  if (o == nullptr) return unknown;
  if (count == 0 || count > o->pending) return "more arrivals than the phase waits for";
  state = o->phase;
  o->pending -= count;
  shared_.release(warp, o->seen);
  failed_waits_ = 0;
  end_phase(*o);
  return nullptr;
}

Mbarriers::Problem Mbarriers::expect(std::uint32_t address, std::uint32_t bytes, const Instruction& by) {
  Object* o = find(address);
  if (o == nullptr) return unknown;
  o->bytes += bytes;
  o->bytes_by = &by;
  if (o->bytes > most_bytes) return "more bytes than an mbarrier counts";
  return nullptr;
}

Mbarriers::Problem Mbarriers::start(std::uint32_t address, const BulkCopy& copy, bool late, const Instruction& by) {
  Object* o = find(address);
  if (o == nullptr) return unknown;
  failed_waits_ = 0;
  o->tried = 0;
  o->bytes_by = &by;
  if (late) {
    o->copies.push_back(copy);
  } else {
    finish(*o, copy);
    end_phase(*o);
  }
  return nullptr;
}

void Mbarriers::finish(Object& o, const BulkCopy& copy) {
  std::memcpy(shared_.data() + copy.to, reinterpret_cast<const std::byte*>(copy.from), copy.bytes);
  shared_.complete_copy(copy.to, copy.bytes, o.seen);
  o.bytes -= copy.bytes;
}

/// If nothing is missing, the next one begins.
void Mbarriers::end_phase(Object& o) {
  if (o.pending != 0 || o.bytes != 0) return;
  ++o.phase;
  o.pending = o.expected;
  SharedMemory::merge(o.over, o.seen);
}

Mbarriers::Problem Mbarriers::test(std::uint32_t address, std::uint32_t warp, Phase kind, std::uint64_t value,
                                   bool& done) {
  Object* o = find(address);
  if (o == nullptr) return unknown;
  const auto over = [&] { return kind == Phase::of_state ? o->phase > value : (o->phase & 1) != (value & 1); };
  // As late as may be: not before this warp has come in vain.
  const bool again = (o->tried >> warp & 1U) != 0;
  if (!over()) o->tried |= 1U << warp;
  if (!over() && again) {
    for (const BulkCopy& copy : o->copies) finish(*o, copy);
    o->copies.clear();
    end_phase(*o);
  }
  done = over();
  if (done) {
    shared_.acquire(warp, o->over);
    failed_waits_ = 0;
  } else {
    ++failed_waits_;
  }
  return nullptr;
}

const Instruction* Mbarriers::unfinished() const noexcept {
  for (const auto& [address, o] : objects_) {
    if (!o.copies.empty() || o.bytes != 0) return o.bytes_by;
  }
  return nullptr;
}

}  // namespace ptxsim
