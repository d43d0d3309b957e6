// The options with which programs name a model and a device, and loading by them.
#pragma once

#include <CLI/CLI.hpp>
#include <llminfer/device.hpp>
#include <llminfer/model.hpp>
#include <stop_token>
#include <string>

namespace examples {

struct ModelOptions {
  std::string path{};
  std::string device = "cpu";
  int threads = 0;
  std::string isa = "auto";
  std::string kv = "automatic";
  std::string weight_cache{};
  bool progress = false;
};

/// MODEL, --device, --threads, --isa, --kv, --weight-cache and --progress.
void add_model_options(CLI::App& app, ModelOptions& options);

llminfer::Device open_device(const ModelOptions& options);

/// `load` with devices and formats of keys and values filled in.
llminfer::LoadOptions load_options(const ModelOptions& options, const llminfer::Device& device,
                                   llminfer::LoadOptions load = {});

/// Opens the model on a device, with a line of progress on standard error.
llminfer::Model load_model(const ModelOptions& options, const llminfer::Device& device, llminfer::LoadOptions load = {},
                           std::stop_token stop = {});

}  // namespace examples
