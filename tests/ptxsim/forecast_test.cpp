// Where the time of a product should go on a GPU, by the counts, against forecast.json: memory up to 16 rows, tensor
// instructions for a prompt of 512. It ranks designs and is no speed. `ptxsim_matmul "[write_forecast]"` writes the
// file anew and prints the table of docs/cuda.md.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "matmul_problem.h"

namespace ptxsim::tests {
namespace {

using Json = nlohmann::ordered_json;

/// Memory and tensor rates of the H200 are measured ones, of which mma.sync reaches
/// about 62 %; those of the A100 are 90 % of the published ones. A multiprocessor and clock: four warp instructions,
/// four sectors of the first cache, one wavefront of shared memory.
struct Gpu {
  const char* name;
  double multiprocessors, clock, memory, tensor;
};
constexpr Gpu gpus[] = {{"H200", 132, 1.98e9, 4.3e12, 0.62 * 790e12},
                        {"A100", 108, 1.41e9, 0.9 * 2.04e12, 0.9 * 312e12}};
constexpr double ptx_of_machine_code = 1.25;  // instructions for one
constexpr int prompt = 512, rows_of[] = {1, 8, 16, prompt};

/// What 512 rows of weights cost: the difference of 1024 and 512, so that what a launch costs once is left out.
struct Work {
  double memory = 0, cache = 0, instructions = 0, wavefronts = 0, tensor = 0;
};

Work work_of(WeightType type, int rows) {
  constexpr int columns = 1024;
  const auto counters = [&](int columns_out) {
    // Blocks of 64 rows do the same each: one of them stands for all.
    const Problem p({type, rows == prompt ? 64 : rows, columns, columns_out});
    SimulatedDevice& device = simulated_device();
    device.record_launches = true;
    device.launches.clear();
    const Repacked w(p);
    run_quant(p, w);
    device.record_launches = false;
    const Counters& c = device.launches[1].counters;
    const ArgumentCounts* weight = argument(c, offsetof(cuda::MatMulQuantParams, targets[0].weight));
    REQUIRE(weight != nullptr);
    CHECK(static_cast<double>(c.shared_wavefronts) <= 1.05 * static_cast<double>(c.shared_ideal));
    CHECK(static_cast<double>(weight->wide_sectors) >= 0.95 * static_cast<double>(weight->sectors));
    return c;
  };
  const Counters more = counters(1024), less = counters(512);
  const auto of = [&](auto Counters::*member) { return static_cast<double>(more.*member - less.*member); };
  const double times = rows == prompt ? prompt / 64 : 1;
  const auto weights = [](const Counters& c) {
    const ArgumentCounts* weight = argument(c, offsetof(cuda::MatMulQuantParams, targets[0].weight));
    REQUIRE(weight != nullptr);
    return static_cast<double>(weight->unique_sectors);
  };
  const double weight = weights(more) - weights(less);
  Work w;
  w.memory = 32 * (weight + times * (of(&Counters::unique_sectors) - weight));
  w.cache = times * of(&Counters::global_sectors);
  w.instructions = times * of(&Counters::warp_instructions) / ptx_of_machine_code;
  w.wavefronts = times * of(&Counters::shared_wavefronts);
  w.tensor = times * 4096 * of(&Counters::mma);
  return w;
}

/// The largest part of the time, and what memory or tensor instructions are of it.
struct Forecast {
  const char* largest = "";
  double share = 0;
};

Forecast forecast(const Work& w, const Gpu& gpu, int rows) {
  const double clocks = gpu.multiprocessors * gpu.clock;
  const std::pair<const char*, double> parts[] = {{"memory", w.memory / gpu.memory},
                                                  {"cache", w.cache / (4 * clocks)},
                                                  {"issue", w.instructions / (4 * clocks)},
                                                  {"shared", w.wavefronts / clocks},
                                                  {"tensor", w.tensor / gpu.tensor}};
  const auto& largest =
      *std::max_element(std::begin(parts), std::end(parts), [](auto& a, auto& b) { return a.second < b.second; });
  return {largest.first, parts[rows == prompt ? 4 : 0].second / largest.second};
}

Json all_forecasts() {
  Json all;
  for (const WeightType type : types) {
    for (const int rows : rows_of) {
      const Work work = work_of(type, rows);
      for (const Gpu& gpu : gpus) {
        const Forecast f = forecast(work, gpu, rows);
        all[gpu.name][std::string(describe(type).name)][std::to_string(rows)] = {
            {"largest", f.largest}, {"share", std::floor(1000 * f.share) / 1000}};
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("forecasts from the counts stay at those of forecast.json or above") {
  const Json committed = Json::parse(std::ifstream(PTXSIM_FORECAST));
  if (committed["nvcc"] != PTXSIM_NVCC_VERSION) {
    WARN("nvcc " << PTXSIM_NVCC_VERSION << ", the forecasts are of " << committed["nvcc"] << ": not compared");
    return;
  }
  const Json now = all_forecasts();
  for (const auto& [gpu, types_of] : now.items()) {
    for (const auto& [type, all_rows] : types_of.items()) {
      for (const auto& [rows, found] : all_rows.items()) {
        INFO(gpu << ", " << type << " x " << rows << ", largest: " << found["largest"].get<std::string>());
        const double share = found["share"].get<double>();
        CHECK(share >= committed.at("forecasts").at(gpu).at(type).at(rows).at("share").get<double>());
        CHECK(found["largest"].get<std::string>() == (rows == std::to_string(prompt) ? "tensor" : "memory"));
      }
    }
  }
  no_findings();
}

TEST_CASE("forecast.json is written", "[.][write_forecast]") {
  const Json now = all_forecasts();
  std::ofstream(PTXSIM_FORECAST) << Json{{"nvcc", PTXSIM_NVCC_VERSION}, {"forecasts", now}}.dump(1) << "\n";
  for (const WeightType type : types) {
    std::printf("| %s |", std::string(describe(type).name).c_str());
    for (const Gpu& gpu : gpus) {
      for (const int rows : rows_of) {
        const Json& f = now[gpu.name][std::string(describe(type).name)][std::to_string(rows)];
        const double share = f["share"].get<double>();
        if (share >= 1) {
          std::printf(" %s |", f["largest"].get<std::string>().c_str());
        } else {
          std::printf(" %s (%.0f %%) |", f["largest"].get<std::string>().c_str(), 100 * share);
        }
      }
    }
    std::printf("\n");
  }
}

}  // namespace ptxsim::tests
