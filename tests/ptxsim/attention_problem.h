// Attention over random caches that the device's own kernel wrote, in pages out of order that had other contents
// before, and its exact result on what the caches hold.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/attention_mma.h"
#include "kernels/attention_tiled.h"
#include "kernels/kv_write.h"
#include "matmul_problem.h"

namespace ptxsim::tests {

struct AttentionShape {
  KvType type = KvType::f16;
  int width = 64, kv_heads = 2, group = 1;
  std::vector<std::pair<int, int>> sequences{};  ///< tokens of the cache, tokens of the step behind them
  int window = 0;
  float cap = 0;
  bool sinks = false;
  bool full = false;
  /// Of values of a key's row, in normal distribution; null: 1. `values`: not of keys but of values.
  float (*size)(bool values, int key, int column) = nullptr;
};

/// What a cache makes of a row: `width` values, rounded as its format does.
inline void round_as(KvType type, float* row, int width) {
  if (type == KvType::f16 || type == KvType::bf16) {
    for (int i = 0; i < width; ++i) {
      row[i] = type == KvType::f16 ? llminfer::core::f16_to_f32(llminfer::core::f32_to_f16(row[i]))
                                   : llminfer::core::bf16_to_f32(llminfer::core::f32_to_bf16(row[i]));
    }
    return;
  }
  const quant::QuantType& format = *quant::find(type == KvType::q8_0 ? WeightType::q8_0 : WeightType::q4_0);
  std::vector<float> padded(static_cast<std::size_t>((width + 31) / 32 * 32));
  std::copy_n(row, width, padded.begin());
  std::vector<std::byte> packed(padded.size() / 32 * 34);
  format.pack_row(padded.data(), packed.data(), padded.size());
  format.unpack_row(packed.data(), padded.data(), padded.size());
  std::copy_n(padded.begin(), width, row);
}

class AttentionProblem {
 public:
  explicit AttentionProblem(AttentionShape s) : shape_(std::move(s)) {
    make_step();
    fill_cache();
  }

  const cuda::AttentionParams& params() const { return params_; }

  /// As the device does: sequences with many tokens by tiles, the others' rows by attention_mma.
  void run() {
    cuda::AttentionTiles tiles;
    tiles.sequences = static_cast<std::int32_t>(shape_.sequences.size());
    std::vector<std::int32_t> few;
    std::int32_t row = 0;
    for (const auto& [before, count] : shape_.sequences) {
      const int each = cuda::attention_tile_tokens(shape_.group);
      if (count > cuda::attention_few_tokens) tiles.count += (count + each - 1) / each;
      for (int i = 0; i < count; ++i, ++row) {
        if (count <= cuda::attention_few_tokens) few.push_back(row);
      }
    }
    REQUIRE(cudaMemset(params_.out, 0xff, out_floats() * 4) == cudaSuccess);
    REQUIRE(launch_attention_tiled(params_, tiles, nullptr) == cudaSuccess);
    if (few.empty()) return;
    cuda::AttentionParams p = params_;
    cuda::AttentionRoom room;
    p.tokens = static_cast<std::int32_t>(few.size());
    room.rows = to_device(few);
    const std::int32_t blocks = cuda::attention_head_blocks(p.heads, p.kv_heads);
    room.ranges = cuda::attention_ranges(p.tokens, blocks, longest_);
    room.partials = to_device(std::vector<float>(
        static_cast<std::size_t>(cuda::attention_partial_floats(p.tokens, longest_, p.heads, shape_.width))));
    room.merges =
        to_device(std::vector<unsigned>(static_cast<std::size_t>(cuda::attention_merges(p.tokens, blocks) + 1), 0U));
    REQUIRE(launch_attention_mma(p, room, nullptr) == cudaSuccess);
  }

  std::vector<float> out() const {
    std::vector<float> v(out_floats());
    REQUIRE(cudaMemcpy(v.data(), params_.out, 4 * v.size(), cudaMemcpyDeviceToHost) == cudaSuccess);
    return v;
  }

