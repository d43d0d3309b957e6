// The prompts of a file: a line each, plain text or JSON.
#pragma once

#include <istream>
#include <optional>
#include <string>

namespace examples {

/// One request. What a JSON line does not say is left to the command line.
struct Prompt {
  std::string text{};
  std::optional<int> max_tokens{};
  std::optional<std::uint64_t> seed{};
  std::string error{};  ///< what is wrong with the line; the rest is then empty
};

/// Reads prompts one after the other. Plain: the line is the prompt, empty lines are passed over. JSON: an object with
/// "prompt", and perhaps "max_tokens" and "seed".
class PromptReader {
 public:
  PromptReader(std::istream& in, bool json) : in_(in), json_(json) {}
  /// None at the end.
  std::optional<Prompt> next();

 private:
  std::istream& in_;
  bool json_;
  int line_ = 0;
};

}  // namespace examples
