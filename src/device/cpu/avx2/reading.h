// How the kernel of single columns of Q6_K brings what it will read. A core's own misses are at most some two dozen at
// a time, and of prefetch instructions it drops those for which there is no room: at memory's latency that is half of
// what memory can give. The rest must come from the hardware's prefetcher, and that learns from loads, in the order of
// addresses. This kernel walks through its block back and forth, so it asks for lines far ahead, and loads one of those
// a little ahead whenever it has worked on another. Kernels that read in order have no need of it, and it costs those
// that wait for their arithmetic. Included inside a target region and namespace llminfer::cpu::avx2.

/// A load whose value nobody uses. All of the line must be there.
static inline __attribute__((always_inline)) void bring(const std::byte* line) {
  const __m256i unused = _mm256_load_si256(reinterpret_cast<const __m256i*>(line));
  asm volatile("" : : "x"(unused));
}

/// What a kernel should bring, and what it should ask for: the words of two blocks further on.
struct Later {
  const std::byte* near;
  const std::byte* far;
};

/// Where the kernel is in a panel, and what comes behind that.
class Reading {
 public:
  /// `next`: the panel that is read after this one; none: this one.
  Reading(const PackedShape& s, const std::byte* panel, const std::byte* next)
      : blocks_(s.blocks), panel_(panel), next_(next != nullptr ? next : panel), small_(next_ + s.small_plane) {}

  /// Of block b. Asks for the same block's small fields of the next panel: a plane so thin that it stays in the cache.
  __attribute__((always_inline)) Later from(std::int64_t b) const {
    _mm_prefetch(reinterpret_cast<const char*>(small_ + 32 * b), _MM_HINT_T0);
    return {words(b + 1), words(b + 3)};
  }

 private:
  static constexpr std::int64_t block_bytes = 64 * 52;  // in the words plane

  __attribute__((always_inline)) const std::byte* words(std::int64_t block) const {
    const std::int64_t over = block - blocks_;
    if (over < 0) return panel_ + block_bytes * block;
    return next_ + block_bytes * (over < blocks_ ? over : blocks_ - 1);
  }

  std::int64_t blocks_;
  const std::byte* panel_;
  const std::byte* next_;
  const std::byte* small_;
};