  /// Largest error of a row of a head by the root mean square of its exact values, with `floor` added to that.
  /// `columns`: of so many neighbours each, instead of a whole row.
  double error(int columns = 0, double floor = 0) const {
    const std::size_t each = columns == 0 ? width() : static_cast<std::size_t>(columns);
    const std::vector<float> got = out();
    double worst = 0;
    std::size_t row = 0;
    for (std::size_t s = 0; s < shape_.sequences.size(); ++s) {
      for (int i = 0; i < shape_.sequences[s].second; ++i, ++row) {
        for (int head = 0; head < shape_.kv_heads * shape_.group; ++head) {
          const std::vector<double> exact = exact_row(s, i, row, head);
          const float* mine = got.data() + (row * heads() + static_cast<std::size_t>(head)) * width();
          for (std::size_t from = 0; from < width(); from += each) {
            double squares = 0, error = 0;
            const std::size_t end = std::min(from + each, width());
            for (std::size_t c = from; c < end; ++c) {
              squares += exact[c] * exact[c];
              error += std::pow(static_cast<double>(mine[c]) - exact[c], 2);
            }
            const double size = static_cast<double>(end - from);
            if (error == 0) continue;  // of zeros
            worst = worse(worst, std::sqrt(error / size) / (std::sqrt(squares / size) + floor));
          }
        }
      }
    }
    return worst;
  }

 private:
  std::size_t width() const { return static_cast<std::size_t>(shape_.width); }
  std::size_t heads() const { return static_cast<std::size_t>(shape_.kv_heads * shape_.group); }
  std::size_t out_floats() const { return static_cast<std::size_t>(params_.tokens) * heads() * width(); }

  void make_step() {
    std::vector<std::int32_t> positions, sequence_of, last, firsts, pages, pages_at;
    std::int32_t used = 0;
    for (const auto& [before, count] : shape_.sequences) {
      firsts.push_back(static_cast<std::int32_t>(positions.size()));
      for (int i = 0; i < count; ++i) {
        positions.push_back(before + i);
        sequence_of.push_back(static_cast<std::int32_t>(last.size()));
      }
      last.push_back(before + count - 1);
      longest_ = std::max(longest_, before + count);
      pages_at.push_back(used);
      for (int p = 0; p < (before + count + cuda::kv_page - 1) / cuda::kv_page; ++p) pages.push_back(used++);
    }
    firsts.push_back(static_cast<std::int32_t>(positions.size()));
    std::shuffle(pages.begin(), pages.end(), std::mt19937(5));
    page_count_ = used;
    params_.tokens = static_cast<std::int32_t>(positions.size());
    params_.step.positions = to_device(positions);
    params_.step.sequence_of = to_device(sequence_of);
    params_.step.last = to_device(last);
    params_.step.firsts = to_device(firsts);
    params_.step.pages = to_device(pages);
    params_.step.pages_at = to_device(pages_at);
    params_.step.longest = to_device(std::vector<std::int32_t>{longest_});
    std::mt19937 random(6);  // the first sequence's numbers are the same whatever is behind it
    std::normal_distribution<float> normal;
    q_.resize(out_floats_of(params_.tokens));
    for (float& v : q_) v = normal(random);
    params_.q = to_device(q_);
    params_.out = to_device(std::vector<float>(q_.size()));
    for (std::size_t h = 0; h < heads(); ++h) sinks_.push_back(0.5F * static_cast<float>(h % 5));
    if (shape_.sinks) params_.sinks = to_device(sinks_);
    params_.heads = static_cast<std::int32_t>(heads());
    params_.kv_heads = shape_.kv_heads;
    params_.window = shape_.window;
    params_.scale = 1.5F / std::sqrt(static_cast<float>(shape_.width));
    params_.cap = shape_.cap;
    params_.full = shape_.full;
  }

  std::size_t out_floats_of(std::int32_t tokens) const { return static_cast<std::size_t>(tokens) * heads() * width(); }

