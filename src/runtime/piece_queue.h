// Pieces between the thread that makes them and the client that reads them. Bounded; its owner guards it.
#pragma once

#include <cstddef>
#include <llminfer/generator.hpp>
#include <vector>

namespace llminfer::runtime {

/// A ring of pieces with their text and top tokens, sized once. A piece's bytes belong to the tokenizer.
class PieceQueue {
 public:
  /// Room for `pieces` pieces, their texts at least `most_text` bytes together, each with up to `top` top tokens.
  PieceQueue(std::size_t pieces, std::size_t most_text, std::size_t top)
      : entries_(pieces), tops_(pieces * top), top_(top), text_(2 * most_text + 16 * pieces) {}

  std::size_t size() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }

  /// Copies the piece; false and unchanged when there is no room now.
  bool push(const Piece& piece) noexcept;
  /// The oldest. Its views live until pop().
  const Piece& front() const noexcept { return entries_[first_].piece; }
  void pop() noexcept;

 private:
  struct Entry {
    Piece piece;
    std::size_t text_end = 0;  // in text_
  };
  bool place_text(std::size_t bytes, std::size_t& at) const noexcept;

  std::vector<Entry> entries_;
  std::vector<TopToken> tops_;
  std::size_t top_;
  std::vector<char> text_;  // a ring of whole texts: [text_first_, text_end_) is in use, wrapped where end < first
  std::size_t text_first_ = 0;
  std::size_t text_end_ = 0;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace llminfer::runtime
