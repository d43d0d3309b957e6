// What a step gives back for the rows wanted out: all logits, or of each row the best alone.
#pragma once

#include <cstdint>
#include <llminfer/backend/backend.hpp>
#include <memory>
#include <span>

#include "core/memory.h"

namespace llminfer::runtime {

/// Of one row: its logits, or the best of them, falling; nothing of a history that goes on.
struct ComputedRow {
  std::span<const float> logits{};
  std::span<const Token> top_ids{};
  std::span<const float> top_logits{};

  bool empty() const noexcept { return logits.empty() && top_ids.empty(); }
};

/// Memory for such rows. One step at a time: what the last one gave is gone when the next begins.
class StepRows {
 public:
  static constexpr int most_top = 128;  ///< best logits that a row is reduced to

  /// Takes memory for `rows` rows. Throws what memory reports.
  StepRows(std::shared_ptr<core::Memory> memory, std::int32_t vocabulary, std::size_t rows);

  /// What to ask a device for: the `top` best logits of each row, at most most_top and not all of them; 0: the whole
  /// rows. The caller adds StepOutputs::allowed.
  backend::StepOutputs outputs(int top) noexcept;
  /// Row `row` of a step that was asked for outputs(top).
  ComputedRow computed(std::size_t row, int top) const noexcept;

  /// Room of StepOutputs::allowed for `rows` rows, in that of their logits: outputs(top > 0) has no use for it.
  std::span<std::uint32_t> allowed(std::size_t rows) noexcept;

  /// Room for more rows of logits, if there is less; those before are lost then.
  void grow(std::size_t rows);
  std::span<float> logits(std::size_t row) noexcept { return logits_.span().subspan(row * width_, width_); }
  std::span<const float> logits(std::size_t row) const noexcept { return logits_.span().subspan(row * width_, width_); }

 private:
  std::shared_ptr<core::Memory> memory_;
  std::size_t width_;
  core::Array<float> logits_;
  core::Array<Token> top_ids_;
  core::Array<float> top_logits_;
  core::Array<float> log_sums_;
};

}  // namespace llminfer::runtime
