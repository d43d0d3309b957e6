// The ops that work head by head: one head of one row.
#pragma once

#include <cstddef>
#include <cstdint>

#include <llminfer/backend/graph.hpp>

namespace llminfer::cpu {

class Executor;

struct HeadOp {
  Executor& run;
  std::int64_t row;
  std::size_t sequence;  ///< of the row
  std::int32_t head;
  int thread;

  void norm(const backend::RmsNorm& op) const noexcept;
  void rope(const backend::Rope& op) const noexcept;
  void slice(const backend::Slice& op, std::int32_t head_width) const noexcept;
  void store_key(const backend::KvWrite& op) const noexcept;
  void store_value(const backend::KvWrite& op) const noexcept;

 private:
  std::byte* page_of(const backend::KvWrite& op) const noexcept;
};

}  // namespace llminfer::cpu
