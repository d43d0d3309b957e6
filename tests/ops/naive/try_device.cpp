// usage: try_device PLUGIN MODEL      an application's view of a third party's device
#include <dlfcn.h>

#include <cstdio>
#include <llminfer/backend/op_cases.hpp>
#include <llminfer/llminfer.hpp>
#include <vector>

namespace {

using namespace llminfer;

const backend::Plugin* load(const char* file) {
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    return nullptr;
  }
  auto* entry = reinterpret_cast<LlminferBackendPlugin*>(dlsym(library, "llminfer_backend_plugin"));
  const backend::Plugin* plugin = entry == nullptr ? nullptr : entry();
  if (plugin == nullptr || plugin->version != backend::interface_version) {
    std::printf("%s is no plug-in of interface version %u\n", file, backend::interface_version);
    return nullptr;
  }
  return plugin;
}

/// All cases of float weights and float caches must pass; the others are refused by their type.
bool run_cases(const backend::Backend& device) {
  const Device reference = Device::reference().value();
  const auto results = backend::run_op_cases(device, *reference.backend());
  if (!results) {
    std::printf("op cases: %s\n", results.error().message.c_str());
    return false;
  }
  int counts[3] = {0, 0, 0};
  for (const backend::OpCaseResult& r : *results) {
    ++counts[static_cast<int>(r.outcome)];
    if (r.outcome == backend::OpCaseOutcome::failed) {
      std::printf("FAILED: %s, error %.3g, limit %.3g: %s\n", r.name.c_str(), r.error, r.limit, r.message.c_str());
    }
  }
  std::printf("op cases: %d passed, %d failed, %d unsupported\n", counts[0], counts[1], counts[2]);
  return counts[0] > 250 && counts[1] == 0 && counts[2] > 100;
}

/// Twelve tokens after "Hello", the most probable ones.
std::vector<Token> generate(const char* model_file, const Device& device) {
  LoadOptions options;
  options.devices = {device};
  options.weight_type = WeightType::f32;
  const Model model = Model::open(ModelSource::file(model_file), options).value();
  Session session = Session::open(model).value();
  session.append(model.tokenizer().encode("Hello").value()).value();
  GenerateOptions generation;
  generation.max_tokens = 12;
  generation.ignore_end_of_text = true;
  std::vector<Token> tokens;
  const auto keep = [&](const Piece& piece) {
    tokens.push_back(piece.token);
    return true;
  };
  Generator generator = session.generate(generation).value();
  generator.run(keep).value();
  return tokens;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::printf("usage: try_device PLUGIN MODEL\n");
    return 2;
  }
  const backend::Plugin* plugin = load(argv[1]);
  if (plugin == nullptr) return 1;
  try {
    const std::shared_ptr<backend::Backend> backend = plugin->open(0).value();
    if (plugin->open(1)) return 1;
    if (!run_cases(*backend)) return 1;
    const Device device = Device::wrap(backend).value();
    std::printf("device %s: %s\n", device.info().value().kind.c_str(), device.info().value().name.c_str());
    const std::vector<Token> ours = generate(argv[2], device);
    const std::vector<Token> theirs = generate(argv[2], Device::reference().value());
    for (const Token token : ours) std::printf("%d ", token);
    std::printf("\n");
    return ours.size() == 12 && ours == theirs ? 0 : 1;
  } catch (const Exception& e) {
    std::printf("%s: %s\n", to_string(e.error().code), e.what());
    return 1;
  }
}
