// Paged attention of one KV head against plain double arithmetic, and equal bits however the queries are cut.
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "catch.h"
#include "device/cpu/kernels.h"

namespace llminfer::cpu::test {
namespace {

struct Shape {
  int heads = 3, k_width = 64, v_width = 64, keys = 300, window = 0;
  float cap = 0.0F;
  bool sinks = false;
  KvType k = KvType::f32, v = KvType::f32;
};

std::int64_t block_bytes(KvType type, int width) {
  switch (type) {
    case KvType::f32:
      return std::int64_t{128} * width;
    case KvType::q8_0:
      return std::int64_t{(width + 31) / 32} * 34 * 32;
    case KvType::q4_0:
      return std::int64_t{(width + 31) / 32} * 18 * 32;
    default:
      return std::int64_t{64} * width;
  }
}

/// Keys and values of one head in scrambled pages, queries for every position.
class Case {
 public:
  Case(const Shape& shape, const Kernels& kernels) : s(shape), kernels_(kernels) {
    std::mt19937 random(41);
    std::normal_distribution<float> normal(0.0F, 1.0F);
    const auto fill = [&](std::vector<float>& v, std::int64_t n) {
      v.resize(static_cast<std::size_t>(n));
      for (float& x : v) x = normal(random);
    };
    fill(k, std::int64_t{s.keys} * s.k_width);
    fill(v, std::int64_t{s.keys} * s.v_width);
    fill(q, std::int64_t{s.keys} * s.heads * s.k_width);
    fill(sinks, s.heads);
    v_at_ = block_bytes(s.k, s.k_width) + 64;
    page_bytes_ = v_at_ + block_bytes(s.v, s.v_width);
    const int count = (s.keys + 31) / 32;
    for (int i = 0; i < count; ++i) pages_.push_back(count - 1 - i);
    // What nobody wrote must not matter: NaNs in every float format.
    storage_.assign(static_cast<std::size_t>(page_bytes_ * count + 64), std::byte{0xff});
    for (int i = 0; i < s.keys; ++i) {
      std::byte* page = storage_.data() + pages_[static_cast<std::size_t>(i / 32)] * page_bytes_;
      kernels.store_k(k.data() + std::int64_t{i} * s.k_width, s.k, page, s.k_width, i % 32);
      kernels.store_v(v.data() + std::int64_t{i} * s.v_width, s.v, page + v_at_, s.v_width, i % 32);
    }
  }

  /// Queries of positions [first, last) in tiles of `step` tokens.
  std::vector<float> run(int first, int last, int step) const {
    std::vector<float> out(static_cast<std::size_t>(s.keys) * static_cast<std::size_t>(s.heads * s.v_width), 0.0F);
    std::vector<float> scratch(attention_scratch(s.k_width, s.v_width));
    for (int at = first; at < last; at += step) {
      AttentionTask t;
      t.q_stride = std::int64_t{s.heads} * s.k_width;
      t.out_stride = std::int64_t{s.heads} * s.v_width;
      t.q = q.data() + at * t.q_stride;
      t.out = out.data() + at * t.out_stride;
      t.tokens = std::min(step, last - at);
      t.heads = s.heads;
      t.position = at;
      t.last = last - 1;
      t.window = s.window;
      t.scale = 0.125F;
      t.cap = s.cap;
      t.sinks = s.sinks ? sinks.data() : nullptr;
      t.pages = pages_.data();
      t.storage = storage_.data();
      t.page_bytes = page_bytes_;
      t.k_offset = 0;
      t.v_offset = v_at_;
      t.k_type = s.k;
      t.v_type = s.v;
      t.k_width = s.k_width;
      t.v_width = s.v_width;
      t.scratch = scratch.data();
      kernels_.attention(t);
    }
    return out;
  }

  /// Exact attention of one position and head over the unrounded keys and values.
  std::vector<double> exact(int position, int head) const {
    const float* x = q.data() + (std::int64_t{position} * s.heads + head) * s.k_width;
    const int first = s.window > 0 ? std::max(0, position - s.window + 1) : 0;
    std::vector<double> p;
    double total = s.sinks ? std::exp(static_cast<double>(sinks[static_cast<std::size_t>(head)])) : 0.0;
    for (int i = first; i <= position; ++i) {
      double dot = 0;
      for (int d = 0; d < s.k_width; ++d)
        dot += static_cast<double>(x[d]) * k[static_cast<std::size_t>(i * s.k_width + d)];
      dot *= 0.125;
      if (s.cap > 0) dot = s.cap * std::tanh(dot / s.cap);
      p.push_back(std::exp(dot));
      total += p.back();
    }
    std::vector<double> out(static_cast<std::size_t>(s.v_width), 0.0);
    for (int i = first; i <= position; ++i) {
      for (int d = 0; d < s.v_width; ++d) {
        out[static_cast<std::size_t>(d)] +=
            p[static_cast<std::size_t>(i - first)] / total * v[static_cast<std::size_t>(i * s.v_width + d)];
      }
    }
    return out;
  }

