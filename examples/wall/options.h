// What llminfer-wall was asked for.
#pragma once

#include <llminfer/llminfer.hpp>
#include <string>
#include <vector>

namespace examples {

struct WallOptions {
  std::string path{};
  int threads = 0;
  std::string isa = "auto";
  std::string kv = "automatic";
  std::vector<std::string> weights{"as_stored"};
  std::string ceilings{};  ///< cache file
  std::vector<int> batch{};
  std::vector<int> prompt{};
  int generate = 64;
  int context = 0;
  int rounds = 5;
  std::string device{};               ///< description to plan for
  std::vector<std::string> others{};  ///< descriptions that advice may name
  std::string html{};
  std::string svg{};  ///< folder
  bool plan = false, compare = false, overhead = false, json = false;

  llminfer::WeightType weight_type(std::size_t index = 0) const;
  llminfer::KvType kv_type() const;
  llminfer::Workload workload(int prompt_tokens) const;
};

/// Ceilings with efficiencies of the types.
llminfer::Ceilings ceilings_of(const WallOptions& options, const llminfer::Device& device,
                               std::vector<llminfer::WeightType> types);

/// Types that a source is to be calibrated for when its matrices become `weights`.
std::vector<llminfer::WeightType> types_of(const llminfer::ModelSource& source, llminfer::WeightType weights);

/// Loaded for the largest batch and the longest sequence.
llminfer::Model open_model(const WallOptions& options, const llminfer::Device& device, llminfer::WeightType weights,
                           std::stop_token stop);

int plan(const WallOptions& options);
int compare(const WallOptions& options, const std::stop_token& stop);
int overhead(const WallOptions& options, const std::stop_token& stop);
int record(const WallOptions& options, const std::stop_token& stop);

}  // namespace examples
