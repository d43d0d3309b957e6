// The quantized product on tensor cores: against float64 on the same weights, against its plain sibling, and the same
// bits in every order of the simulator.
#include "matmul_problem.h"

namespace ptxsim::tests {

TEST_CASE("repacked weights come back as they were, in as many bytes") {
  for (const WeightType type : types) {
    for (const auto& [rows, columns] : {std::pair{16, 64}, {33, 96}, {1, 32}, {50, 576}}) {
      const Problem p({type, 1, rounded(type, columns), rows});
      Repacked w(p);
      std::vector<std::byte> back(p.file.size());
      cuda::unpack_rows(w.layout, w.planes<const std::byte>(), rows, back);
      CHECK(back == p.file);
    }
    // Whole tiles need no padding. Six-bit scales become bytes.
    const std::int64_t bytes = cuda::fragment_layout(type, 4096, 4096).bytes;
    const auto of_file = static_cast<std::int64_t>(quant::row_bytes(type, 4096)) * 4096;
    if (type == WeightType::q4_k || type == WeightType::q5_k || type == WeightType::iq4_xs) {
      CHECK(static_cast<double>(bytes) <= 1.03 * static_cast<double>(of_file));
    } else {
      CHECK(bytes == of_file);
    }
  }
}

TEST_CASE("the product is right, and the same in every mode") {
  std::vector<Shape> shapes;
  for (const WeightType type : types) {
    for (const Shape& s : {Shape{type, 1, 256, 33}, {type, 3, 32, 5}, {type, 9, 96, 16}, {type, 33, 160, 17}}) {
      shapes.push_back({type, s.rows, rounded(type, s.columns_in), s.columns_out});
    }
  }
  for (const Shape& shape : shapes) {
    INFO(describe(shape.type).name << " " << shape.rows << " x " << shape.columns_in << " x " << shape.columns_out);
    const Problem p(shape);
    Repacked w(p);
    std::vector<float> first;
    for (const Options& options : all_modes()) {
      simulated_device().options = options;
      const std::vector<float> out = run_quant(p, w);
      if (first.empty()) first = out;
      CHECK(out == first);
    }
    simulated_device().options = {};
    CHECK(p.error_of(first) < 1e-3);
    CHECK(p.error_of(run_plain(p)) < 1e-5);
    no_findings();
  }
}

}  // namespace ptxsim::tests
