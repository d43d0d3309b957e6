#include "runtime/piece_queue.h"

#include <algorithm>

namespace llminfer::runtime {

/// Where a text of `bytes` fits in one stretch. An end equal to the first byte in use would look empty, so one byte
/// stays free.
bool PieceQueue::place_text(std::size_t bytes, std::size_t& at) const noexcept {
  const bool wrapped = text_end_ < text_first_;
  at = text_end_;
  if (wrapped) return text_end_ + bytes < text_first_;
  if (text_end_ + bytes <= text_.size()) return true;
  at = 0;
  return bytes < text_first_;
}

bool PieceQueue::push(const Piece& piece) noexcept {
  if (count_ == entries_.size()) return false;
  if (count_ == 0) text_first_ = text_end_ = 0;
  std::size_t at = text_end_;
  if (!piece.text.empty() && !place_text(piece.text.size(), at)) return false;
  const std::size_t slot = (first_ + count_) % entries_.size();
  std::copy(piece.text.begin(), piece.text.end(), text_.begin() + static_cast<std::ptrdiff_t>(at));
  const std::size_t top = std::min(top_, piece.top.size());
  const auto tops = tops_.begin() + static_cast<std::ptrdiff_t>(slot * top_);
  std::copy_n(piece.top.begin(), top, tops);
  Entry& entry = entries_[slot];
  entry.piece = piece;
  entry.piece.text = {text_.data() + at, piece.text.size()};
  entry.piece.top = {tops_.data() + slot * top_, top};
  text_end_ = entry.text_end = at + piece.text.size();
  ++count_;
  return true;
}

void PieceQueue::pop() noexcept {
  text_first_ = entries_[first_].text_end;
  first_ = (first_ + 1) % entries_.size();
  --count_;
}

}  // namespace llminfer::runtime
