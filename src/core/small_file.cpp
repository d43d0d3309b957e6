#include "core/small_file.h"

#include <fstream>

namespace llminfer::core {

std::optional<std::string> read_small_file(const std::filesystem::path& path) {
  std::ifstream file;
  file.rdbuf()->pubsetbuf(nullptr, 0);  // these files are a line long: no buffer beside the text's own
  file.open(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text;
  constexpr std::size_t piece = 1024, most = 65536;
  while (file && text.size() < most) {
    const std::size_t before = text.size();
    text.resize(before + piece);
    file.read(text.data() + before, static_cast<std::streamsize>(piece));
    text.resize(before + static_cast<std::size_t>(file.gcount()));
  }
  return text;
}

}  // namespace llminfer::core
