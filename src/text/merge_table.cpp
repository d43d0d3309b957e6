#include "text/merge_table.h"

#include "core/fail.h"
#include "text/byte_alphabet.h"
#include "text/spaces.h"
#include "text/vocabulary.h"

namespace llminfer::text {

MergeTable::MergeTable(const Vocabulary& vocabulary)
    : vocabulary_size_(static_cast<std::uint32_t>(vocabulary.size())),
      symbols_(static_cast<std::size_t>(vocabulary.size()), vocabulary.spec().memory),
      slots_(vocabulary.spec().memory) {
  collect_symbols(vocabulary);
  const core::StringTable& merges = vocabulary.spec().merges;
  if (merges.size() > (1u << 28)) core::fail(ErrorCode::corrupt, "merges: {} are too many", merges.size());
  std::size_t capacity = 16;
  while (capacity < merges.size() * 2) capacity *= 2;
  slots_.resize(capacity);
  mask_ = capacity - 1;
  const bool alphabet = !vocabulary.pre().raw_utf8;
  std::string both;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const std::size_t space = merge.find(' ', 1);  // a part may itself be a space
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      core::fail(ErrorCode::corrupt, "merges: entry {} (\"{}\") is not two parts with a space between", rank,
                 merge.substr(0, 80));
    }
    both.clear();
    const std::string_view first = merge.substr(0, space), second = merge.substr(space + 1);
    if (alphabet) {
      if (!append_from_byte_alphabet(first, both)) continue;  // no text can contain it
      const std::size_t middle = both.size();
      if (!append_from_byte_alphabet(second, both)) continue;
      const std::uint32_t left = symbol_or_new(std::string_view(both).substr(0, middle));
      const std::uint32_t right = symbol_or_new(std::string_view(both).substr(middle));
      add(std::uint64_t{left} << 32 | right, {static_cast<std::uint32_t>(rank), symbol_or_new(both)});
    } else {
      append_marks_as_spaces(first, both);
      const std::size_t middle = both.size();
      append_marks_as_spaces(second, both);
      const std::uint32_t left = symbol_or_new(std::string_view(both).substr(0, middle));
      const std::uint32_t right = symbol_or_new(std::string_view(both).substr(middle));
      add(std::uint64_t{left} << 32 | right, {static_cast<std::uint32_t>(rank), symbol_or_new(both)});
    }
  }
}

void MergeTable::collect_symbols(const Vocabulary& vocabulary) {
  const bool alphabet = !vocabulary.pre().raw_utf8;
  std::string scratch;
  for (const TokenKind wanted : {TokenKind::normal, TokenKind::user_defined}) {
    for (Token id = 0; id < vocabulary.size(); ++id) {
      if (vocabulary.kind(id) != wanted || vocabulary.bytes(id).empty()) continue;
      scratch.clear();
      // Spellings outside the alphabet stand for no bytes that a text could have.
      if (alphabet && wanted == TokenKind::normal && !append_from_byte_alphabet(vocabulary.text(id), scratch)) continue;
      symbols_.insert(vocabulary.bytes(id), id);
    }
  }
}

std::uint32_t MergeTable::symbol_or_new(std::string_view bytes) {
  const std::int32_t known = symbols_.find(bytes);
  if (known >= 0) return static_cast<std::uint32_t>(known);
  const auto id = static_cast<std::int32_t>(vocabulary_size_ + extra_.size());
  extra_.emplace_back(bytes);
  symbols_.insert(extra_.back(), id);
  return static_cast<std::uint32_t>(id);
}

void MergeTable::add(std::uint64_t key, MergeRule rule) noexcept {
  std::size_t at = place(key);
  while (slots_[at].rule.rank != MergeRule::never) {
    if (slots_[at].key == key) return;  // the first of equal merges counts
    at = (at + 1) & mask_;
  }
  slots_[at] = {key, rule};
}

}  // namespace llminfer::text
