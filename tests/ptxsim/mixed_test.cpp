// Products with weights of two types in one launch: right, the same in every mode, and what they move and cost.
#include "kernels/matmul_mixed.h"
#include "matmul_problem.h"

namespace ptxsim::tests {
namespace {

constexpr WeightType pairs[][2] = {
    {WeightType::q3_k, WeightType::q4_k},   {WeightType::q3_k, WeightType::q5_k}, {WeightType::q4_k, WeightType::q5_k},
    {WeightType::q4_k, WeightType::q6_k},   {WeightType::q4_k, WeightType::q8_0}, {WeightType::q5_k, WeightType::q6_k},
    {WeightType::iq4_xs, WeightType::q5_k}, {WeightType::q5_0, WeightType::q8_0}, {WeightType::q5_1, WeightType::q8_0}};

/// Weights that read the same activations: the first `of_first` are of one type, the others of another.
class MixedProblem {
 public:
  MixedProblem(const Shape& first, const Shape& second) : MixedProblem(std::vector<Shape>{first, second}, 1) {}
  MixedProblem(const std::vector<Shape>& shapes, std::size_t of_first) : of_first_(of_first) {
    for (const Shape& s : shapes) p_.emplace_back(s);
    for (Problem& p : p_) p.in = p_[0].in;
  }

  /// `shared`: blocks may share the rows of weights. `times`: one behind the other, in the same memory.
  std::vector<std::vector<float>> run(bool shared, int times = 1) const;
  const Problem& problem(std::size_t i) const { return p_[i]; }
  std::size_t size() const { return p_.size(); }

