// What kernels cost, counted by the simulator, against counts.json: a count that rises fails until the file is changed,
// with a reason in its commit. `ptxsim_matmul "[write]"` writes the file anew.
//
// Counts depend on the compiler: those of another nvcc than the file's are held against the bounds alone.
#include <fstream>
#include <nlohmann/json.hpp>

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

constexpr int columns_in = 2048, columns_out = 64;

Cost cost_of(WeightType type, int rows) {
  const Problem p({type, rows, columns_in, columns_out});
  Repacked w(p);
  SimulatedDevice& device = simulated_device();
  device.record_launches = true;
  device.launches.clear();
  run_quant(p, w);
  device.record_launches = false;
  REQUIRE(device.launches.size() == 2);
  Cost c;
  c.counters = device.launches[1].counters;
  c.weight_bytes = static_cast<double>(p.file.size());
  // Activations as halves, sums of blocks, scales of rows, bias, results.
  c.ideal_bytes = static_cast<double>(w.bytes.size()) + rows * (2.0 * columns_in + 4.0 * columns_in / 32 + 4.0) +
                  4.0 * columns_out * (rows + 1);
  c.weights = double{columns_in} * columns_out;
  no_findings();
  return c;
}

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
    for (const int rows : {1, 8}) {
      all[std::string(describe(type).name) + " x " + std::to_string(rows)] = numbers_of(cost_of(type, rows).counters);
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
    INFO(describe(type).name);
    const Cost one = cost_of(type, 1);
    CHECK(32.0 * static_cast<double>(one.counters.unique_sectors) <= 1.02 * one.ideal_bytes);
    CHECK(32.0 * static_cast<double>(one.counters.global_sectors) <= 1.3 * one.weight_bytes);
    CHECK(one.counters.mma == columns_in / 16 * columns_out / 16);
    CHECK(static_cast<double>(one.counters.lane_instructions) / one.weights < 7.5);
    const Cost eight = cost_of(type, 8);
    CHECK(32.0 * static_cast<double>(eight.counters.unique_sectors) <= 1.02 * eight.ideal_bytes);
    // Minima cost instructions for each row of activations.
    const double more = type == WeightType::q4_1 || type == WeightType::q5_1 ? 1.35 : 1.2;
    CHECK(static_cast<double>(eight.counters.lane_instructions) <
          more * static_cast<double>(one.counters.lane_instructions));
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
