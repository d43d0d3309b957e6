#include "interpreter/global_tracker.h"

namespace ptxsim {

void GlobalTracker::start_launch() {
  ++launch_;
  unique_sectors_ = 0;
  known_.clear();
  released_.clear();
  if (pages_.size() > 65536) {  // a gigabyte of marks
    pages_.clear();
    last_ = nullptr;
  }
  last_number_ = ~std::uint64_t{0};
}

GlobalTracker::Page& GlobalTracker::page(std::uint64_t number) {
  if (number == last_number_) return *last_;
  std::unique_ptr<Page>& p = pages_[number];
  if (p == nullptr) p = std::make_unique<Page>();
  if (p->launch != launch_) {
    p->writer.fill(0);
    p->reader.fill(0);
    p->sectors.fill(0);
    p->launch = launch_;
  }
  last_number_ = number;
  last_ = p.get();
  return *last_;
}

bool GlobalTracker::ordered(std::uint32_t block, std::uint32_t before) const {
  const auto it = known_.find(block);
  if (it == known_.end()) return false;
  // Who has learned something is trusted where it cannot be said from whom.
  return before == many || before == by_atomic || it->second.contains(before - 1);
}

bool GlobalTracker::access(std::uint32_t block, std::uint64_t address, int bytes, Access access) {
  bool ok = true;
  const std::uint32_t me = block + 1;
  const std::uint64_t end = address + static_cast<std::uint64_t>(bytes);
  for (std::uint64_t place = address >> 1; place << 1 < end; ++place) {
    Page& p = page(place >> 11);
    std::uint32_t& writer = p.writer[place & 2047];
    std::uint32_t& reader = p.reader[place & 2047];
    if (writer != 0 && writer != me && !(access == Access::atomic && writer == by_atomic)) {
      ok = ok && ordered(block, writer);
    }
    if (access == Access::read) {
      if (reader != me) reader = reader == 0 ? me : many;
      continue;
    }
    if (access == Access::write && reader != 0 && reader != me) ok = ok && ordered(block, reader);
    writer = access == Access::write ? me : by_atomic;
  }
  return ok;
}

void GlobalTracker::count_sector(std::uint64_t sector) {
  Page& p = page(sector >> 7);
  std::uint32_t& word = p.sectors[(sector & 127) >> 5];
  const std::uint32_t bit = 1U << (sector & 31);
  unique_sectors_ += (word & bit) == 0 ? 1 : 0;
  word |= bit;
}

void GlobalTracker::synchronise(std::uint32_t block, std::uint64_t address, bool fenced) {
  std::unordered_set<std::uint32_t>& released = released_[address];
  std::unordered_set<std::uint32_t>& known = known_[block];
  known.insert(released.begin(), released.end());
  if (!fenced) return;
  released.insert(known.begin(), known.end());
  released.insert(block);
}

}  // namespace ptxsim
