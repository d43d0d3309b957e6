#include "model_options.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <llminfer/backend/plugin.hpp>

#include "program.h"
#include "progress.h"

namespace examples {
namespace {

constexpr std::array kv_types{llminfer::KvType::f32, llminfer::KvType::f16, llminfer::KvType::bf16,
                              llminfer::KvType::q8_0, llminfer::KvType::q4_0};

llminfer::KvType kv_type(const std::string& name) {
  const auto* found = std::find_if(kv_types.begin(), kv_types.end(),
                                   [&](llminfer::KvType type) { return name == llminfer::to_string(type); });
  return found == kv_types.end() ? llminfer::KvType::automatic : *found;
}

}  // namespace

void add_model_options(CLI::App& app, ModelOptions& options) {
  app.add_option("model", options.path, "Model file (GGUF)")->required();
  app.add_option("--device", options.device, "Where it runs: cpu, reference, cuda, or the file of a plug-in")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Threads of the cpu; 0: the cores this process may use")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--isa", options.isa, "Kernels of the cpu: auto, portable, avx2, ...")->capture_default_str();
  app.add_option("--kv", options.kv, "Format of cached keys and values")
      ->check(CLI::IsMember({"automatic", "f32", "f16", "bf16", "q8_0", "q4_0"}))
      ->capture_default_str();
  app.add_option("--weight-cache", options.weight_cache,
                 "A file for the weights as the cpu packs them: written at the first start, mapped at later ones");
  app.add_flag("--progress", options.progress, "Show progress on standard error even if it is not a terminal");
}

llminfer::Device open_device(const ModelOptions& options) {
  if (options.device == "cpu") {
    return llminfer::Device::cpu({.threads = options.threads, .isa = options.isa}).value();
  }
  if (options.threads > 1 || options.isa != "auto") {
    throw UsageError("--threads and --isa are options of --device cpu");
  }
  if (options.device == "reference") return llminfer::Device::reference().value();
  // A word is a plug-in installed with the library, anything with a slash a file.
  const bool file = options.device.find('/') != std::string::npos;
  const std::filesystem::path plugin =
      file ? std::filesystem::path(options.device) : llminfer::backend::find_plugin(options.device).value();
  return llminfer::Device::wrap(llminfer::backend::open_plugin(plugin).value()).value();
}

llminfer::LoadOptions load_options(const ModelOptions& options, const llminfer::Device& device,
                                   llminfer::LoadOptions load) {
  load.devices = {device};
  load.k = load.v = kv_type(options.kv);
  load.weight_cache = options.weight_cache;
  return load;
}

llminfer::Model load_model(const ModelOptions& options, const llminfer::Device& device, llminfer::LoadOptions load,
                           std::stop_token stop) {
  ProgressLine line(options.progress);
  const std::string name = std::filesystem::path(options.path).filename().string();
  load = load_options(options, device, std::move(load));
  load.progress = [&](double share) {
    line.show("loading " + name + ": " + std::to_string(static_cast<int>(share * 100)) + " %");
  };
  return llminfer::Model::open(llminfer::ModelSource::file(options.path), load, std::move(stop)).value();
}

}  // namespace examples
