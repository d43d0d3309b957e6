// llminfer-inspect: what a model file holds and what it needs, without loading it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <llminfer/llminfer.hpp>
#include <llminfer/weight_type.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/format.h"
#include "common/model_options.h"
#include "common/program.h"

namespace {

using namespace examples;
using json = nlohmann::ordered_json;

struct Options {
  ModelOptions model{};
  int context = 0;
  bool as_json = false;
};

struct TypeTotal {
  std::string_view name{};
  std::uint64_t tensors = 0;
  std::uint64_t weights = 0;
  std::uint64_t bytes = 0;
};

std::uint64_t weights_in(const llminfer::TensorSummary& tensor) {
  std::uint64_t count = 1;
  for (const std::uint64_t size : tensor.shape) count *= size;
  return count;
}

// Most bytes first.
std::vector<TypeTotal> totals_by_type(const llminfer::FileSummary& file) {
  std::map<llminfer::WeightType, TypeTotal> totals;
  for (const llminfer::TensorSummary& tensor : file.tensors) {
    TypeTotal& total = totals[tensor.type];
    total.name = llminfer::describe(tensor.type).name;
    ++total.tensors;
    total.weights += weights_in(tensor);
    total.bytes += tensor.bytes;
  }
  std::vector<TypeTotal> sorted;
  for (const auto& entry : totals) sorted.push_back(entry.second);
  std::sort(sorted.begin(), sorted.end(), [](const TypeTotal& a, const TypeTotal& b) { return a.bytes > b.bytes; });
  return sorted;
}

// Absent for files without weights and for architectures that the library cannot run; the reason is then in the Error.
llminfer::Result<llminfer::MemoryPlan> plan(const Options& options, const llminfer::ModelSource& source) {
  const llminfer::Device device = open_device(options.model);
  return llminfer::Model::plan_memory(source, load_options(options.model, device, {.context = options.context}));
}

json to_json(const llminfer::MemoryPlan& memory) {
  return {{"weights", memory.weights},
          {"activations", memory.activations},
          {"kv_per_token", memory.kv_per_token},
          {"kv", memory.kv},
          {"total", memory.total()}};
}

void print_json(const llminfer::FileSummary& file, const llminfer::Result<llminfer::MemoryPlan>& memory) {
  json metadata = json::array();
  for (const auto& item : file.metadata) {
    metadata.push_back({{"key", item.key}, {"type", item.type}, {"value", item.value}});
  }
  json tensors = json::array();
  for (const auto& tensor : file.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"type", llminfer::describe(tensor.type).name},
                       {"shape", tensor.shape},
                       {"bytes", tensor.bytes}});
  }
  json types = json::array();
  for (const TypeTotal& total : totals_by_type(file)) {
    types.push_back(
        {{"type", total.name}, {"tensors", total.tensors}, {"weights", total.weights}, {"bytes", total.bytes}});
  }
  json all = {{"architecture", file.architecture},
              {"metadata", metadata},
              {"tensors", tensors},
              {"tensor_bytes", file.tensor_bytes},
              {"types", types},
              {"memory", memory ? to_json(*memory) : json(nullptr)}};
  if (!memory) all["memory_error"] = memory.error().message;
  std::puts(all.dump(2, ' ', false, json::error_handler_t::replace).c_str());
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text;
  for (const std::uint64_t size : shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

void print_file(const llminfer::FileSummary& file) {
  std::size_t key_width = 0;
  for (const auto& item : file.metadata) key_width = std::max(key_width, item.key.size());
  std::printf("architecture: %s\n\nmetadata: %zu\n", file.architecture.c_str(), file.metadata.size());
  for (const auto& item : file.metadata) {
    std::printf("  %-*s  %-8s  %s\n", static_cast<int>(key_width), item.key.c_str(), item.type.c_str(),
                item.value.c_str());
  }
  std::size_t name_width = 0;
  for (const auto& tensor : file.tensors) name_width = std::max(name_width, tensor.name.size());
  std::printf("\ntensors: %zu (innermost dimension first)\n", file.tensors.size());
  for (const auto& tensor : file.tensors) {
    std::printf("  %-*s  %-8s  %10s  %s\n", static_cast<int>(name_width), tensor.name.c_str(),
                llminfer::describe(tensor.type).name.data(), bytes_text(tensor.bytes).c_str(),
                shape_text(tensor.shape).c_str());
  }
}

void print_totals(const llminfer::FileSummary& file) {
  std::printf("\n%-8s  %8s  %14s  %10s  %15s\n", "type", "tensors", "weights", "bytes", "bits per weight");
  TypeTotal all{.name = "all"};
  std::vector<TypeTotal> rows = totals_by_type(file);
  for (const TypeTotal& row : rows) {
    all.tensors += row.tensors;
    all.weights += row.weights;
    all.bytes += row.bytes;
  }
  rows.push_back(all);
  for (const TypeTotal& row : rows) {
    const double bits = row.weights == 0 ? 0 : 8.0 * static_cast<double>(row.bytes) / static_cast<double>(row.weights);
    std::printf("%-8s  %8llu  %14llu  %10s  %15.2f\n", row.name.data(), static_cast<unsigned long long>(row.tensors),
                static_cast<unsigned long long>(row.weights), bytes_text(row.bytes).c_str(), bits);
  }
}

void print_memory(const Options& options, const llminfer::Result<llminfer::MemoryPlan>& memory) {
  if (!memory) {
    std::printf("\nmemory plan: none: %s\n", memory.error().message.c_str());
    return;
  }
  const std::string context =
      options.context == 0 ? "the model's whole context" : std::to_string(options.context) + " tokens of context";
  std::printf("\nmemory plan (device %s, one session of %s)\n", options.model.device.c_str(), context.c_str());
  std::printf("  weights           %10s\n", bytes_text(memory->weights).c_str());
  std::printf("  activations       %10s\n", bytes_text(memory->activations).c_str());
  std::printf("  keys and values   %10s  (%s a token)\n", bytes_text(memory->kv).c_str(),
              bytes_text(memory->kv_per_token).c_str());
  std::printf("  total             %10s\n", bytes_text(memory->total()).c_str());
}

int inspect(const Options& options) {
  const llminfer::ModelSource source = llminfer::ModelSource::file(options.model.path);
  const llminfer::FileSummary file = llminfer::Model::inspect(source).value();
  const auto memory = plan(options, source);
  if (options.as_json) {
    print_json(file, memory);
  } else {
    print_file(file);
    print_totals(file);
    print_memory(options, memory);
  }
  return exit_ok;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Shows what a model file holds and how much memory it needs, without loading it.", "llminfer-inspect");
  Options options;
  add_model_options(app, options.model);
  app.add_option("--context", options.context, "Tokens of the session to plan; 0: the model's context")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--json", options.as_json, "One JSON object instead of text");
  return run_program(app, argc, argv, [&] { return inspect(options); });
}