  Shape s;
  std::vector<float> k{}, v{}, q{}, sinks{};

 private:
  const Kernels& kernels_;
  std::int64_t v_at_ = 0, page_bytes_ = 0;
  std::vector<std::int32_t> pages_{};
  std::vector<std::byte> storage_{};
};

double limit_of(KvType type) {
  switch (type) {
    case KvType::f32:
      return 1e-5;
    case KvType::f16:
      return 2e-3;
    case KvType::bf16:
      return 2e-2;
    case KvType::q8_0:
      return 3e-2;
    default:
      return 0.4;
  }
}

std::vector<Shape> shapes() {
  std::vector<Shape> out;
  for (int heads : {1, 3, 4, 8}) {
    Shape s;
    s.heads = heads;
    out.push_back(s);
  }
  Shape s;
  s.window = 70;
  out.push_back(s);
  s.window = 1;
  out.push_back(s);
  s = {};
  s.cap = 3.0F;
  s.sinks = true;
  out.push_back(s);
  s = {};
  s.k_width = 40;
  s.v_width = 24;
  s.heads = 5;
  out.push_back(s);
  s = {};
  s.keys = 2300;  // three ranges
  s.heads = 2;
  out.push_back(s);
  s.window = 1500;
  s.sinks = true;
  out.push_back(s);
  for (KvType type : {KvType::f16, KvType::bf16, KvType::q8_0, KvType::q4_0}) {
    s = {};
    s.k = type;
    out.push_back(s);
    s = {};
    s.v = type;
    out.push_back(s);
    s.k = type;
    s.k_width = 80;
    s.v_width = 24;
    out.push_back(s);
  }
  return out;
}

TEST_CASE("attention against double arithmetic: GQA, windows, cap, sinks, formats, scrambled pages") {
  const Kernels kernels = choose_kernels("auto");
  for (const Shape& shape : shapes()) {
    INFO("heads " << shape.heads << " widths " << shape.k_width << " " << shape.v_width << " keys " << shape.keys
                  << " window " << shape.window << " cap " << shape.cap << " " << to_string(shape.k) << " "
                  << to_string(shape.v));
    const Case c(shape, kernels);
    const std::vector<float> out = c.run(0, shape.keys, attention_rows / shape.heads);
    double worst = 0;
    for (int position = 0; position < shape.keys; position += position < 140 ? 1 : 97) {
      for (int h = 0; h < shape.heads; ++h) {
        const std::vector<double> exact = c.exact(position, h);
        for (int d = 0; d < shape.v_width; ++d) {
          const std::size_t at = static_cast<std::size_t>((position * shape.heads + h) * shape.v_width + d);
          worst = std::max(worst, std::fabs(out[at] - exact[static_cast<std::size_t>(d)]));
        }
      }
    }
    REQUIRE(worst < std::max(limit_of(shape.k), limit_of(shape.v)));
  }
}

TEST_CASE("attention bits do not depend on tiles, nor on the instruction set") {
  const Kernels best = choose_kernels("auto"), portable = choose_kernels("portable");
  for (const Shape& shape : shapes()) {
    if (shape.keys > 1000 && shape.window == 0) continue;
    INFO("heads " << shape.heads << " keys " << shape.keys << " window " << shape.window << " " << to_string(shape.k)
                  << " " << to_string(shape.v));
    const Case c(shape, best);
    const int from = shape.keys > 1000 ? 2100 : 0;
    const std::vector<float> truth = c.run(from, shape.keys, 1);
    for (int step : {2, 5, attention_rows / shape.heads}) {
      const std::vector<float> out = c.run(from, shape.keys, step);
      REQUIRE(std::memcmp(out.data(), truth.data(), out.size() * sizeof(float)) == 0);
    }
    const Case other(shape, portable);
    const std::vector<float> plain = other.run(from, from + 30, 3);
    const std::size_t row = static_cast<std::size_t>(shape.heads * shape.v_width);
    REQUIRE(std::memcmp(plain.data() + static_cast<std::size_t>(from) * row,
                        truth.data() + static_cast<std::size_t>(from) * row, 30 * row * sizeof(float)) == 0);
  }
}

}  // namespace
}  // namespace llminfer::cpu::test