  /// All keys of all sequences, written by the device.
  void fill_cache() {
    const std::int64_t block = cuda::kv_block_bytes(shape_.type, shape_.width);
    std::vector<std::int32_t> positions, sequence_of;
    for (std::size_t s = 0; s < shape_.sequences.size(); ++s) {
      starts_.push_back(positions.size());
      for (int i = 0; i < shape_.sequences[s].first + shape_.sequences[s].second; ++i) {
        positions.push_back(i);
        sequence_of.push_back(static_cast<std::int32_t>(s));
      }
    }
    cuda::KvWriteParams write;
    write.step = params_.step;
    write.step.positions = to_device(positions);
    write.step.sequence_of = to_device(sequence_of);
    write.tokens = static_cast<std::int32_t>(positions.size());
    write.heads = shape_.kv_heads;
    write.count = 2;
    for (int side = 0; side < 2; ++side) {
      std::mt19937 random(side == 0 ? 7U : 8U);
      std::normal_distribution<float> normal;
      std::vector<float>& rows = side == 0 ? k_ : v_;
      rows.resize(positions.size() * static_cast<std::size_t>(shape_.kv_heads) * width());
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto key = static_cast<int>(i / (width() * static_cast<std::size_t>(shape_.kv_heads)));
        const float size = shape_.size == nullptr ? 1 : shape_.size(side == 1, key, static_cast<int>(i % width()));
        rows[i] = size * normal(random);
      }
      write.in[side] = to_device(rows);
      // What stands where no row was written is no number.
      auto* pages = reinterpret_cast<std::uint8_t*>(
          to_device(std::vector<std::uint8_t>(static_cast<std::size_t>(page_count_ * shape_.kv_heads * block), 0xff)));
      write.sides[side] = {pages, shape_.kv_heads * block, 0, block, shape_.width, shape_.type};
      for (std::size_t at = 0; at < rows.size(); at += width()) round_as(shape_.type, rows.data() + at, shape_.width);
    }
    params_.k = write.sides[0];
    params_.v = write.sides[1];
    REQUIRE(launch(write, nullptr) == cudaSuccess);
  }

  std::vector<double> exact_row(std::size_t sequence, int i, std::size_t row, int head) const {
    const auto [before, count] = shape_.sequences[sequence];
    const int position = before + i, last = shape_.full ? before + count - 1 : position;
    const int first = shape_.window > 0 ? std::max(0, position - shape_.window + 1) : 0;
    const float* q = q_.data() + (row * heads() + static_cast<std::size_t>(head)) * width();
    const auto at = [&](int key) {
      return ((starts_[sequence] + static_cast<std::size_t>(key)) * static_cast<std::size_t>(shape_.kv_heads) +
              static_cast<std::size_t>(head / shape_.group)) *
             width();
    };
    std::vector<double> scores;
    double best = shape_.sinks ? static_cast<double>(sinks_[static_cast<std::size_t>(head)]) : -1e300;
    const double sink = best;
    for (int key = first; key <= last; ++key) {
      double dot = 0;
      for (std::size_t c = 0; c < width(); ++c) dot += static_cast<double>(q[c]) * static_cast<double>(k_[at(key) + c]);
      dot *= static_cast<double>(params_.scale);
      const auto cap = static_cast<double>(shape_.cap);
      scores.push_back(cap > 0 ? cap * std::tanh(dot / cap) : dot);
      best = std::max(best, scores.back());
    }
    std::vector<double> exact(width());
    double total = std::exp(sink - best);
    for (int key = first; key <= last; ++key) {
      const double weight = std::exp(scores[static_cast<std::size_t>(key - first)] - best);
      total += weight;
      for (std::size_t c = 0; c < width(); ++c) exact[c] += weight * static_cast<double>(v_[at(key) + c]);
    }
    for (double& v : exact) v /= total;
    return exact;
  }

  AttentionShape shape_;
  cuda::AttentionParams params_{};
  std::int32_t longest_ = 1, page_count_ = 0;
  std::vector<float> q_, k_, v_, sinks_;  // k_ and v_: [keys of all sequences][KV heads][width]
  std::vector<std::size_t> starts_;       // of a sequence's keys
};

}  // namespace ptxsim::tests
