#include "text/piece_decoder.h"

#include "text/utf8.h"

namespace llminfer::text {

void PieceDecoder::feed(std::string_view bytes, std::string& text) {
  while (!bytes.empty()) {
    if (count_ == 0) {
      const std::size_t good = utf8_valid_prefix(bytes);
      text.append(bytes.substr(0, good));
      bytes.remove_prefix(good);
      if (bytes.empty()) return;
    }
    pending_[count_++] = bytes.front();
    const Utf8Step step = utf8_step({pending_.data(), count_}, 0);
    if (step.cut) {
      bytes.remove_prefix(1);
    } else if (step.valid) {
      text.append(pending_.data(), count_);
      count_ = 0;
      bytes.remove_prefix(1);
    } else {
      text.append(replacement_utf8);
      // The byte that broke an unfinished character may start the next one.
      if (count_ == 1) bytes.remove_prefix(1);
      count_ = 0;
    }
  }
}

void PieceDecoder::finish(std::string& text) {
  if (count_ > 0) text.append(replacement_utf8);
  count_ = 0;
}

}  // namespace llminfer::text
