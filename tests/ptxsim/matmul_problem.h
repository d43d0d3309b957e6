// A product with random weights: in file order and repacked, run by the kernels of the CUDA device, and its exact
// result.
#pragma once

#include <cmath>
#include <random>

#include "catch.h"
#include "core/half.h"
#include "host/repack.h"
#include "kernels/matmul_plain.h"
#include "kernels/matmul_quant.h"
#include "quant/type_table.h"
#include "runtime/device.h"
#include "support.h"

namespace ptxsim::tests {
using namespace llminfer;  // NOLINT(google-build-using-namespace): a test

inline constexpr WeightType types[] = {WeightType::q4_0,   WeightType::q4_1,   WeightType::q5_0,  WeightType::q5_1,
                                       WeightType::q8_0,   WeightType::iq4_nl, WeightType::mxfp4, WeightType::q2_k,
                                       WeightType::q3_k,   WeightType::q4_k,   WeightType::q5_k,  WeightType::q6_k,
                                       WeightType::iq4_xs, WeightType::f16,    WeightType::bf16};

/// Columns of a block, at least 32; shapes are rounded up to it.
inline int block_of(WeightType type) { return std::max(32, static_cast<int>(describe(type).block_size)); }
inline int rounded(WeightType type, int columns) {
  return (columns + block_of(type) - 1) / block_of(type) * block_of(type);
}

/// A chip with clusters, as long as it lives.
class ClusterChip {
 public:
  ClusterChip() { simulated_device().chip = h200_chip; }
  ClusterChip(const ClusterChip&) = delete;
  ClusterChip& operator=(const ClusterChip&) = delete;
  ~ClusterChip() { simulated_device().chip = before_; }

 private:
  Chip before_ = simulated_device().chip;
};
/// Of the simulated chip.
inline std::int32_t most_of_cluster() { return simulated_device().chip.major >= 9 ? cuda::most_of_any_cluster : 1; }

struct Shape {
  WeightType type;
  int rows, columns_in, columns_out;
};

template <class T>
T* to_device(const std::vector<T>& values) {
  void* p = nullptr;
  REQUIRE(cudaMalloc(&p, values.size() * sizeof(T)) == cudaSuccess);
  REQUIRE(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess);
  return static_cast<T*>(p);
}

/// The larger of two errors. One that is no number is beyond all others, and stays so.
inline double worse(double a, double b) { return b <= a ? a : std::isnan(b) ? HUGE_VAL : b; }

/// Blocks of random levels under a scale of moderate size.
inline void random_blocks(WeightType type, std::byte* to, std::mt19937& random, std::size_t bytes) {
  const std::size_t block = describe(type).block_bytes;
  for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<std::byte>(random());
  for (std::size_t b = 0; b < bytes; b += block) {
    const std::uint16_t d = llminfer::core::f32_to_f16(0.001F);
    if (type == WeightType::mxfp4) {
      to[b] = static_cast<std::byte>(120 + random() % 4);
    } else {
      const std::size_t at = type == WeightType::q6_k   ? 208
                             : type == WeightType::q3_k ? 108
                             : type == WeightType::q2_k ? 80
                                                        : 0;
      std::memcpy(to + b + at, &d, 2);
      if (describe(type).block_size == 256 && type != WeightType::q6_k && type != WeightType::q3_k &&
          type != WeightType::iq4_xs) {
        std::memcpy(to + b + at + 2, &d, 2);
      }
    }
  }
}

/// Random weights in file order, activations, and the exact product.
struct Problem {
  explicit Problem(const Shape& s) : shape(s) {
    std::mt19937 random(static_cast<unsigned>(s.rows * 7 + s.columns_in));
    std::normal_distribution<float> normal;
    const quant::QuantType& type = *quant::find(s.type);
    const auto k = static_cast<std::size_t>(s.columns_in);
    row_bytes = quant::row_bytes(s.type, k);
    file.resize(row_bytes * static_cast<std::size_t>(s.columns_out));
    std::vector<float> row(k);
    for (int j = 0; j < s.columns_out; ++j) {
      for (float& v : row) v = normal(random) / std::sqrt(static_cast<float>(s.columns_in));
      std::byte* to = file.data() + static_cast<std::size_t>(j) * row_bytes;
      if (type.pack_row != nullptr) {
        type.pack_row(row.data(), to, k);
      } else {
        random_blocks(s.type, to, random, row_bytes);
      }
      type.unpack_row(to, row.data(), k);
      weights.insert(weights.end(), row.begin(), row.end());
    }
    for (int i = 0; i < s.rows * s.columns_in; ++i)
      in.push_back(normal(random) * (i / s.columns_in == 1 ? 1e30F : 1.0F));
    for (int j = 0; j < s.columns_out; ++j) bias.push_back(0.25F * static_cast<float>(j % 5));
  }
  double exact(int r, int j) const {
    double sum = bias[static_cast<std::size_t>(j)];
    for (int k = 0; k < shape.columns_in; ++k) {
      sum += static_cast<double>(in[static_cast<std::size_t>(r * shape.columns_in + k)]) *
             static_cast<double>(weights[static_cast<std::size_t>(j * shape.columns_in + k)]);
    }
    return sum;
  }
  /// Largest error of a row by the root mean square of its exact values, over all rows.
  double error_of(const std::vector<float>& out) const {
    double worst = 0;
    for (int r = 0; r < shape.rows; ++r) {
      double squares = 0, error = 0;
      for (int j = 0; j < shape.columns_out; ++j) {
        const double e = exact(r, j);
        squares += e * e;
        error += std::pow(static_cast<double>(out[static_cast<std::size_t>(r * shape.columns_out + j)]) - e, 2);
      }
      worst = worse(worst, std::sqrt(error / squares));
    }
    return worst;
  }

