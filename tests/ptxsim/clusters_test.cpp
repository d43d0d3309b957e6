// Blocks that share columns as a cluster: what they add through shared memory has the bits of sums through memory, and
// is no traffic there.
#include <bit>

#include "matmul_problem.h"

namespace ptxsim::tests {

namespace {

/// Returns whether so many blocks share columns by way of memory that a cluster can have as many.
bool compare_with_memory(const Shape& shape) {
  INFO(describe(shape.type).name << " x " << shape.rows << ", " << shape.columns_in << " columns");
  const Problem p(shape);
  const Repacked w(p);
  SimulatedDevice& device = simulated_device();
  device.launches.clear();
  const std::vector<float> by_memory = run_quant(p, w, true);
  const std::uint32_t blocks = device.launches.back().config.grid.z;
  if (blocks < 2 || blocks > 8 || !std::has_single_bit(blocks)) return false;
  const ClusterChip chip;
  for (const Options& options : all_modes()) {
    device.options = options;
    device.launches.clear();
    CHECK(run_quant(p, w, true, static_cast<std::int32_t>(blocks)) == by_memory);
    const LaunchRecord& launch = device.launches.back();
    CHECK(launch.config.cluster.z == blocks);
    CHECK(launch.config.grid.z == blocks);
    CHECK(launch.counters.atomics == 0);
    // Of each result a block reads what the others have.
    CHECK(launch.counters.cluster_bytes == std::uint64_t{4} * by_memory.size() * (blocks - 1));
  }
  device.options = {};
  no_findings();
  return true;
}

}  // namespace

TEST_CASE("blocks of a cluster give the bits of those that add through memory, in every mode") {
  simulated_device().record_launches = true;
  for (const WeightType type :
       {WeightType::q4_0, WeightType::q2_k, WeightType::q5_k, WeightType::q8_0, WeightType::bf16}) {
    for (const int rows : {1, 6, 8, 13}) {
      bool compared = false;
      for (const int columns : {2048, 4096, 8192, 768, 6144}) {
        compared = compared || compare_with_memory({type, rows, columns, 70});
      }
      INFO(describe(type).name << " x " << rows);
      CHECK(compared);
    }
  }
  simulated_device().record_launches = false;
}

TEST_CASE("clusters of all sizes are right, and the same in every mode") {
  SimulatedDevice& device = simulated_device();
  const ClusterChip chip;
  device.record_launches = true;
  for (const WeightType type : {WeightType::q4_0, WeightType::q3_k, WeightType::q6_k}) {
    for (const int rows : {3, 16}) {
      const Problem p({type, rows, 2304, 70});
      const Repacked w(p);
      for (const std::int32_t most : {2, 4, 8}) {
        INFO(describe(type).name << " x " << rows << ", " << most << " blocks at most");
        std::vector<float> first;
        for (const Options& options : all_modes()) {
          device.options = options;
          device.launches.clear();
          const std::vector<float> out = run_quant(p, w, true, most);
          const std::uint32_t blocks = device.launches.back().config.cluster.z;
          CHECK((blocks > 1 && blocks <= static_cast<std::uint32_t>(most)));
          if (first.empty()) first = out;
          CHECK(out == first);
        }
        CHECK(p.error_of(first) < 1e-3);
      }
    }
  }
  device.record_launches = false;
  device.options = {};
  no_findings();
}

TEST_CASE("without clusters on the chip there is none in a launch, and in it they are launched by it alone") {
  const Problem p({WeightType::q4_0, 1, 2048, 70});
  const Repacked w(p);
  SimulatedDevice& device = simulated_device();
  device.record_launches = true;
  for (const bool clusters : {false, true}) {
    device.launches.clear();
    Chip chip = clusters ? h200_chip : Chip{};
    std::swap(device.chip, chip);
    run_quant(p, w, true);
    std::swap(device.chip, chip);
    CHECK((device.launches.back().config.cluster.count() > 1) == clusters);
    CHECK((device.launches.back().counters.atomics > 0) != clusters);
  }
  device.record_launches = false;
  no_findings();
}

}  // namespace ptxsim::tests
