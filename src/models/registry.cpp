#include "models/registry.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "core/fail.h"
#include "models/architecture.h"

namespace llminfer::models {
namespace {

struct Architecture {
  std::string_view name;
  Describe* describe;
};

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage)
#define LLMINFER_ARCHITECTURE(name, function) Architecture{name, arch::function},
constexpr Architecture architectures[] = {
#include "models/architectures.inc"
};
#undef LLMINFER_ARCHITECTURE

const Architecture* find(std::string_view name) noexcept {
  const auto found = std::find_if(std::begin(architectures), std::end(architectures),
                                  [&](const Architecture& a) { return a.name == name; });
  return found == std::end(architectures) ? nullptr : found;
}

const Architecture& known(std::string_view name) {
  const Architecture* found = find(name);
  if (found != nullptr) return *found;
  std::string names;
  for (const Architecture& a : architectures) names += (names.empty() ? "" : ", ") + std::string(a.name);
  core::fail(ErrorCode::unsupported_architecture, "general.architecture is '{}'; known are {}", name, names);
}

}  // namespace

void require_known(std::string_view architecture) { known(architecture); }

bool knows(std::string_view architecture) noexcept { return find(architecture) != nullptr; }

std::vector<std::string_view> architecture_names() {
  std::vector<std::string_view> names;
  for (const Architecture& a : architectures) names.push_back(a.name);
  return names;
}

ModelGraph build_model(const format::ModelFile& file, const format::HyperParameters& hyper,
                       const BuildOptions& options) {
  const Architecture& architecture = known(file.architecture());
  return build_decoder(file, hyper, architecture.describe(file, hyper, options), options);
}

}  // namespace llminfer::models
