// What each op reads and writes, as lists: the only table that code over all ops needs to walk a graph.
#pragma once

#include <array>
#include <llminfer/backend/graph.hpp>

namespace llminfer::graph {

/// Values and weights of one op; unused places are backend::none.
struct OpIo {
  std::array<backend::ValueId, 3> in{backend::none, backend::none, backend::none};
  backend::ValueId out = backend::none;
  std::array<backend::WeightId, 2> weights{backend::none, backend::none};
};

OpIo io_of(const backend::Op& op) noexcept;

/// "matmul", "paged_attention", ... Static string, the same word that kernels and tests use.
const char* name_of(const backend::Op& op) noexcept;

const char* name_of(backend::GroupKind kind) noexcept;

}  // namespace llminfer::graph
