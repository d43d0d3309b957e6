// The tokens still in play, as a chain's links see them.
#pragma once

#include <cstdint>
#include <llminfer/sampling.hpp>
#include <memory_resource>
#include <span>
#include <vector>

#include "runtime/sampling/math.h"

namespace llminfer::runtime {

/// What is wrong with a row of logits.
enum class LogitCheck { ok, not_a_number, infinite, nothing_left };

/// A set of (id, logit) in one of two forms, so that a large vocabulary is read once and never sorted:
///   dense    all ids; logits read in place from the row, copied on the first edit; a removed id holds -inf.
///            Maxima of blocks of 128 ids lead top-k and thresholds past blocks that have nothing.
///   compact  a list in id order of the ids not removed, once a link has cut the set down (or needs to see all).
/// The logit of an id is stored value * scale: a temperature touches no element. All memory is taken at construction.
/// "Best" is by logit, then by lower id.
class Candidates {
 public:
  static constexpr std::size_t block = 128;

  Candidates(int vocabulary, std::pmr::memory_resource* memory);

  /// Starts with a row of `vocabulary` logits, which must stay valid and unchanged until the next reset.
  LogitCheck reset(std::span<const float> logits) noexcept;
  /// As reset with a row of which keep_top has left these: falling, the lower id first of equals.
  LogitCheck reset_top(std::span<const Token> ids, std::span<const float> logits) noexcept;
  /// As reset with the ids alone whose bit is set in `mask` (64 ids a word).
  void restrict_to(std::span<const std::uint64_t> mask) noexcept;

  int vocabulary() const noexcept { return static_cast<int>(own_.size()); }
  bool dense() const noexcept { return dense_; }

  /// Largest logit; -inf when nothing is left.
  double max() const noexcept;
  /// Best id, -1 when nothing is left.
  Token best() const noexcept;
  /// Logit of an id, -inf if it is removed or outside the vocabulary.
  double logit(Token id) const noexcept;

  /// Sets the logit of an id that is not removed (others stay removed); -inf removes it.
  void set(Token id, double logit) noexcept;
  void remove(Token id) noexcept { set(id, minus_infinity); }
  /// Multiplies all logits by factor > 0.
  void multiply(double factor) noexcept;

  /// Reduces to the best id, to the k best, or to the logits >= threshold. keep_from never removes the largest.
  void keep_best() noexcept;
  void keep_top(std::size_t k) noexcept;
  void keep_from(double threshold) noexcept;

  /// ln of the sum of e^logit.
  double log_sum_exp() const noexcept;

  /// Turns to the compact form and gives its list, without removed ids. Logits in it are stored values: multiply by
  /// scale(). A link may change them and then calls list_changed().
  std::span<Candidate> list() noexcept;
  double scale() const noexcept { return scale_; }
  /// Drops ids set to -inf. False when a logit is NaN or +inf.
  bool list_changed() noexcept;
  /// Multiplies the scale into the list's values; it is 1 then.
  void apply_scale() noexcept;

  /// Probabilities of list(), in its order; valid until the next call or edit.
  std::span<double> probabilities() noexcept;
  /// One score an entry of list(), for links that need it; content unspecified.
  std::span<double> scores() noexcept { return {scores_.data(), list_.size()}; }
  /// Indices 0 .. list().size() - 1, for links that order the list.
  std::span<std::uint32_t> order() noexcept;
  /// Place of an id in list(), list().size() if it is not there. Compact form only.
  std::size_t find(Token id) const noexcept;
  /// Keeps the entries of list() whose indices are given (in any order). Overwrites scores().
  void keep_entries(std::span<const std::uint32_t> indices) noexcept;

  /// The k best, best first; valid until the next call of any member. Changes nothing else.
  std::span<const Candidate> top(std::size_t k) noexcept;

  struct Drawn {
    Token token = -1;
    double log_probability = minus_infinity;
  };
  /// The first id, in id order, at which the running sum of p exceeds uniform. Token -1 when nothing is left.
  Drawn draw(float uniform) noexcept;

 private:
  std::span<const float> block_values(std::size_t b) const noexcept;
  void update_block(std::size_t b) noexcept;
  void copy_row() noexcept;
  float top_bound(std::size_t k) noexcept;
  Drawn draw_dense(float uniform) noexcept;
  void purge() noexcept;

  bool dense_ = true;
  bool copied_ = false;
  bool holes_ = false;  // compact: some entries hold -inf and wait to be dropped
  double scale_ = 1;
  const float* values_ = nullptr;  // dense: the row, or own_
  std::pmr::vector<float> own_;
  std::pmr::vector<float> block_max_;
  std::pmr::vector<float> block_order_;  // scratch for top_bound
  std::pmr::vector<double> block_sum_;
  std::pmr::vector<Candidate> list_, top_;
  std::pmr::vector<double> scores_;
  std::pmr::vector<std::uint32_t> order_;
};

}  // namespace llminfer::runtime