  Shape shape;
  std::uint64_t row_bytes = 0;
  std::vector<std::byte> file;
  std::vector<float> weights, in, bias;
};

struct Repacked {
  explicit Repacked(const Problem& p)
      : layout(cuda::fragment_layout(p.shape.type, p.shape.columns_out, p.shape.columns_in)) {
    bytes.resize(static_cast<std::size_t>(layout.bytes));
    cuda::repack_rows(layout, p.file, p.shape.columns_out, bytes);
  }
  cuda::FragmentLayout layout;
  std::vector<std::byte> bytes;
};

/// Runs the two kernels; the records of the launches stay in the simulated device. `shared`: blocks may share the rows
/// of weights. `most`: blocks of a cluster.
inline std::vector<float> run_quant(const Problem& p, const Repacked& w, bool shared = false,
                                    std::int32_t most = most_of_cluster()) {
  cuda::FragmentsParams f;
  f.rows = p.shape.rows;
  f.columns = p.shape.columns_in;
  f.blocks = static_cast<std::int32_t>(cuda::fragment_blocks(f.columns));
  f.in = to_device(p.in);
  f.fragments =
      to_device(std::vector<std::uint16_t>(static_cast<std::size_t>(cuda::fragments_bytes(f.rows, f.blocks) / 2)));
  if (p.shape.type == WeightType::f16 || p.shape.type == WeightType::bf16) {
    f.rest =
        to_device(std::vector<std::uint16_t>(static_cast<std::size_t>(cuda::fragments_bytes(f.rows, f.blocks) / 2)));
  }
  f.scales = to_device(std::vector<float>(static_cast<std::size_t>(f.rows + 7) / 8 * 8));
  f.block_sums = to_device(std::vector<float>(static_cast<std::size_t>(cuda::block_sum_floats(f.rows, f.blocks))));
  REQUIRE(launch(f, nullptr) == cudaSuccess);
  cuda::MatMulQuantParams m;
  cuda::MatMulTarget& target = m.targets[0];
  target.weight = reinterpret_cast<const std::uint8_t*>(to_device(w.bytes));
  target.bias = to_device(p.bias);
  target.columns_out = p.shape.columns_out;
  m.fragments = f.fragments;
  m.rest = f.rest;
  m.row_scales = f.scales;
  m.block_sums = f.block_sums;
  m.rows = f.rows;
  m.chunks = static_cast<std::int32_t>(w.layout.chunks);
  m.in_blocks = f.blocks;
  m.type = p.shape.type;
  m.most_of_cluster = most;
  if (shared) {
    m.partials = to_device(std::vector<float>(static_cast<std::size_t>(cuda::matmul_partial_floats(m.rows))));
    m.counters = to_device(std::vector<unsigned>(cuda::matmul_counters));
  }
  std::vector<float> out(static_cast<std::size_t>(m.rows * target.columns_out));
  target.out = to_device(out);
  REQUIRE(launch(m, nullptr) == cudaSuccess);
  if (shared) {
    std::vector<unsigned> counters(cuda::matmul_counters);
    REQUIRE(cudaMemcpy(counters.data(), m.counters, sizeof(unsigned) * counters.size(), cudaMemcpyDeviceToHost) ==
            cudaSuccess);
    CHECK(counters == std::vector<unsigned>(counters.size()));
    cudaFree(m.partials);
    cudaFree(m.counters);
  }
  REQUIRE(cudaMemcpy(out.data(), target.out, out.size() * sizeof(float), cudaMemcpyDeviceToHost) == cudaSuccess);
  for (const void* d : {static_cast<const void*>(f.in), static_cast<const void*>(f.fragments),
                        static_cast<const void*>(f.scales), static_cast<const void*>(f.rest),
                        static_cast<const void*>(f.block_sums), static_cast<const void*>(target.weight),
                        static_cast<const void*>(target.bias), static_cast<const void*>(target.out)}) {
    cudaFree(const_cast<void*>(d));
  }
  return out;
}

inline std::vector<float> run_plain(const Problem& p) {
  cuda::MatMulPlainParams m;
  m.weight = reinterpret_cast<const std::uint8_t*>(to_device(p.file));
  m.in = to_device(p.in);
  m.bias = to_device(p.bias);
  m.row_bytes = static_cast<std::int64_t>(p.row_bytes);
  m.rows = p.shape.rows;
  m.columns_in = p.shape.columns_in;
  m.columns_out = p.shape.columns_out;
  m.type = p.shape.type;
  std::vector<float> out(static_cast<std::size_t>(m.rows * m.columns_out));
  m.out = to_device(out);
  REQUIRE(launch(m, nullptr) == cudaSuccess);
  REQUIRE(cudaMemcpy(out.data(), m.out, out.size() * sizeof(float), cudaMemcpyDeviceToHost) == cudaSuccess);
  return out;
}

inline void no_findings() {
  for (const Finding& f : simulated_device().findings) FAIL_CHECK(name_of(f.check) << " " << f.source << " " << f.text);
  simulated_device().findings.clear();
}

}  // namespace ptxsim::tests
