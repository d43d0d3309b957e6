// What kernels cost, counted by the simulator, against counts.json: a count that rises fails until the file is changed,
// with a reason in its commit. `ptxsim_matmul "[write]"` writes the file anew.
//
// Counts depend on the compiler: those of another nvcc than the file's are held against the bounds alone.
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "experts_problem.h"
#include "f32_problem.h"
#include "matmul_problem.h"

namespace ptxsim::tests {
namespace {

using Json = nlohmann::ordered_json;

/// Of the last launch, and what it has to move at least.
struct Cost {
  Counters counters{};
  double weight_bytes = 0;
  double ideal_bytes = 0;  ///< weights, activations, what stands beside them, results
  double weights = 0;
};

constexpr int columns_in = 2048, columns_out = 512;

/// `shared`: with columns shared by blocks, as in a step.
Cost cost_of(WeightType type, int rows, bool shared = false, int columns_in = tests::columns_in,
             int columns_out = tests::columns_out) {
  const Problem p({type, rows, columns_in, columns_out});
  Repacked w(p);
  SimulatedDevice& device = simulated_device();
  device.record_launches = true;
  device.launches.clear();
  run_quant(p, w, shared);
  device.record_launches = false;
  REQUIRE(device.launches.size() == 2);
  Cost c;
  c.counters = device.launches[1].counters;
  c.weight_bytes = static_cast<double>(p.file.size());
  // Activations as halves, sums of blocks, scales of rows, bias, results.
  // With float weights what halves leave of activations too.
  c.ideal_bytes = (type == WeightType::f16 || type == WeightType::bf16 ? 2.0 * rows * columns_in : 0) +
                  static_cast<double>(w.bytes.size()) + rows * (2.0 * columns_in + 4.0 * columns_in / 32 + 4.0) +
                  4.0 * columns_out * (rows + 1);
  c.weights = static_cast<double>(columns_in) * columns_out;
  no_findings();
  return c;
}

/// Of `tokens` tokens that choose eight of sixteen experts each.
Cost cost_of_experts(WeightType type, int tokens) {
  const ExpertsProblem p({type, tokens, 8, 16, 2048, 128});
  SimulatedDevice& device = simulated_device();
  device.record_launches = true;
  device.launches.clear();
  p.run(false);
  device.record_launches = false;
  REQUIRE(device.launches.size() == 2);
  Cost c;
  c.counters = device.launches[1].counters;
  c.weight_bytes = p.chosen_bytes();
  c.weights = 2048.0 * 128 * p.chosen();
  no_findings();
  return c;
}

constexpr WeightType expert_types[] = {WeightType::q4_k, WeightType::q8_0, WeightType::mxfp4};

Json numbers_of(const Counters& c) {
  return {{"lane_instructions", c.lane_instructions},
          {"global_sectors", c.global_sectors},
          {"unique_sectors", c.unique_sectors},
          {"shared_wavefronts", c.shared_wavefronts},
          {"matrix_instructions", c.mma},
          {"global_requests", c.global_loads + c.global_stores},
          {"bytes_not_in_16s", c.global_bytes - c.global_wide_bytes}};
}

Json all_numbers() {
  Json all;
  for (const WeightType type : types) {
    for (const int rows : {1, 8, 16}) {
      all[std::string(describe(type).name) + " x " + std::to_string(rows)] =
          numbers_of(cost_of(type, rows, true).counters);
    }
  }
  for (const int rows : {1, 8, 16, 64}) {
    all["F32 x " + std::to_string(rows)] = numbers_of(f32_counters(rows, columns_in, columns_out));
  }
  for (const WeightType type : expert_types) {
    for (const int tokens : {1, 8}) {
      const std::string name = std::string(describe(type).name) + " experts x " + std::to_string(tokens);
      all[name] = numbers_of(cost_of_experts(type, tokens).counters);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("counts of products stay at those of counts.json or below") {
  std::ifstream file(PTXSIM_COUNTS);
  const Json committed = Json::parse(file);
  if (committed["nvcc"] != PTXSIM_NVCC_VERSION) {
    WARN("nvcc " << PTXSIM_NVCC_VERSION << ", the counts are of " << committed["nvcc"] << ": not compared");
    return;
  }
  const Json now = all_numbers();
  CHECK(now.size() == committed["products"].size());
  for (const auto& [product, numbers] : now.items()) {
    for (const auto& [name, value] : numbers.items()) {
      INFO(product << ", " << name);
      REQUIRE(committed["products"].contains(product));
      REQUIRE(committed["products"][product].contains(name));
      CHECK(value.get<std::uint64_t>() <= committed["products"][product][name].get<std::uint64_t>());
    }
  }
}

TEST_CASE("bounds of what a product moves and costs") {
  for (const WeightType type : types) {
    for (const int rows : {1, 8, 16}) {
      INFO(describe(type).name << " x " << rows);
      const Cost cost = cost_of(type, rows);
      CHECK(32.0 * static_cast<double>(cost.counters.unique_sectors) <= 1.02 * cost.ideal_bytes);
      CHECK(32.0 * static_cast<double>(cost.counters.global_sectors) <= (rows == 1 ? 1.3 : 1.5) * cost.weight_bytes);
      // Floats take two: activations are sums of two of them.
      const bool floats = type == WeightType::f16 || type == WeightType::bf16;
      CHECK(cost.counters.mma <= (floats ? 2 : 1.3) * (rows + 7) / 8 * columns_in / 16 * columns_out / 16);
      CHECK(static_cast<double>(cost.counters.shared_wavefronts) <=
            1.05 * static_cast<double>(cost.counters.shared_ideal));
      const ArgumentCounts* weight = argument(cost.counters, offsetof(cuda::MatMulQuantParams, targets[0].weight));
      REQUIRE(weight != nullptr);
      CHECK(static_cast<double>(weight->wide_sectors) >= 0.95 * static_cast<double>(weight->sectors));
      if (rows > 8) continue;
      // PTX has about 1.25 times the instructions of machine code: these are 2 and 3 of it, and the end of the kernel.
      const bool plain = type == WeightType::q4_0 || type == WeightType::q8_0;
      CHECK(static_cast<double>(cost.counters.lane_instructions) / cost.weights < (plain ? 2.5 : 3.75));
    }
  }
}

TEST_CASE("requested bytes where blocks share columns, with their sums") {
  for (const bool clusters : {false, true}) {
    std::optional<ClusterChip> chip;
    if (clusters) chip.emplace();
    for (const WeightType type : types) {
      for (const int rows : {1, 8, 16}) {
        INFO(describe(type).name << " x " << rows << (clusters ? " in clusters" : ""));
        const Cost cost = cost_of(type, rows, true);
        CHECK((cost.counters.cluster_bytes > 0) == clusters);
        CHECK(32.0 * static_cast<double>(cost.counters.global_sectors) <= (rows == 1 ? 1.3 : 1.5) * cost.weight_bytes);
        CHECK(static_cast<double>(cost.counters.shared_wavefronts) <=
              1.05 * static_cast<double>(cost.counters.shared_ideal));
        if (!clusters) continue;
        CHECK(32.0 * static_cast<double>(cost.counters.unique_sectors) <= 1.02 * cost.ideal_bytes);
      }
    }
  }
}

TEST_CASE("bounds of what a product of experts moves and costs") {
  for (const WeightType type : expert_types) {
    for (const int tokens : {1, 8}) {
      INFO(describe(type).name << " x " << tokens);
      const Cost cost = cost_of_experts(type, tokens);
      // Weights of chosen experts are read once, those of others not.
      CHECK(32.0 * static_cast<double>(cost.counters.global_sectors) <= (tokens == 1 ? 1.3 : 1.5) * cost.weight_bytes);
      CHECK(cost.counters.mma <= 1.3 * cost.weights / 256);
      CHECK(static_cast<double>(cost.counters.shared_wavefronts) <=
            1.05 * static_cast<double>(cost.counters.shared_ideal));
      CHECK(static_cast<double>(cost.counters.lane_instructions) / cost.weights <
            (type == WeightType::q8_0 ? 2.5 : 3.75));
    }
  }
}

TEST_CASE("requested bytes of large products with shared columns", "[.][shared]") {
  struct Large {
    int columns_in, columns_out;
  };
  for (const WeightType type : {WeightType::q4_0, WeightType::q8_0, WeightType::q4_k, WeightType::q6_k}) {
    for (const Large& l : {Large{2048, 512}, Large{2048, 2048}, Large{4096, 4096}, Large{4096, 14336}}) {
      for (const int rows : {1, 8, 16}) {
        const auto requested = [&] {
          const Cost cost = cost_of(type, rows, true, l.columns_in, l.columns_out);
          return 32.0 * static_cast<double>(cost.counters.global_sectors) / cost.weight_bytes;
        };
        const double by_memory = requested();
        const ClusterChip chip;
        const double by_clusters = requested();
        WARN(describe(type).name << " " << l.columns_out << " x " << l.columns_in << ", " << rows
                                 << " rows: " << by_memory << ", in clusters " << by_clusters);
        CHECK(by_memory <= (rows == 1 ? 1.3 : 1.5));
        CHECK(by_clusters <= (rows == 1 ? 1.3 : 1.5));
      }
    }
  }
}

TEST_CASE("memory is what takes longest, by the counts") {
  // An H200: bytes from memory, bytes of sectors from the first cache, lane instructions, tensor flops in a second. The
  // first and the last were measured with other programs; others follow from clock and width. An A100 has more of the
  // others for each byte from memory.
  constexpr double memory = 4.3e12, cache = 33e12, instructions = 33e12, tensor = 790e12;
  for (const WeightType type : types) {
    for (const int rows : {1, 8, 16}) {
      INFO(describe(type).name << " x " << rows);
      const Counters c = cost_of(type, rows).counters;
      const double least = 32 * static_cast<double>(c.unique_sectors) / memory;
      CHECK(32 * static_cast<double>(c.global_sectors) / cache < least);
      CHECK(4096 * static_cast<double>(c.mma) / tensor < least);
      CHECK(static_cast<double>(c.lane_instructions) / 1.25 / instructions < least);
    }
  }
}

TEST_CASE("counts.json is written", "[.][write]") {
  std::ofstream(PTXSIM_COUNTS) << Json{{"nvcc", PTXSIM_NVCC_VERSION},
                                       {"shape", std::to_string(columns_in) + " columns, " +
                                                     std::to_string(columns_out) + " rows of weights"},
                                       {"products", all_numbers()}}
                                      .dump(1)
                               << "\n";
}

}  // namespace ptxsim::tests
