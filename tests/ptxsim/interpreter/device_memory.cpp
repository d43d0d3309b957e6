#include "interpreter/device_memory.h"

#include <cstdlib>
#include <cstring>
#include <iterator>

namespace ptxsim {

DeviceMemory::~DeviceMemory() {
  for (const auto& [begin, block] : blocks_) {
    if (block.owned) std::free(reinterpret_cast<void*>(begin));
  }
}

void* DeviceMemory::allocate(std::size_t bytes) {
  if (bytes > limit_ || used_ > limit_ - bytes) return nullptr;
  void* p = std::aligned_alloc(256, (bytes + 511) / 256 * 256);  // what lies behind belongs to nobody else
  if (p == nullptr) return nullptr;
  std::memset(p, 0xff, bytes);
  const auto begin = reinterpret_cast<std::uint64_t>(p);
  blocks_[begin] = {begin + bytes, true};
  used_ += bytes;
  ++allocations_;
  return p;
}

bool DeviceMemory::release(void* pointer) {
  const auto it = blocks_.find(reinterpret_cast<std::uint64_t>(pointer));
  if (it == blocks_.end() || !it->second.owned) return false;
  used_ -= it->second.end - it->first;
  blocks_.erase(it);
  last_begin_ = 1;
  last_end_ = 0;
  std::free(pointer);
  return true;
}

void DeviceMemory::add(const void* pointer, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uint64_t>(pointer);
  blocks_[begin] = {begin + bytes, false};
}

void DeviceMemory::remove(const void* pointer) {
  blocks_.erase(reinterpret_cast<std::uint64_t>(pointer));
  last_begin_ = 1;
  last_end_ = 0;
}

bool DeviceMemory::contains(std::uint64_t address, std::size_t bytes) const noexcept {
  const auto fits = [&](std::uint64_t end) { return address < end && bytes <= end - address; };
  if (address >= last_begin_ && fits(last_end_)) return true;
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return false;
  --it;
  if (!fits(it->second.end)) return false;
  last_begin_ = it->first;
  last_end_ = it->second.end;
  return true;
}

DeviceMemory::Range DeviceMemory::range_of(std::uint64_t address) const noexcept {
  const auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin() || address >= std::prev(it)->second.end) return {};
  return {std::prev(it)->first, std::prev(it)->second.end};
}

}  // namespace ptxsim