 private:
  std::vector<Problem> p_;
  std::size_t of_first_;
};

std::vector<std::vector<float>> MixedProblem::run(bool shared, int times) const {
  std::vector<void*> held;
  const auto keep = [&held](auto* p) {
    held.push_back(p);
    return p;
  };
  cuda::FragmentsParams f;
  f.rows = p_[0].shape.rows;
  f.columns = p_[0].shape.columns_in;
  f.blocks = static_cast<std::int32_t>(cuda::fragment_blocks(f.columns));
  f.in = keep(to_device(p_[0].in));
  f.fragments = keep(
      to_device(std::vector<std::uint16_t>(static_cast<std::size_t>(cuda::fragments_bytes(f.rows, f.blocks) / 2))));
  f.scales = keep(to_device(std::vector<float>(8)));
  f.block_sums =
      keep(to_device(std::vector<float>(static_cast<std::size_t>(cuda::block_sum_floats(f.rows, f.blocks)))));
  REQUIRE(launch(f, nullptr) == cudaSuccess);
  cuda::MatMulQuantParams m[2];
  float* partials = keep(to_device(std::vector<float>(static_cast<std::size_t>(cuda::matmul_partial_floats(f.rows)))));
  unsigned* counters = keep(to_device(std::vector<unsigned>(cuda::matmul_counters)));
  std::vector<std::vector<float>> out(p_.size());
  std::vector<const float*> results;
  for (cuda::MatMulQuantParams& one : m) {
    one.count = 0;
    one.fragments = f.fragments;
    one.row_scales = f.scales;
    one.block_sums = f.block_sums;
    one.rows = f.rows;
    one.in_blocks = f.blocks;
    one.most_of_cluster = most_of_cluster();
    if (shared) one.partials = partials;
    one.counters = counters;
  }
  for (std::size_t i = 0; i < p_.size(); ++i) {
    const Repacked w(p_[i]);
    cuda::MatMulQuantParams& one = m[i < of_first_ ? 0 : 1];
    one.type = p_[i].shape.type;
    one.chunks = static_cast<std::int32_t>(w.layout.chunks);
    cuda::MatMulTarget& target = one.targets[one.count++];
    target.weight = reinterpret_cast<const std::uint8_t*>(keep(to_device(w.bytes)));
    target.bias = keep(to_device(p_[i].bias));
    target.columns_out = p_[i].shape.columns_out;
    out[i].assign(static_cast<std::size_t>(f.rows * target.columns_out), std::nanf(""));
    target.out = keep(to_device(out[i]));
    results.push_back(target.out);
  }
  for (int n = 0; n < times; ++n) REQUIRE(launch_mixed(m[0], m[1], nullptr) == cudaSuccess);
  for (std::size_t i = 0; i < out.size(); ++i) {
    REQUIRE(cudaMemcpy(out[i].data(), results[i], out[i].size() * sizeof(float), cudaMemcpyDeviceToHost) ==
            cudaSuccess);
  }
  std::vector<unsigned> left(cuda::matmul_counters);
  REQUIRE(cudaMemcpy(left.data(), counters, 4 * left.size(), cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(left == std::vector<unsigned>(left.size()));
  for (void* p : held) cudaFree(p);
  return out;
}

}  // namespace

TEST_CASE("products with weights of two types are right, and the same in every mode") {
  for (const auto& [first, second] : pairs) {
    CHECK(cuda::matmul_mixes(first, second));
    for (const int rows : {1, 7}) {
      const bool shared = rows == 7;
      const int columns = rounded(first, rounded(second, shared ? 2304 : 576));
      INFO(describe(first).name << " and " << describe(second).name << " x " << rows);
      const MixedProblem p({first, rows, columns, 150}, {second, rows, columns, 70});
      std::vector<std::vector<float>> results;
      for (const Options& options : all_modes()) {
        simulated_device().options = options;
        const std::vector<std::vector<float>> out = p.run(shared);
        if (results.empty()) results = out;
        CHECK(out == results);
        if (shared) break;
      }
      simulated_device().options = {};
      for (std::size_t i = 0; i < 2; ++i) {
        const Problem& one = p.problem(i);
        CHECK(one.error_of(results[i]) < 1e-3);
        // Three and four bits have four warps a block, and so has what is mixed with them.
        const bool narrow = first == WeightType::q3_k || second == WeightType::q3_k || first == WeightType::iq4_xs;
        if (!shared && !narrow) CHECK(results[i] == run_quant(one, Repacked(one)));
      }
      no_findings();
    }
  }
  CHECK(!cuda::matmul_mixes(WeightType::q6_k, WeightType::q4_k));
}

TEST_CASE(
    "three products with weights of two types, whose blocks share columns, are right and the same in every mode") {
  for (const auto& [first, second] : pairs) {
    for (const std::size_t of_first : {1U, 2U}) {
      // All modes of two types of each width of block; of others one: it is the same code.
      const bool all = first == WeightType::q4_k || first == WeightType::iq4_xs;
      const int rows = all && second == WeightType::q5_k ? 8 : 3;
      INFO(describe(first).name << " and " << describe(second).name << " x " << rows << ", first " << of_first);
      // Blocks are of 128 rows: those of the first weight take two.
      std::vector<Shape> shapes;
      for (const int wide : {150, 33, 128}) {
        shapes.push_back({shapes.size() < of_first ? first : second, rows, 2304, wide});
      }
      const MixedProblem p(shapes, of_first);
      SimulatedDevice& device = simulated_device();
      std::vector<std::vector<float>> results;
      device.record_launches = true;
      for (const Options& options : all_modes()) {
        device.options = options;
        device.launches.clear();
        const std::vector<std::vector<float>> out = p.run(true);
        CHECK(device.launches.back().config.grid.x == 4);
        CHECK(device.launches.back().config.grid.z > 1);
        if (results.empty()) results = out;
        CHECK(out == results);
        if (!all) break;
      }
      device.record_launches = false;
      device.options = {};
      CHECK(p.run(true, 2) == results);  // what the first one leaves does not matter to the second
      for (std::size_t i = 0; i < p.size(); ++i) CHECK(p.problem(i).error_of(results[i]) < 1e-3);
      no_findings();
      const ClusterChip chip;
      device.launches.clear();
      std::vector<std::vector<float>> in_clusters;
      device.record_launches = true;
      for (const Options& options : all_modes()) {
        device.options = options;
        const std::vector<std::vector<float>> out = p.run(true);
        CHECK(device.launches.back().config.cluster.z > 1);
        CHECK(device.launches.back().counters.atomics == 0);
        if (in_clusters.empty()) in_clusters = out;
        CHECK(out == in_clusters);
        if (!all) break;
      }
      device.record_launches = false;
      device.options = {};
      for (std::size_t i = 0; i < p.size(); ++i) CHECK(p.problem(i).error_of(in_clusters[i]) < 1e-3);
      no_findings();
    }
  }
}

TEST_CASE("bounds of what products with weights of two types move") {
  for (const auto& [first, second] : pairs) {
    for (const int rows : {1, 8}) {
      INFO(describe(first).name << " and " << describe(second).name << " x " << rows);
      const MixedProblem p({first, rows, 2048, 384}, {second, rows, 2048, 128});
      SimulatedDevice& device = simulated_device();
      device.record_launches = true;
      device.launches.clear();
      p.run(false);
      device.record_launches = false;
      REQUIRE(device.launches.size() == 2);
      const Counters& c = device.launches[1].counters;
      const double bytes = static_cast<double>(p.problem(0).file.size() + p.problem(1).file.size());
      CHECK(32.0 * static_cast<double>(c.global_sectors) <= (rows == 1 ? 1.3 : 1.5) * bytes);
      CHECK(static_cast<double>(c.shared_wavefronts) <= 1.05 * static_cast<double>(c.shared_ideal));
      CHECK(static_cast<double>(c.lane_instructions) / (2048.0 * 512) < 3.75);
      no_findings();
    }
  }
}

}  // namespace ptxsim::tests
