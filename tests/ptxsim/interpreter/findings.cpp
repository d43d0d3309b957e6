#include "interpreter/findings.h"

namespace ptxsim {

const char* name_of(Check check) noexcept {
  constexpr const char* names[] = {"bounds",     "alignment",   "uninitialised", "shared_race", "global_race",
                                   "barrier",    "sync_mask",   "deadlock",      "cluster",     "mbarrier",
                                   "grid_order", "unsupported", "launch"};
  return names[static_cast<int>(check)];
}

std::string source_of(const Kernel& kernel, const Instruction& i) {
  const auto name = [&](std::uint32_t file) {
    if (kernel.files == nullptr || file >= kernel.files->size()) return std::string();
    const std::string& path = (*kernel.files)[file];
    return path.substr(path.find_last_of('/') + 1);
  };
  if (i.at.line == 0) return {};
  const std::string file = name(i.at.file);
  // A line of the toolkit's headers says little: the one that called it says more.
  const bool toolkit = file.size() > 4 && file.compare(file.size() - 4, 4, ".hpp") == 0;
  if (toolkit && i.at.call_line != 0) return name(i.at.call_file) + ":" + std::to_string(i.at.call_line);
  return file + ":" + std::to_string(i.at.line);
}

void Findings::add(Check check, const Instruction& at, std::string text) {
  if (list_.size() >= 200 || !seen_.emplace(check, &at).second) return;
  list_.push_back(
      {check, kernel_.name, source_of(kernel_, at), std::move(text) + "  [" + kernel_.texts[at.text] + "]"});
}

void Findings::add_plain(Check check, std::string text) { list_.push_back({check, kernel_.name, {}, std::move(text)}); }

}  // namespace ptxsim
