#include "text/stop_strings.h"

#include "core/fail.h"

namespace llminfer::text {
namespace {

ByteTrie trie_of(const std::vector<std::string>& strings) {
  std::size_t total = 0;
  ByteTrie::Entries entries;
  for (std::size_t i = 0; i < strings.size(); ++i) {
    if (strings[i].empty()) core::fail(ErrorCode::invalid_argument, "stop: string {} is empty", i);
    total += strings[i].size();
    if (total > StopStrings::most_bytes) {
      core::fail(ErrorCode::invalid_argument, "stop: more than {} bytes together", StopStrings::most_bytes);
    }
    entries.emplace_back(strings[i], static_cast<std::int32_t>(i));
  }
  return ByteTrie(std::move(entries));
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> strings)
    : strings_(std::move(strings)), trie_(trie_of(strings_)), states_(trie_.node_count()) {
  for (std::size_t i = 0; i < strings_.size(); ++i) {
    longest_ = std::max(longest_, strings_[i].size());
    std::uint32_t node = ByteTrie::root;
    for (const char c : strings_[i]) {
      node = trie_.step(node, static_cast<std::uint8_t>(c));
      states_[node].string = static_cast<std::uint32_t>(i);
    }
  }
  // The trie numbers its nodes level by level: a fallback, being shorter, is complete before it is asked for.
  for (std::uint32_t node = 0; node < states_.size(); ++node) {
    const State& parent = states_[node];
    for (std::uint32_t child = trie_.first_child(node); child < trie_.end_child(node); ++child) {
      State& state = states_[child];
      state.depth = parent.depth + 1;
      if (node != ByteTrie::root) {
        std::uint32_t from = parent.fallback;
        std::uint32_t to = trie_.step(from, trie_.byte(child));
        while (to == ByteTrie::root && from != ByteTrie::root) {
          from = states_[from].fallback;
          to = trie_.step(from, trie_.byte(child));
        }
        state.fallback = to;
      }
      const std::int32_t own = trie_.value(child);
      state.match = own >= 0 ? static_cast<std::uint32_t>(own) : states_[state.fallback].match;
    }
  }
}

std::optional<std::size_t> StopMatcher::feed(std::string_view bytes, std::string& out) {
  const StopStrings& automaton = *strings_;
  if (automaton.empty()) {
    out.append(bytes);
    return std::nullopt;
  }
  for (const char c : bytes) {
    const StopStrings::State& before = automaton.states_[state_];
    std::uint32_t from = state_;
    std::uint32_t to = automaton.trie_.step(from, static_cast<std::uint8_t>(c));
    while (to == ByteTrie::root && from != ByteTrie::root) {
      from = automaton.states_[from].fallback;
      to = automaton.trie_.step(from, static_cast<std::uint8_t>(c));
    }
    const StopStrings::State& after = automaton.states_[to];
    // Of the bytes that waited and this one, what stays behind the new state (or before the match) is free.
    const bool matched = after.match != StopStrings::nothing;
    const std::size_t kept = matched ? automaton.strings_[after.match].size() : after.depth;
    const std::size_t freed = before.depth + 1 - kept;
    const std::size_t from_waiting = std::min<std::size_t>(freed, before.depth);
    out.append(automaton.strings_[before.string], 0, from_waiting);
    if (freed > from_waiting) out += c;
    state_ = matched ? 0 : to;
    if (matched) return after.match;
  }
  return std::nullopt;
}

void StopMatcher::finish(std::string& out) {
  const StopStrings::State& state = strings_->states_[state_];
  if (state.depth > 0) out.append(strings_->strings_[state.string], 0, state.depth);
  state_ = 0;
}

}  // namespace llminfer::text
