// A conversation as a JSON file.
#pragma once

#include <llminfer/chat.hpp>
#include <span>
#include <string>

namespace examples {

/// Writes {"model": "...", "messages": [{"role": "...", "content": "..."}, ...]}. What is not UTF-8 becomes U+FFFD.
/// Throws std::runtime_error naming the file.
void save_transcript(const std::string& path, const std::string& model,
                     std::span<const llminfer::ChatMessage> messages);

}  // namespace examples
