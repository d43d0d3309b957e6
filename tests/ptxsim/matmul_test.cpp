// The quantized product on tensor cores: against float64 on the same weights, against its plain sibling, and the same
// bits in every order of the simulator.
#include <optional>

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
                           {type, 70, 160, 40}}) {
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
      // Columns enough for sums to be little beside the weights.
      const Problem p({type, rows, rows == 13 ? 9216 : 4608, 70});
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

/// Gates in the first half of the rows of weights, what they gate in the second.
class GatedProblem {
 public:
  explicit GatedProblem(const Shape& s) : p_({s.type, s.rows, s.columns_in, 2 * s.columns_out}), width_(s.columns_out) {
    const std::size_t half = p_.file.size() / 2;
    const cuda::FragmentLayout layout = cuda::fragment_layout(s.type, width_, s.columns_in);
    for (int i = 0; i < 2; ++i) {
      bytes_[i].resize(static_cast<std::size_t>(layout.bytes));
      cuda::repack_rows(layout, std::span(p_.file).subspan(static_cast<std::size_t>(i) * half, half), width_,
                        bytes_[i]);
    }
    chunks_ = static_cast<std::int32_t>(layout.chunks);
  }

  struct Results {
    std::vector<float> out{};
    std::vector<std::uint16_t> fragments{}, expected{};  // of `out`: by the way, and by a launch of their own
    std::vector<float> sums{}, expected_sums{};
  };
  Results run(bool shared) const;

  double error_of(const std::vector<float>& out) const {
    double worst = 0;
    for (int r = 0; r < p_.shape.rows; ++r) {
      if (r == 1) continue;  // of 1e30: its gates are nothing or what floats do not hold
      double squares = 0, error = 0;
      for (int j = 0; j < width_; ++j) {
        const double g = p_.exact(r, j), e = g / (1 + std::exp(-g)) * p_.exact(r, width_ + j);
        squares += e * e;
        error += std::pow(static_cast<double>(out[static_cast<std::size_t>(r * width_ + j)]) - e, 2);
      }
      worst = worse(worst, std::sqrt(error / squares));
    }
    return worst;
  }

 private:
  Problem p_;
  int width_;
  std::int32_t chunks_ = 0;
  std::vector<std::byte> bytes_[2];
};

template <class T>
std::vector<T> from_device(const T* from, std::size_t count) {
  std::vector<T> to(count);
  REQUIRE(cudaMemcpy(to.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess);
  return to;
}

/// Memory of a value's fragments, all bits zero.
cuda::FragmentsParams fragments_for(const float* in, int rows, int columns) {
  cuda::FragmentsParams f;
  f.in = in;
  f.rows = rows;
  f.columns = columns;
  f.blocks = static_cast<std::int32_t>(cuda::fragment_blocks(columns));
  const std::vector<std::uint16_t> room(static_cast<std::size_t>(cuda::fragments_bytes(rows, f.blocks) / 2));
  f.fragments = to_device(room);
  f.rest = to_device(room);
  f.scales = to_device(std::vector<float>(static_cast<std::size_t>(rows + 7) / 8 * 8));
  f.block_sums = to_device(std::vector<float>(static_cast<std::size_t>(cuda::block_sum_floats(rows, f.blocks))));
  return f;
}

GatedProblem::Results GatedProblem::run(bool shared) const {
  const int rows = p_.shape.rows;
  const cuda::FragmentsParams in = fragments_for(to_device(p_.in), rows, p_.shape.columns_in);
  REQUIRE(launch(in, nullptr) == cudaSuccess);
  Results r;
  r.out.resize(static_cast<std::size_t>(rows * width_));
  float* out = to_device(r.out);
  cuda::MatMulQuantParams m;
  for (int i = 0; i < 2; ++i) {
    m.targets[i].weight = reinterpret_cast<const std::uint8_t*>(to_device(bytes_[i]));
    m.targets[i].bias = to_device(p_.bias) + i * width_;
    m.targets[i].columns_out = width_;
    m.targets[i].out = out;
  }
  m.count = 2;
  m.end.gated = true;
  m.end.gate.kind = cuda::Elementwise::silu;
  m.end.next = fragments_for(out, rows, width_);
  m.end.arrivals = to_device(std::vector<unsigned>(static_cast<std::size_t>(rows + 7) / 8));
  m.fragments = in.fragments;
  m.rest = in.rest;
  m.row_scales = in.scales;
  m.block_sums = in.block_sums;
  m.rows = rows;
  m.chunks = chunks_;
  m.in_blocks = in.blocks;
  m.type = p_.shape.type;
  m.most_of_cluster = most_of_cluster();
  if (shared) {
    m.partials = to_device(std::vector<float>(static_cast<std::size_t>(cuda::matmul_partial_floats(rows))));
    m.counters = to_device(std::vector<unsigned>(cuda::matmul_counters));
  }
  REQUIRE(launch(m, nullptr) == cudaSuccess);
  r.out = from_device(out, r.out.size());
  const cuda::FragmentsParams alone = fragments_for(out, rows, width_);
  REQUIRE(launch(alone, nullptr) == cudaSuccess);
  const auto count = static_cast<std::size_t>(cuda::fragments_bytes(rows, alone.blocks) / 2);
  const auto sums = static_cast<std::size_t>(cuda::block_sum_floats(rows, alone.blocks));
  r.fragments = from_device(m.end.next.fragments, count);
  r.expected = from_device(alone.fragments, count);
  r.sums = from_device(m.end.next.block_sums, sums);
  r.expected_sums = from_device(alone.block_sums, sums);
  const unsigned arrived = from_device(m.end.arrivals, 1)[0];
  CHECK(arrived == 0);
  return r;
}

TEST_CASE("gated products are right, and the same in every mode, and their fragments those of a launch of their own") {
  for (const WeightType type :
       {WeightType::q4_0, WeightType::q2_k, WeightType::q4_k, WeightType::q6_k, WeightType::f16}) {
    for (const auto& [rows, clusters] :
         {std::pair{1, false}, {6, false}, {6, true}, {13, false}, {13, true}, {40, false}}) {
      const bool shared = rows == 6 || rows == 40 || clusters;
      INFO(describe(type).name << " x " << rows << (clusters ? " in clusters" : ""));
      std::optional<ClusterChip> chip;
      if (clusters) chip.emplace();
      const GatedProblem p({type, rows, rounded(type, clusters ? 1024 : shared ? 576 : 96), 160});
      std::vector<float> first;
      for (const Options& options : all_modes()) {
        simulated_device().options = options;
        const GatedProblem::Results r = p.run(shared);
        if (first.empty()) first = r.out;
        CHECK(std::memcmp(r.out.data(), first.data(), 4 * first.size()) == 0);
        CHECK(r.fragments == r.expected);
        CHECK(std::memcmp(r.sums.data(), r.expected_sums.data(), 4 * r.sums.size()) == 0);
        if (options.order == Order::ascending && rows > 8 && type != WeightType::q2_k) break;
      }
      simulated_device().options = {};
      CHECK(p.error_of(first) < 2e-3);
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
      CHECK(p.run(s.columns_in == 2304, true) == first);
      simulated_device().options = {};
      CHECK(p.error_of(first) < (type == WeightType::f16 || type == WeightType::bf16 ? 2e-5 : 1e-3));
      no_findings();
      if (s.columns_in != 2304) continue;
      const ClusterChip chip;
      first.clear();
      simulated_device().record_launches = true;
      for (const Options& options : all_modes()) {
        simulated_device().options = options;
        const std::vector<float> out = p.run(true);
        CHECK(simulated_device().launches.back().counters.cluster_bytes > 0);
        if (first.empty()) first = out;
        CHECK(out == first);
      }
      simulated_device().record_launches = false;
      simulated_device().launches.clear();
      simulated_device().options = {};
      CHECK(p.error_of(first) < 1e-3);
      no_findings();
    }
  }
}

TEST_CASE("products of experts of a prompt are right, and the same in every mode") {
  for (const WeightType type : {WeightType::q4_k, WeightType::mxfp4, WeightType::q5_1, WeightType::bf16}) {
    // Experts with more rows than a run has, and in the second case experts without any.
    for (const ExpertsShape& s : {ExpertsShape{type, 75, 2, 2, 576, 40}, {type, 19, 2, 6, 96, 33}}) {
      const bool shared = type != WeightType::mxfp4;
      INFO(describe(type).name << " " << s.tokens << " tokens, " << s.used << " of " << s.experts);
      const ExpertsProblem p({type, s.tokens, s.used, s.experts, rounded(type, s.columns_in), s.columns_out});
      std::vector<float> first;
      for (const Options& options : all_modes()) {
        simulated_device().options = options;
        const std::vector<float> out = p.run(shared, false, true);
        if (first.empty()) first = out;
        CHECK(out == first);
      }
      simulated_device().options = {};
      CHECK(p.error_of(first) < (type == WeightType::bf16 ? 2e-5 : 1e-3));
      no_findings();
    }
  }
}

TEST_CASE("levels times scales of Q2_K and Q3_K are exact in products of 9 to 16 rows") {
  constexpr int rows = 16, columns = 512, columns_out = 48;
  for (const WeightType type : {WeightType::q2_k, WeightType::q3_k}) {
    INFO(describe(type).name);
    Problem p({type, rows, columns, columns_out});
    std::mt19937 random(5);
    for (int j = 0; j < columns_out; ++j) {
      std::byte* row = p.file.data() + static_cast<std::size_t>(j) * p.row_bytes;
      random_blocks(type, row, random, p.row_bytes);
      quant::find(type)->unpack_row(row, p.weights.data() + static_cast<std::ptrdiff_t>(j) * columns, columns);
    }
    std::fill(p.bias.begin(), p.bias.end(), 0.0F);
    const Repacked w(p);
    // Rows of the unit matrix: results are single weights, to the last bit.
    for (int first = 0; first < columns; first += rows) {
      std::fill(p.in.begin(), p.in.end(), 0.0F);
      for (int r = 0; r < rows; ++r) p.in[static_cast<std::size_t>(r * columns + first + r)] = 1;
      const std::vector<float> out = run_quant(p, w);
      int different = 0;
      for (int i = 0; i < rows * columns_out; ++i) {
        const int r = i / columns_out, j = i % columns_out;
        different += out[static_cast<std::size_t>(i)] != p.weights[static_cast<std::size_t>(j * columns + first + r)];
      }
      CHECK(different == 0);
    }
  }
  no_findings();
}

TEST_CASE("MXFP4's largest scale is 2^127") {
  constexpr int columns = 64, columns_out = 33;
  for (const int rows : {1, 12, 20}) {
    INFO(rows << " rows");
    Problem p({WeightType::mxfp4, rows, columns, columns_out});
    for (int j = 0; j < columns_out; ++j) {
      // Levels of zero, in every second row but one of 1 or -1.
      const auto n = static_cast<std::size_t>(j);
      std::byte* block = p.file.data() + n * p.row_bytes;
      std::fill_n(block, 17, std::byte{0});
      block[0] = std::byte{255};
      if (j % 2 == 0) block[1 + j % 16] = j % 4 == 0 ? std::byte{1} : std::byte{9};
      quant::find(WeightType::mxfp4)->unpack_row(block, p.weights.data() + n * columns, columns);
    }
    // The largest of a row is elsewhere, so that sums stay within floats.
    for (int r = 0; r < rows; ++r) {
      float* in = p.in.data() + static_cast<std::ptrdiff_t>(r) * columns;
      for (int k = 0; k < 32; ++k) in[k] = 0.01F * static_cast<float>(k + 1);
      for (int k = 32; k < columns; ++k) in[k] = k == 40 ? 1.5F : 0.0F;
    }
    const Repacked w(p);
    CHECK(p.error_of(run_quant(p, w)) < 1e-3);
    CHECK(p.error_of(run_plain(p)) < 1e-5);
    no_findings();
  }
}

}  // namespace ptxsim::tests
