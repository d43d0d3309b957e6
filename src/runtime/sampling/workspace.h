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

  Candidates candidates;
  TokenCounts counts;
  std::pmr::vector<std::uint64_t> mask;
};

}  // namespace llminfer::runtime
