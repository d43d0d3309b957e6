// What of a graph can be done where the products of a matmul end, by the thread that made them.
#pragma once

#include <array>
#include <cstdint>

#include <llminfer/backend/backend.hpp>

namespace llminfer::cpu {

/// Products of one input, or one product in slices; each of these parts is followed head by head by norms and RoPE, and
/// by the KV write of the keys and values: ops [first, end). The steps come behind the products, slices before others.
struct HeadRun {
  static constexpr std::int32_t most = 3;

  struct Part {
    std::int32_t product = 0;
    std::int32_t offset = 0;  ///< its first column of the product
    std::int32_t width = 0;
    std::int32_t head = 0;  ///< values of one head; 0: no step follows it

    /// Values that are whole heads and, but for the last of all, whole panels; of a part without steps a panel.
    std::int32_t unit() const noexcept;
  };

  std::int32_t products = 0;
  std::int32_t parts = 0;
  std::int32_t end = 0;
  std::array<Part, most> part{};  ///< that of the keys first, that of the values last
};

/// The run that begins at op `first`; products = 0 if there is none. Slices are whole panels.
HeadRun find_head_run(const backend::Graph& graph, std::int32_t first) noexcept;

/// How many ops from `first` on are slices that divide the value `of` into equal parts of whole panels; 0: none do.
std::int32_t equal_slices(const backend::Graph& graph, std::int32_t first, backend::ValueId of) noexcept;

/// Whether each result of the op depends on the values of its own column alone.
bool is_columnwise(const backend::Op& op) noexcept;

}  // namespace llminfer::cpu
