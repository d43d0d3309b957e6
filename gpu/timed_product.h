// What is timed: memory, medians, a product with repacked weights.
#pragma once

#include <algorithm>
#include <functional>

#include "commands.h"
#include "host/repack.h"
#include "host/timer.h"
#include "kernels/matmul_quant.h"

namespace gpu_check {
using namespace llminfer;        // NOLINT(google-build-using-namespace): a program
using namespace llminfer::cuda;  // NOLINT(google-build-using-namespace)

using Shared = std::shared_ptr<Engine>;

/// Memory whose contents do not matter for the time, but are no NaN: 0x11 in every byte.
inline Memory filled(const Shared& engine, std::int64_t bytes) {
  Memory m(engine, Memory::Kind::device, static_cast<std::uint64_t>(bytes));
  check(cudaMemsetAsync(m.data(), 0x11, m.size(), engine->stream()), "filling");
  return m;
}

inline double median_seconds(const Shared& engine, int samples, const std::function<cudaError_t()>& work) {
  Timer timer(engine);
  check(work(), "warming up");
  std::vector<double> all;
  for (int i = 0; i < samples; ++i) all.push_back(timer.seconds_of(work));
  std::nth_element(all.begin(), all.begin() + samples / 2, all.end());
  return all[static_cast<std::size_t>(samples / 2)];
}

struct ProductShape {
  WeightType type;
  std::int64_t columns_in, columns_out;
  int rows;
};

/// Weights in several places, together larger than any cache, that launches take in turn.
class Product {
 public:
  Product(const Shared& engine, const ProductShape& s, std::int64_t rotate)
      : engine_(engine),
        layout_(fragment_layout(s.type, s.columns_out, s.columns_in)),
        copies_(static_cast<int>(rotate / layout_.bytes) + 1),
        stride_((layout_.bytes + 255) / 256 * 256),
        weights_(filled(engine, stride_ * copies_)),
        out_(filled(engine, 4 * s.columns_out * s.rows)),
        in_(filled(engine, 4 * s.columns_in * s.rows)) {
    fragments_.rows = s.rows;
    fragments_.columns = static_cast<std::int32_t>(s.columns_in);
    fragments_.blocks = static_cast<std::int32_t>(fragment_blocks(s.columns_in));
    places_[0] = filled(engine, fragments_bytes(s.rows, fragments_.blocks));
    places_[1] = filled(engine, 4 * (s.rows + 8));
    places_[2] = filled(engine, 4 * block_sum_floats(s.rows, fragments_.blocks));
    places_[3] = filled(engine, fragments_bytes(s.rows, fragments_.blocks));
    partials_ = filled(engine, 4 * matmul_partial_floats(s.rows));
    counters_ = filled(engine, 4 * matmul_counters);
    check(cudaMemsetAsync(counters_.data(), 0, 4 * matmul_counters, engine->stream()), "counters");
    fragments_.in = in_.at<float>(0);
    fragments_.fragments = places_[0].at<std::uint16_t>(0);
    if (s.type == WeightType::f16 || s.type == WeightType::bf16) fragments_.rest = places_[3].at<std::uint16_t>(0);
    fragments_.scales = places_[1].at<float>(0);
    fragments_.block_sums = places_[2].at<float>(0);
    check(launch(fragments_, engine->stream()), "fragments");
    params_.targets[0].out = out_.at<float>(0);
    params_.targets[0].columns_out = static_cast<std::int32_t>(s.columns_out);
    params_.fragments = fragments_.fragments;
    params_.rest = fragments_.rest;
    params_.partials = partials_.at<float>(0);
    params_.counters = counters_.at<unsigned>(0);
    params_.row_scales = fragments_.scales;
    params_.block_sums = fragments_.block_sums;
    params_.rows = s.rows;
    params_.chunks = static_cast<std::int32_t>(layout_.chunks);
    params_.in_blocks = fragments_.blocks;
    params_.type = s.type;
    params_.most_of_cluster = engine->most_of_cluster();
  }
  int copies() const { return copies_; }
  std::int64_t weight_bytes() const { return layout_.bytes; }

  cudaError_t run_all() {
    for (int n = 0; n < copies_; ++n) {
      std::uint8_t* w = weights_.data() + stride_ * n;
      params_.targets[0].weight = w;
      if (const cudaError_t e = launch(params_, engine_->stream()); e != cudaSuccess) return e;
    }
    return cudaSuccess;
  }

 private:
  Shared engine_;
  FragmentLayout layout_;
  int copies_;
  std::int64_t stride_;
  Memory weights_, out_, in_;
  Memory places_[4]{};
  Memory partials_{}, counters_{};
  FragmentsParams fragments_{};
  MatMulQuantParams params_{};
};

}  // namespace gpu_check
