// Products with weights of two types in one launch: right, the same in every mode, and what they move and cost.
#include "kernels/matmul_mixed.h"
#include "matmul_problem.h"

namespace ptxsim::tests {
namespace {

constexpr WeightType pairs[][2] = {
    {WeightType::q3_k, WeightType::q4_k},   {WeightType::q3_k, WeightType::q5_k}, {WeightType::q4_k, WeightType::q5_k},
    {WeightType::q4_k, WeightType::q6_k},   {WeightType::q4_k, WeightType::q8_0}, {WeightType::q5_k, WeightType::q6_k},
    {WeightType::iq4_xs, WeightType::q5_k}, {WeightType::q5_0, WeightType::q8_0}, {WeightType::q5_1, WeightType::q8_0}};

/// Two weights that read the same activations.
class MixedProblem {
 public:
  MixedProblem(const Shape& first, const Shape& second) : p_{Problem(first), Problem(second)} { p_[1].in = p_[0].in; }

  std::vector<std::vector<float>> run(bool shared) const;
  const Problem& problem(int i) const { return p_[i]; }

 private:
  Problem p_[2];
};

std::vector<std::vector<float>> MixedProblem::run(bool shared) const {
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
  std::vector<std::vector<float>> out(2);
  for (int i = 0; i < 2; ++i) {
    const Repacked w(p_[i]);
    cuda::MatMulTarget& target = m[i].targets[0];
    target.weight = reinterpret_cast<const std::uint8_t*>(keep(to_device(w.bytes)));
    target.bias = keep(to_device(p_[i].bias));
    target.columns_out = p_[i].shape.columns_out;
    out[static_cast<std::size_t>(i)].resize(static_cast<std::size_t>(f.rows * target.columns_out));
    target.out = keep(to_device(out[static_cast<std::size_t>(i)]));
    m[i].fragments = f.fragments;
    m[i].row_scales = f.scales;
    m[i].block_sums = f.block_sums;
    m[i].rows = f.rows;
    m[i].chunks = static_cast<std::int32_t>(w.layout.chunks);
    m[i].in_blocks = f.blocks;
    m[i].type = p_[i].shape.type;
    if (shared) m[i].partials = partials;
    m[i].counters = counters;
  }
  REQUIRE(launch_mixed(m[0], m[1], nullptr) == cudaSuccess);
  for (std::size_t i = 0; i < 2; ++i) {
    REQUIRE(cudaMemcpy(out[i].data(), m[i].targets[0].out, out[i].size() * sizeof(float), cudaMemcpyDeviceToHost) ==
            cudaSuccess);
  }
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
      for (int i = 0; i < 2; ++i) {
        const Problem& one = p.problem(i);
        CHECK(one.error_of(results[static_cast<std::size_t>(i)]) < 1e-3);
        // Three and four bits have four warps a block, and so has what is mixed with them.
        const bool narrow = first == WeightType::q3_k || second == WeightType::q3_k || first == WeightType::iq4_xs;
        if (!shared && !narrow) CHECK(results[static_cast<std::size_t>(i)] == run_quant(one, Repacked(one)));
      }
      no_findings();
    }
  }
  CHECK(!cuda::matmul_mixes(WeightType::q6_k, WeightType::q4_k));
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
