// What of a graph can be done where the products of a matmul end, by the thread that made them.
#pragma once

#include <array>
#include <cstdint>

#include <llminfer/backend/backend.hpp>

namespace llminfer::cpu {

/// Products of one input, each followed head by head by norms and RoPE, and by the KV write of the keys and values:
/// ops [first, end). The steps come behind the products.
struct HeadRun {
  static constexpr std::int32_t most = 3;

  std::int32_t products = 0;
  std::int32_t end = 0;
  std::array<std::int32_t, most> head{};   ///< values of one head of each product; 0: no step follows it
  std::array<std::int32_t, most> order{};  ///< of the products: that of the keys first, that of the values last
};

/// The run that begins at op `first`; products = 0 if there is none. Heads are whole panels.
HeadRun find_head_run(const backend::Graph& graph, std::int32_t first) noexcept;

/// Whether each result of the op depends on the values of its own column alone.
bool is_columnwise(const backend::Op& op) noexcept;

}  // namespace llminfer::cpu
