#include "transcript.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace examples {

void save_transcript(const std::string& path, const std::string& model,
                     std::span<const llminfer::ChatMessage> messages) {
  nlohmann::ordered_json out;
  out["model"] = model;
  out["messages"] = nlohmann::ordered_json::array();
  for (const llminfer::ChatMessage& message : messages) {
    nlohmann::ordered_json entry;
    entry["role"] = message.role;
    entry["content"] = message.content;
    out["messages"].push_back(std::move(entry));
  }
  std::ofstream file(path, std::ios::binary);
  file << out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace examples
