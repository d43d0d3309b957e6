// Products with weights of 32 bits: against float64, against their plain sibling, the same bits in every order of the
// simulator, and what they move.
#include "f32_problem.h"

namespace ptxsim::tests {
namespace {

constexpr int any_tiles = 0, small_tiles = 1 << 20;

}  // namespace

TEST_CASE("products of floats are right, and the same in every mode") {
  for (const Shape& shape : {Shape{WeightType::f32, 1, 1092, 33},
                             {WeightType::f32, 3, 4, 5},
                             {WeightType::f32, 7, 132, 70},
                             {WeightType::f32, 13, 1060, 18},
                             {WeightType::f32, 17, 52, 130},
                             {WeightType::f32, 70, 68, 33}}) {
    const Problem p(shape);
    const std::vector<float> plain = run_plain(p);
    for (const int multiprocessors : {any_tiles, small_tiles}) {
      INFO(shape.rows << " x " << shape.columns_in << " x " << shape.columns_out << ", " << multiprocessors);
      std::vector<float> first;
      for (const Options& options : all_modes()) {
        simulated_device().options = options;
        const std::vector<float> out = run_f32(p, multiprocessors);
        if (first.empty()) first = out;
        CHECK(out == first);
      }
      simulated_device().options = {};
      CHECK(p.error_of(first) < 2e-6);
      const bool split = shape.rows == 1 || (shape.rows <= cuda::matmul_f32_few && multiprocessors == small_tiles);
      if (!split) CHECK(first == plain);  // column by column, both
    }
  }
  no_findings();
}

TEST_CASE("a row of a product of floats has the same bits whatever rows are beside it") {
  const Problem sixteen({WeightType::f32, 16, 1156, 22});
  for (const int multiprocessors : {any_tiles, small_tiles}) {
    const std::vector<float> all = run_f32(sixteen, multiprocessors);
    for (const int rows : {2, 4, 5, 8, 9}) {
      Problem p = sixteen;
      p.shape.rows = rows;
      p.in.resize(static_cast<std::size_t>(rows * p.shape.columns_in));
      INFO(rows << " rows, " << multiprocessors);
      const std::vector<float> some = run_f32(p, multiprocessors);
      CHECK(std::equal(some.begin(), some.end(), all.begin()));
    }
  }
  no_findings();
}

TEST_CASE("products of floats whose rows are not of whole words are refused, and rows of nothing are nothing") {
  cuda::MatMulF32Params m;
  m.columns_in = 6;
  m.columns_out = 1;
  CHECK(launch(m, nullptr) == cudaSuccess);
  m.rows = 1;
  CHECK(launch(m, nullptr) == cudaErrorInvalidValue);
  CHECK(launch(cuda::BiasRowsParams{}, nullptr) == cudaSuccess);
}

TEST_CASE("bounds of what a product of floats moves") {
  constexpr int columns_in = 2048, columns_out = 512;
  constexpr double weights = 4.0 * columns_in * columns_out;
  for (const int rows : {1, 8, 16, 64}) {
    INFO(rows << " rows");
    const Counters c = f32_counters(rows, columns_in, columns_out);
    const double ideal = weights + 4.0 * rows * columns_in + 4.0 * columns_out * (rows + 1);
    CHECK(32.0 * static_cast<double>(c.unique_sectors) <= 1.02 * ideal);
    // Many rows are read once for 128 rows of weights.
    CHECK(32.0 * static_cast<double>(c.global_sectors) <= (rows == 1 ? 1.3 : rows <= 16 ? 1.5 : 1.6) * weights);
    CHECK(static_cast<double>(c.shared_wavefronts) <= 1.05 * static_cast<double>(c.shared_ideal));
    const ArgumentCounts* weight = argument(c, offsetof(cuda::MatMulF32Params, weight));
    REQUIRE(weight != nullptr);
    CHECK(weight->wide_sectors == weight->sectors);
    CHECK(32.0 * static_cast<double>(weight->sectors) == weights);
    const auto instructions = static_cast<double>(c.lane_instructions);
    if (rows > 16) {  // not much beside a multiply-add for a weight and a row
      CHECK(instructions <= 1.35 * columns_in * columns_out * rows);
    } else {  // memory takes longer, by the rates that counts_test.cpp has
      CHECK(instructions / 1.25 / 33e12 < 32.0 * static_cast<double>(c.unique_sectors) / 4.3e12);
    }
  }
}

}  // namespace ptxsim::tests
