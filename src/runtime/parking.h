// Sequences of requests that have ended but were not given back yet: they keep their pages until somebody needs them.
#pragma once

#include <cstdint>
#include <mutex>

#include "runtime/sequence.h"

namespace llminfer::runtime {

/// (any thread) A list through its nodes, oldest first. Lock order: the pool's mutex before this one's.
class Parking {
 public:
  /// Owned by the request, which unparks it before it goes or touches the sequence.
  struct Node {
    Sequence* sequence = nullptr;  ///< null: not parked
    Node* before = nullptr;
    Node* after = nullptr;
  };

  void park(Node& node, Sequence& sequence) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    node = {&sequence, last_, nullptr};
    (last_ != nullptr ? last_->after : first_) = &node;
    last_ = &node;
    pages_ += sequence.pages();
  }
  void unpark(Node& node) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (node.sequence != nullptr) remove(node);
  }
  /// (pool's mutex) Evicts the oldest; false when nobody is parked.
  bool reclaim() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (first_ == nullptr) return false;
    Sequence& sequence = *first_->sequence;
    remove(*first_);
    sequence.evict();
    return true;
  }
  /// In the tables of all parked sequences; pages that they share count more than once.
  PageCounts pages() const noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return pages_;
  }

 private:
  void remove(Node& node) noexcept {
    pages_ -= node.sequence->pages();
    (node.before != nullptr ? node.before->after : first_) = node.after;
    (node.after != nullptr ? node.after->before : last_) = node.before;
    node = {};
  }

  mutable std::mutex mutex_;
  Node* first_ = nullptr;
  Node* last_ = nullptr;
  PageCounts pages_;
};

}  // namespace llminfer::runtime
