// The quantized product on tensor cores: against float64 on the same weights, against its plain sibling, and the same
// bits in every order of the simulator.
#include "experts_problem.h"
#include "matmul_problem.h"

namespace ptxsim::tests {

TEST_CASE("repacked weights come back as they were, in as many bytes") {
  for (const WeightType type : types) {
    for (const auto& [rows, columns] : {std::pair{16, 64}, {33, 96}, {1, 32}, {50, 576}}) {
      const Problem p({type, 1, rounded(type, columns), rows});
      Repacked w(p);
      std::vector<std::byte> back(p.file.size());
      cuda::unpack_rows(w.layout, w.bytes, rows, back);
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
    for (const Shape& s : {Shape{type, 1, 256, 33},
                           {type, 3, 32, 5},
                           {type, 7, 96, 70},
                           {type, 9, 96, 16},
                           {type, 20, 576, 17},
                           {type, 33, 160, 17}}) {
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
    CHECK(p.error_of(first) < (shape.type == WeightType::f16 || shape.type == WeightType::bf16 ? 2e-5 : 1e-3));
    CHECK(p.error_of(run_plain(p)) < 1e-5);
    no_findings();
  }
}

TEST_CASE("blocks that share rows of weights give the same bits in every mode") {
  for (const WeightType type : {WeightType::q4_0, WeightType::q2_k, WeightType::q5_k}) {
    for (const int rows : {1, 6, 13, 40}) {
      INFO(describe(type).name << " x " << rows);
      const Problem p({type, rows, 2304, 70});
      Repacked w(p);
      std::vector<float> first;
      simulated_device().record_launches = true;
      for (const Options& options : all_modes()) {
        simulated_device().options = options;
        simulated_device().launches.clear();
        const std::vector<float> out = run_quant(p, w, true);
        CHECK(simulated_device().launches.back().counters.atomics > 0);
        if (first.empty()) first = out;
        CHECK(out == first);
      }
      simulated_device().record_launches = false;
      simulated_device().options = {};
      CHECK(p.error_of(first) < 1e-3);
      no_findings();
    }
  }
}

TEST_CASE("products of experts are right, and the same in every mode") {
  for (const WeightType type : types) {
    // Experts without tokens, with more than eight, and with all; shared rows of weights.
    for (const ExpertsShape& s :
         {ExpertsShape{type, 2, 3, 8, 96, 33}, {type, 21, 2, 3, 64, 70}, {type, 3, 2, 5, 2304, 20}}) {
      if (s.columns_in == 2304 && type != WeightType::q4_k && type != WeightType::mxfp4) continue;
      INFO(describe(type).name << " " << s.tokens << " tokens, " << s.used << " of " << s.experts);
      const ExpertsProblem p({type, s.tokens, s.used, s.experts, rounded(type, s.columns_in), s.columns_out});
      std::vector<float> first;
      for (const Options& options : all_modes()) {
        simulated_device().options = options;
        const std::vector<float> out = p.run(s.columns_in == 2304);
        if (first.empty()) first = out;
        CHECK(out == first);
      }
      simulated_device().options = {};
      CHECK(p.error_of(first) < (type == WeightType::f16 || type == WeightType::bf16 ? 2e-5 : 1e-3));
      no_findings();
    }
  }
}

}  // namespace ptxsim::tests
