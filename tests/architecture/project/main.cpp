// Builds the graph of a small model whose file names the new architecture.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>

#include "models/registry.h"
#include "support/gguf_builder.h"

namespace {

using namespace llminfer;

test::Bytes small_model() {
  test::GgufBuilder builder = test::tiny_llama();
  for (test::GgufKey& key : builder.keys) {
    if (key.name.rfind("llama.", 0) == 0) key.name = "example" + key.name.substr(5);
  }
  return builder.string("general.architecture", "example").build();
}

int check(bool ok, const char* what) {
  std::printf("%s: %s\n", what, ok ? "yes" : "NO");
  return ok ? 0 : 1;
}

}  // namespace

int main() {
  try {
    const test::Bytes bytes = small_model();
    const auto file = format::ModelFile::open(ModelSource::memory(bytes));
    const models::ModelGraph model = models::build_model(file, file.hyper_parameters(), {});
    const auto& ops = model.graph->ops;
    const bool gelu = std::any_of(ops.begin(), ops.end(), [](const backend::Op& op) {
      const auto* activation = std::get_if<backend::GatedActivation>(&op);
      return activation != nullptr && activation->kind == backend::Activation::gelu_tanh;
    });
    int bad = check(models::knows("example"), "the registry knows the new name");
    bad += check(models::knows("llama"), "and the old ones");
    bad += check(model.graph->states.size() == 1 && model.graph->states[0].window == 64, "its window is in the graph");
    bad += check(gelu, "its activation is in the graph");
    return bad;
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
    return 1;
  }
}
