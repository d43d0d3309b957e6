// The feedback loop that both versions of mirostat share.
#pragma once

#include "runtime/sampling/link.h"
#include "runtime/sampling/undo_log.h"

namespace llminfer::runtime {

/// mu starts at 2 tau and moves by -eta * (surprise of the token taken - tau), surprises in bits.
class SurpriseControl {
 public:
  SurpriseControl(float tau, float eta, const LinkContext& context)
      : tau_(tau), eta_(eta), mu_(2 * static_cast<double>(tau)), undo_(context.context, context.memory) {}

  double mu() const noexcept { return mu_; }
  void drawn(const Chosen& chosen) noexcept { pending_ = chosen; }
  /// A token that was not drawn here (the caller forced it) teaches nothing.
  void accept(Token token) {
    undo_.push(mu_);
    if (token == pending_.token) mu_ -= eta_ * (-pending_.log_probability * log2_e - tau_);
    pending_ = {};
  }
  void rollback(int count) noexcept {
    undo_.undo(count, mu_);
    pending_ = {};
  }

 private:
  double tau_, eta_, mu_;
  Chosen pending_{};
  UndoLog<double> undo_;
};

}  // namespace llminfer::runtime
