// Where a warp of attention_mma finds pages of keys and values.
#pragma once

#include "kernels/attention.h"

namespace llminfer::cuda {

constexpr int attention_warps = 4;

/// The pages of a sequence, and a KV head's blocks in them.
class PageTable {
 public:
  /// `end`: behind the last key that is seen.
  __device__ PageTable(const AttentionParams& p, int sequence, int kv_head, int end)
      : end_(end),
        last_(static_cast<unsigned>(end - 1) / kv_page),
        pages_(p.step.pages + p.step.pages_at[sequence]),
        blocks_{block_of(p.k, kv_head), block_of(p.v, kv_head)},
        page_bytes_{static_cast<unsigned>(p.k.page_bytes), static_cast<unsigned>(p.v.page_bytes)} {}

  __device__ int end() const { return end_; }
  /// The number of the page of a key, and of those behind it; behind the last one the last one's.
  __device__ int page_of(int key, unsigned behind = 0) const {
    return pages_[min(static_cast<unsigned>(key) / kv_page + behind, last_)];
  }
  /// The block of keys or values in page 0, and what is in another page where `in_first` is in page 0.
  __device__ const std::uint8_t* first(bool values) const { return blocks_[values]; }
  __device__ const std::uint8_t* in_page(bool values, int page, const std::uint8_t* in_first) const {
    std::uint64_t offset;  // nvcc would multiply 64 bits
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(offset) : "r"(page), "r"(page_bytes_[values]));
    return in_first + offset;
  }
  __device__ const std::uint8_t* block(bool values, int page) const { return in_page(values, page, first(values)); }

 private:
  __device__ static const std::uint8_t* block_of(const KvSide& side, int kv_head) {
    return side.data + side.offset + kv_head * side.block_bytes;
  }

  int end_;
  unsigned last_;
  const std::int32_t* pages_;
  const std::uint8_t* blocks_[2];
  unsigned page_bytes_[2];
};

}  // namespace llminfer::cuda
