#include "interpreter/global_tracker.h"

#include <algorithm>

namespace ptxsim {

void GlobalTracker::start_launch(bool early, std::uint32_t blocks) {
  ++launch_;
  blocks_ = blocks != 0 ? blocks : ~0U;
  early_ = early;
  unique_sectors_ = 0;
  known_.clear();
  released_.clear();
  if (pages_.size() > 65536) pages_.clear();  // a gigabyte of marks, where all of them are split
  recent_.fill({});
}

GlobalTracker::Page& GlobalTracker::page(std::uint64_t number) {
  Recent& recent = recent_[number % recent_.size()];
  if (number == recent.number) return *recent.page;
  std::unique_ptr<Page>& p = pages_[number];
  if (p == nullptr) p = std::make_unique<Page>();
  if (p->launch != launch_) {
    keep_marks(*p);
    p->sectors.fill({});
    p->split.fill(0);
    p->seen.fill(0);
    p->launch = launch_;
  }
  recent = {number, p.get()};
  return *p;
}

void GlobalTracker::keep_marks(Page& p) const {
  p.written_before.fill(0);
  p.touched_before.fill(0);
  if (!early_ || p.launch + 1 != launch_) return;
  for (std::size_t n = 0; n < sectors_of_page; ++n) {
    const std::uint32_t bit = 1U << (n % 32);
    const bool apart = (p.split[n / 32] & bit) != 0;
    const Mark* marks = apart ? p.places->data() + n * places_of_sector : &p.sectors[n];
    for (std::size_t m = 0; m < (apart ? places_of_sector : 1); ++m) {
      if (marks[m].writer != 0) p.written_before[n / 32] |= bit;
      if (marks[m].writer != 0 || marks[m].reader != 0) p.touched_before[n / 32] |= bit;
    }
  }
}

bool GlobalTracker::touched_before(std::uint64_t sector, bool any) {
  const Page& p = page(sector / sectors_of_page);
  const std::size_t n = sector % sectors_of_page;
  return ((any ? p.touched_before : p.written_before)[n / 32] >> (n % 32) & 1U) != 0;
}

bool GlobalTracker::ordered(std::uint32_t me, std::uint32_t before) const {
  // Who has learned something is trusted where it cannot be said from whom.
  const bool nobody = before == many || before == by_atomic;
  if (!nobody && block_of(before) == block_of(me)) return true;
  const auto it = known_.find(block_of(me));
  if (it == known_.end()) return false;
  return nobody || it->second.contains(before - 1);
}

/// `me`: as marks have it.
bool GlobalTracker::apply(Mark& mark, std::uint32_t me, Access access) const {
  bool ok = true;
  if (mark.writer != 0 && mark.writer != me && !(access == Access::atomic && mark.writer == by_atomic)) {
    ok = ordered(me, mark.writer);
  }
  if (access == Access::read) {
    const bool others = mark.reader != 0 && (mark.reader == many || block_of(mark.reader) != block_of(me));
    mark.reader = others ? many : me;
    return ok;
  }
  if (access == Access::write && mark.reader != 0 && mark.reader != me) ok = ok && ordered(me, mark.reader);
  mark.writer = access == Access::write ? me : by_atomic;
  return ok;
}

bool GlobalTracker::access(Who who, std::uint64_t sector, std::uint32_t places, Access access) {
  const std::uint32_t me = who.block + who.arrived * blocks_ + 1;
  Page& p = page(sector / sectors_of_page);
  const std::size_t index = sector % sectors_of_page;
  const std::uint32_t bit = 1U << (index % 32);
  if ((p.split[index / 32] & bit) == 0) {
    if (places == 0xffff) return apply(p.sectors[index], me, access);
    Mark mark = p.sectors[index];
    const bool ok = apply(mark, me, access);
    if (mark == p.sectors[index]) return ok;
    if (p.places == nullptr) p.places = std::make_unique<std::array<Mark, sectors_of_page * places_of_sector>>();
    std::fill_n(p.places->begin() + static_cast<std::ptrdiff_t>(index * places_of_sector), places_of_sector,
                p.sectors[index]);
    p.split[index / 32] |= bit;
  }
  bool ok = true;
  Mark* marks = p.places->data() + index * places_of_sector;
  for (std::uint32_t rest = places; rest != 0; rest &= rest - 1) {
    ok = apply(marks[__builtin_ctz(rest)], me, access) && ok;
  }
  return ok;
}

bool GlobalTracker::count_sector(std::uint64_t sector) {
  std::uint32_t& word = page(sector / sectors_of_page).seen[sector % sectors_of_page / 32];
  const std::uint32_t bit = 1U << (sector % 32);
  const bool first = (word & bit) == 0;
  unique_sectors_ += first ? 1 : 0;
  word |= bit;
  return first;
}

/// What it did so far.
void GlobalTracker::add(std::unordered_set<std::uint32_t>& to, Who who) const {
  for (std::uint32_t n = 0; n <= who.arrived; ++n) to.insert(who.block + n * blocks_);
}

void GlobalTracker::synchronise(Who who, std::uint64_t address, bool fenced) {
  std::unordered_set<std::uint32_t>& released = released_[address];
  std::unordered_set<std::uint32_t>& known = known_[who.block];
  known.insert(released.begin(), released.end());
  if (!fenced) return;
  released.insert(known.begin(), known.end());
  add(released, who);
}

void GlobalTracker::meet(const std::vector<std::uint32_t>& blocks, std::uint32_t barrier) {
  std::unordered_set<std::uint32_t> all;
  for (const std::uint32_t block : blocks) {
    const std::unordered_set<std::uint32_t>& known = known_[block];
    all.insert(known.begin(), known.end());
    add(all, {block, barrier});
  }
  for (const std::uint32_t block : blocks) known_[block] = all;
}

}  // namespace ptxsim
