// The scratch memory of sampling: one for all chains that one thread runs.
#pragma once

#include "runtime/sampling/candidates.h"
#include "runtime/sampling/token_counts.h"

namespace llminfer::runtime {

/// About 41 bytes per vocabulary entry, all taken here; `memory` must outlive it.
struct SamplerWorkspace {
  explicit SamplerWorkspace(int vocabulary, std::pmr::memory_resource* memory = std::pmr::get_default_resource())
      : candidates(vocabulary, memory),
        counts(vocabulary, memory),
        mask((static_cast<std::size_t>(vocabulary) + 63) / 64, memory) {}

  /// Bytes that a workspace takes, within a few of the vocabulary's thousands.
  static std::uint64_t bytes(int vocabulary) noexcept { return static_cast<std::uint64_t>(vocabulary) * 161 / 4; }

  Candidates candidates;
  TokenCounts counts;
  std::pmr::vector<std::uint64_t> mask;
};

}  // namespace llminfer::runtime
