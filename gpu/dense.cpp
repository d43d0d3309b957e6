// Products with float weights: our kernels, and cuBLAS where it is.
#include <stdexcept>

#include "commands.h"
#include "host/dense_gemm.h"
#include "kernels/matmul_f32.h"
#include "timed_product.h"

namespace gpu_check {
namespace {

/// Weights as they are in a file, in several places that launches take in turn.
class DenseTimes {
 public:
  DenseTimes(const Shared& engine, const ProductShape& s, std::int64_t rotate)
      : engine_(engine),
        value_(s.type == WeightType::f32 ? 4 : 2),
        stride_((value_ * s.columns_in * s.columns_out + 255) / 256 * 256),
        copies_(static_cast<int>(rotate / stride_) + 1),
        weights_(filled(engine, stride_ * copies_)),
        in_(filled(engine, value_ * s.columns_in * s.rows)),
        out_(filled(engine, 4 * s.columns_out * s.rows)),
        memory_(filled(engine, static_cast<std::int64_t>(dense_gemm_bytes))) {
    theirs_.in = in_.data();
    theirs_.out = ours_.out = out_.at<float>(0);
    theirs_.rows = ours_.rows = s.rows;
    theirs_.columns_in = ours_.columns_in = static_cast<std::int32_t>(s.columns_in);
    theirs_.columns_out = ours_.columns_out = static_cast<std::int32_t>(s.columns_out);
    theirs_.type = s.type;
    ours_.in = in_.at<float>(0);
    ours_.multiprocessors = engine->multiprocessors();
  }

  /// Of one product with f32 weights by our kernel.
  double own_seconds(int samples) {
    return median_seconds(engine_, samples,
                          [&] {
                            return each([&](std::uint8_t* weight) {
                              ours_.weight = reinterpret_cast<const float*>(weight);
                              return launch(ours_, engine_->stream());
                            });
                          }) /
           copies_;
  }
  /// By cuBLAS, which must be ready. Throws with its status where a product fails.
  double cublas_seconds(int samples) {
    return median_seconds(engine_, samples,
                          [&] {
                            return each([&](std::uint8_t* weight) {
                              theirs_.weight = weight;
                              if (!engine_->gemm.run(theirs_, memory_.data(), memory_.size())) {
                                throw std::runtime_error(engine_->gemm.note());
                              }
                              return cudaSuccess;
                            });
                          }) /
           copies_;
  }

 private:
  template <class F>
  cudaError_t each(const F& start) const {
    for (int n = 0; n < copies_; ++n) {
      if (const cudaError_t e = start(weights_.data() + stride_ * n); e != cudaSuccess) return e;
    }
    return cudaSuccess;
  }

  Shared engine_;
  std::int64_t value_, stride_;
  int copies_;
  Memory weights_, in_, out_, memory_;
  DenseProduct theirs_{};
  MatMulF32Params ours_{};
};

/// By our kernel, in seconds.
double own_seconds(const Shared& engine, const ProductShape& s, std::int64_t rotate, int samples) {
  if (s.type == WeightType::f32) return DenseTimes(engine, s, rotate).own_seconds(samples);
  Product p(engine, s, rotate);
  return median_seconds(engine, samples, [&] { return p.run_all(); }) / p.copies();
}

/// A measurement that fails leaves its reason: the others go on, cuBLAS without those behind it.
Json dense_row(const Shared& engine, const ProductShape& s, const Options& options) {
  const std::int64_t rotate = options.tiny ? 0 : std::int64_t{256} << 20;
  Json row = {{"type", std::string(describe(s.type).name)},
              {"columns", s.columns_in},
              {"out", s.columns_out},
              {"rows", s.rows}};
  try {
    const double own = own_seconds(engine, s, rotate, options.samples);
    row["microseconds"] = 1e6 * own;
    if (engine->gemm.ready()) {
      const double theirs = DenseTimes(engine, s, rotate).cublas_seconds(options.samples);
      row["cublas_microseconds"] = 1e6 * theirs;
      row["times_cublas"] = own / theirs;
    }
  } catch (const std::exception& e) {
    row["failed"] = e.what();
  }
  return row;
}

}  // namespace

bool dense(const Shared& engine, const Options& options, Json& out) {
  std::vector<int> rows = options.rows;
  if (rows.empty()) rows = options.tiny ? std::vector<int>{1, 17} : std::vector<int>{1, 16, 32, 64, 512};
  std::vector<std::pair<std::int64_t, std::int64_t>> shapes{{2048, 128}, {2048, 2048}, {4096, 14336}};
  if (options.tiny) shapes = {{256, 64}};
  if (!options.shape.empty()) shapes = {{options.shape[0], options.shape[1]}};
  engine->gemm.open(engine->stream());
  Json list = Json::array();
  bool well = true;
  for (const WeightType type : {WeightType::f32, WeightType::f16, WeightType::bf16}) {
    for (const auto& [columns, wide] : shapes) {
      for (const int r : rows) {
        list.push_back(dense_row(engine, {type, columns, wide, r}, options));
        well = well && !list.back().contains("failed");
      }
    }
  }
  out = {{"cublas", engine->gemm.note()}, {"dense", list}};
  return well;
}

}  // namespace gpu_check
