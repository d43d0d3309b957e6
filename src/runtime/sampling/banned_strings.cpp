#include "runtime/sampling/banned_strings.h"

#include <algorithm>

namespace llminfer::runtime {

BannedStrings::BannedStrings(std::span<const std::string> strings, const TokenBytes* bytes) : bytes_(bytes) {
  for (const std::string& text : strings) {
    Pattern pattern{text, std::vector<int>(text.size(), 0), 0};
    for (std::size_t i = 1; i < text.size(); ++i) {
      int border = pattern.fail[i - 1];
      while (border > 0 && text[i] != text[static_cast<std::size_t>(border)]) {
        border = pattern.fail[static_cast<std::size_t>(border) - 1];
      }
      pattern.fail[i] = border + (text[i] == text[static_cast<std::size_t>(border)] ? 1 : 0);
    }
    longest_ = std::max(longest_, text.size());
    patterns_.push_back(std::move(pattern));
  }
  if (!patterns_.empty()) bans_.reserve(max_attempts);
}

// True when the pattern is complete; `matched` then goes on with its longest border.
bool BannedStrings::Pattern::feed(char c) noexcept {
  while (matched > 0 && text[static_cast<std::size_t>(matched)] != c) {
    matched = fail[static_cast<std::size_t>(matched) - 1];
  }
  if (text[static_cast<std::size_t>(matched)] == c) ++matched;
  if (static_cast<std::size_t>(matched) < text.size()) return false;
  matched = fail.back();
  return true;
}

// What a pattern has matched depends on the last longest - 1 bytes alone.
void BannedStrings::rebuild(std::span<const Token> tokens) noexcept {
  for (Pattern& pattern : patterns_) pattern.matched = 0;
  const auto count = static_cast<std::size_t>(tokens_spanning(longest_, tokens));
  for (const Token token : tokens.last(count)) {
    for (const char c : bytes_->bytes(token)) {
      for (Pattern& pattern : patterns_) pattern.feed(c);
    }
  }
  stale_ = false;
}

int BannedStrings::tokens_spanning(std::size_t bytes, std::span<const Token> tokens) const noexcept {
  std::size_t seen = 0;
  std::size_t count = 0;
  while (seen < bytes && count < tokens.size()) seen += bytes_->bytes(tokens[tokens.size() - ++count]).size();
  return static_cast<int>(count);
}

BannedStrings::Finding BannedStrings::accept(std::span<const Token> history, int new_tokens) noexcept {
  if (!active() || history.empty() || new_tokens <= 0) return {};
  const auto fresh = history.last(std::min(history.size(), static_cast<std::size_t>(new_tokens)));
  if (stale_) rebuild(fresh.first(fresh.size() - 1));
  const auto text = bytes_->bytes(fresh.back());
  std::size_t reach = 0;  // bytes from the earliest start of a complete string to the end of the text
  std::size_t forming = 0;
  for (Pattern& pattern : patterns_) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (pattern.feed(text[i])) reach = std::max(reach, pattern.text.size() + text.size() - 1 - i);
    }
    forming = std::max(forming, static_cast<std::size_t>(pattern.matched));
  }
  if (reach == 0) {
    const int held = tokens_spanning(forming, fresh);
    const std::size_t settled = history.size() - static_cast<std::size_t>(held);
    std::erase_if(bans_, [&](const Ban& ban) { return ban.position < settled; });
    return {0, held};
  }
  const int count = tokens_spanning(reach, fresh);
  const std::size_t position = history.size() - static_cast<std::size_t>(count);
  rolled_back_to(position);
  if (bans_.size() < max_attempts) {
    bans_.push_back({position, history[position]});
  } else {
    exhausted_ = true;
  }
  return {count, 0};
}

void BannedStrings::rolled_back_to(std::size_t length) noexcept {
  std::erase_if(bans_, [&](const Ban& ban) { return ban.position > length; });
  stale_ = true;
}

void BannedStrings::apply(Candidates& candidates, std::size_t position) const noexcept {
  for (const Ban& ban : bans_) {
    if (ban.position == position) candidates.remove(ban.token);
  }
}

int BannedStrings::attempts(std::size_t position) const noexcept {
  return static_cast<int>(
      std::count_if(bans_.begin(), bans_.end(), [&](const Ban& ban) { return ban.position == position; }));
}

}  // namespace llminfer::runtime
