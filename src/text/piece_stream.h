// From the bytes of generated tokens to what a caller may see of them: stop strings first, then whole characters.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "text/piece_decoder.h"
#include "text/stop_strings.h"

namespace llminfer::text {

/// Allocates in the constructor and when copied, never in feed, as long as pieces keep to most_piece_bytes.
class PieceStream {
 public:
  /// `most_piece_bytes`: of one token (Vocabulary::longest_bytes()).
  PieceStream(std::shared_ptr<const StopStrings> stops, std::size_t most_piece_bytes) : matcher_(std::move(stops)) {
    reserve(most_piece_bytes);
  }
  PieceStream(const PieceStream& other) : matcher_(other.matcher_), decoder_(other.decoder_) {
    reserve(other.piece_bytes_);
    bytes_ = other.bytes_;
    text_ = other.text_;
  }
  PieceStream& operator=(PieceStream other) noexcept {
    std::swap(matcher_, other.matcher_);
    std::swap(decoder_, other.decoder_);
    std::swap(piece_bytes_, other.piece_bytes_);
    bytes_.swap(other.bytes_);
    text_.swap(other.text_);
    return *this;
  }

  /// Where the stream stands; small, for rewinding.
  struct Mark {
    StopMatcher matcher;
    PieceDecoder decoder;
  };
  Mark mark() const noexcept { return {matcher_, decoder_}; }
  void rewind(const Mark& mark) noexcept {
    matcher_ = mark.matcher;
    decoder_ = mark.decoder;
    bytes_.clear();
    text_.clear();
  }

  /// Takes a token's bytes; sets bytes() and text() to what they set free. A value: the index of the stop string that
  /// is complete, which ends the stream: the text then includes what finish() would give. `last`: no token follows.
  std::optional<std::size_t> feed(std::string_view piece, bool last = false) {
    bytes_.clear();
    text_.clear();
    const std::optional<std::size_t> stop = matcher_.feed(piece, bytes_);
    if (last && !stop) matcher_.finish(bytes_);
    decoder_.feed(bytes_, text_);
    if (last || stop) decoder_.finish(text_);
    return stop;
  }
  /// The end, when it was not known at the last feed(): sets bytes() and text() to what still waited. The start of a
  /// stop string comes out as it is; an unfinished character is U+FFFD in the text, its bytes came out earlier.
  void finish() { feed({}, true); }

  /// Freed by the last call; valid until the next one.
  std::string_view bytes() const noexcept { return bytes_; }
  std::string_view text() const noexcept { return text_; }

 private:
  void reserve(std::size_t most_piece_bytes) {
    piece_bytes_ = most_piece_bytes;
    const std::size_t most = most_piece_bytes + 2 * matcher_.longest();
    bytes_.reserve(most);
    text_.reserve(PieceDecoder::most_text(most) + 3);
  }

  StopMatcher matcher_;
  PieceDecoder decoder_;
  std::size_t piece_bytes_ = 0;
  std::string bytes_, text_;
};

}  // namespace llminfer::text
