// Paged attention of one KV head against plain double arithmetic, and equal bits however queries and keys are cut.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <llminfer/error.hpp>
#include <random>
#include <string_view>
#include <vector>

#include "catch.h"
#include "device/cpu/attention_share.h"
#include "device/cpu/kernels.h"
#include "plain_bf16.h"
#include "plain_tiles.h"

namespace llminfer::cpu::test {
namespace {

struct Shape {
  int heads = 3, k_width = 64, v_width = 64, keys = 300, window = 0;
  float cap = 0.0F, scale = 0.125F;
  bool sinks = false;
  KvType k = KvType::f32, v = KvType::f32;
};

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
    v_at_ = k_block_bytes(s.k, s.k_width) + 64;
    page_bytes_ = v_at_ + v_block_bytes(s.v, s.v_width);
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
      fill_in(t, at, std::min(step, last - at), last, scratch.data());
      t.out = out.data() + at * t.out_stride;
      kernels_.attention(t);
    }
    return out;
  }

  /// The query of one position, its keys in parts that begin at these ranges.
  std::vector<float> run_parts(int position, const std::vector<int>& cuts) const {
    std::vector<float> out(static_cast<std::size_t>(s.heads * s.v_width));
    std::vector<float> scratch(attention_scratch(s.k_width, s.v_width), -1.0F);
    AttentionTask t;
    fill_in(t, position, 1, position + 1, scratch.data());
    t.out = out.data();
    std::vector<std::vector<float>> states;
    std::vector<AttentionPart> parts;
    for (std::size_t i = 0; i <= cuts.size(); ++i) {
      if (i > 0) t.first_range = cuts[i - 1];
      t.end_range = i < cuts.size() ? cuts[i] : attention_keys(t).last / attention_keys(t).range + 1;
      const int count = i == 0 ? 1 : t.end_range - t.first_range;
      states.emplace_back(static_cast<std::size_t>(count * attention_state_floats(s.heads, s.v_width)));
      t.states = states.back().data();
      kernels_.attention(t);
      parts.push_back({t.states, count});
    }
    kernels_.merge_attention(t, parts.data(), static_cast<int>(parts.size()));
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
      dot *= static_cast<double>(s.scale);
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
  void fill_in(AttentionTask& t, int at, int tokens, int last, float* scratch) const {
    t.q_stride = std::int64_t{s.heads} * s.k_width;
    t.out_stride = std::int64_t{s.heads} * s.v_width;
    t.q = q.data() + at * t.q_stride;
    t.tokens = tokens;
    t.heads = s.heads;
    t.position = at;
    t.last = last - 1;
    t.window = s.window;
    t.scale = s.scale;
    t.cap = s.cap;
    t.sinks = s.sinks ? sinks.data() : nullptr;
    t.pages = pages_.data();
    t.storage = storage_.data();
    t.page_bytes = page_bytes_;
    t.k_offset = 0;
    t.v_offset = v_at_;
    t.k_bytes = k_block_bytes(s.k, s.k_width);
    t.v_bytes = v_block_bytes(s.v, s.v_width);
    t.k_type = s.k;
    t.v_type = s.v;
    t.k_width = s.k_width;
    t.v_width = s.v_width;
    t.scratch = scratch;
  }

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
  for (KvType type : {KvType::f16, KvType::q8_0}) {  // of rows that see different keys
    s = {};
    s.k = s.v = type;
    s.heads = 7;
    s.window = 70;
    out.push_back(s);
    s.heads = 3;
    s.k_width = 96;
    s.window = 150;
    s.cap = 3.0F;
    out.push_back(s);
  }
  for (int width : {64, 80, 96, 128, 256}) {  // of bf16 products: whole and half columns, one and many groups of rows
    s = {};
    s.k = s.v = KvType::bf16;
    s.heads = width == 96 ? 9 : 3;
    s.k_width = s.v_width = width;
    s.scale = 1.0F / std::sqrt(static_cast<float>(width));
    s.keys = 200;
    s.window = width == 80 ? 70 : 0;
    s.sinks = width == 128;
    s.cap = width == 96 ? 3.0F : 0.0F;
    out.push_back(s);
  }
  s = {};
  s.heads = 2;
  s.k = s.v = KvType::bf16;
  s.k_width = 144;  // more than two groups of columns, the last one of 8 pairs
  s.v_width = 112;
  s.keys = 171;
  out.push_back(s);
  s = {};
  s.k = s.v = KvType::bf16;
  s.k_width = 7;
  s.v_width = 5;
  out.push_back(s);
  s = {};
  s.k = s.v = KvType::bf16;
  s.keys = 2300;
  s.window = 1500;
  out.push_back(s);
  return out;
}

/// Plain code with the products of `best`: equal bits are expected of it.
Kernels plain_of(const Kernels& best) {
  Kernels kernels = choose_kernels("portable");
  if (std::string_view(best.name) == "amx") {
    add_plain_tiles(kernels);
  } else if (best.default_kv == KvType::bf16) {
    add_plain_bf16(kernels);
  }
  return kernels;
}

/// Those of this machine beside the best ones, each attention once.
std::vector<Kernels> other_kernels() {
  std::vector<Kernels> out = {choose_kernels("auto")};
  for (const char* isa : {"avx512bf16", "avx512", "avxvnni", "avx2", "i8mm", "dotprod", "neon"}) {
    try {
      const Kernels kernels = choose_kernels(isa);
      const auto same = [&](const Kernels& k) { return k.attention == kernels.attention; };
      if (std::none_of(out.begin(), out.end(), same)) out.push_back(kernels);
    } catch (const Exception& e) {
      REQUIRE(e.error().code == ErrorCode::unavailable);
    }
  }
  out.erase(out.begin());
  return out;
}

void check_accuracy(const Kernels& kernels) {
  for (const Shape& shape : shapes()) {
    INFO(kernels.name << " heads " << shape.heads << " widths " << shape.k_width << " " << shape.v_width << " keys "
                      << shape.keys << " window " << shape.window << " cap " << shape.cap << " " << to_string(shape.k)
                      << " " << to_string(shape.v));
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

void check_bits(const Kernels& best) {
  const Kernels portable = plain_of(best);
  for (const Shape& shape : shapes()) {
    if (shape.keys > 1000 && shape.window == 0) continue;
    INFO(best.name << " heads " << shape.heads << " keys " << shape.keys << " window " << shape.window << " "
                   << to_string(shape.k) << " " << to_string(shape.v));
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

TEST_CASE("attention against double arithmetic: GQA, windows, cap, sinks, formats, scrambled pages") {
  check_accuracy(choose_kernels("auto"));
}

TEST_CASE("attention bits do not depend on tiles, nor on the instruction set") { check_bits(choose_kernels("auto")); }

/// `products` differ from floats by the rounding of queries and weights alone.
void check_rounding(const Kernels& products) {
  const Kernels floats = choose_kernels("portable");
  for (const Shape& shape : shapes()) {
    if (shape.k != KvType::bf16 && shape.v != KvType::bf16) continue;
    INFO("heads " << shape.heads << " widths " << shape.k_width << " " << shape.v_width << " keys " << shape.keys
                  << " window " << shape.window << " cap " << shape.cap);
    const Case c(shape, products), other(shape, floats);
    const int from = shape.keys > 1000 ? shape.keys - 40 : 0, last = shape.keys - 1;
    const std::vector<float> truth = c.run(from, shape.keys, 1),
                             close = other.run(from, shape.keys, attention_rows / shape.heads);
    for (int step : {3, attention_rows / shape.heads}) {
      const std::vector<float> out = c.run(from, shape.keys, step);
      REQUIRE(std::memcmp(out.data(), truth.data(), out.size() * sizeof(float)) == 0);
    }
    const std::vector<float> whole(truth.end() - shape.heads * shape.v_width, truth.end());
    std::vector<int> cuts;
    for (int range = std::max(0, shape.window > 0 ? (last - shape.window + 1) / 128 : 0) + 1; range <= last / 128;
         ++range)
      cuts.push_back(range);
    REQUIRE(c.run_parts(last, cuts) == whole);
    double squares = 0, errors = 0, worst = 0, largest = 0;
    for (const float v : c.v) largest = std::max(largest, std::fabs(static_cast<double>(v)));
    for (std::size_t i = 0; i < truth.size(); ++i) {
      const double exact = close[i], error = static_cast<double>(truth[i]) - exact;
      squares += exact * exact;
      errors += error * error;
      worst = std::max(worst, std::fabs(error));
    }
    REQUIRE(worst < 2e-3 * largest);
    REQUIRE(std::sqrt(errors / squares) < 3e-3);
    REQUIRE(errors > 0);
  }
}

TEST_CASE("attention with bf16 products: bits that do not depend on tiles and parts, close to that with floats") {
  Kernels pairs = choose_kernels("portable"), tiles = pairs;
  add_plain_bf16(pairs);
  add_plain_tiles(tiles);
  check_rounding(pairs);
  check_rounding(tiles);
}

void check_parts(const Kernels& best) {
  const Kernels portable = plain_of(best);
  for (const Shape& shape : shapes()) {
    INFO(best.name << " heads " << shape.heads << " keys " << shape.keys << " window " << shape.window << " "
                   << to_string(shape.k));
    const Case c(shape, best), plain(shape, portable);
    const int position = shape.keys - 1;
    const std::vector<float> all = c.run(position, shape.keys, 1);
    const std::vector<float> whole(all.end() - shape.heads * shape.v_width, all.end());
    const int first = shape.window > 0 ? (position - shape.window + 1) / 128 : 0, end = position / 128 + 1;
    std::vector<int> every;
    for (int range = first + 1; range < end; ++range) every.push_back(range);
    REQUIRE(c.run_parts(position, every) == whole);
    REQUIRE(plain.run_parts(position, every) == whole);
    REQUIRE(c.run_parts(position, {}) == whole);
    if (every.size() > 2) REQUIRE(c.run_parts(position, {every[0], every[2]}) == whole);
  }
}

TEST_CASE("attention in parts of the keys has the bits of the whole") { check_parts(choose_kernels("auto")); }

TEST_CASE("attention by the other kernels of this machine: errors, tiles and parts") {
  for (const Kernels& kernels : other_kernels()) {
    check_accuracy(kernels);
    check_bits(kernels);
    check_parts(kernels);
  }
}

TEST_CASE("ranges are few, and grow with the keys that a query sees") {
  for (int keys : {1, 127, 128, 129, 4095, 4096, 4097, 8192, 8193, 100000, 1 << 24}) {
    const int range = attention_range(keys);
    CHECK(range >= 128);
    CHECK((range & (range - 1)) == 0);
    for (int window : {0, 512, 5000}) {
      AttentionTask t;
      t.tokens = 1;
      t.window = window;
      t.position = t.last = keys - 1;
      const AttentionKeys seen = attention_keys(t);
      CHECK(seen.last == keys - 1);
      CHECK(seen.last - seen.first + 1 == (window > 0 ? std::min(window, keys) : keys));
      CHECK(seen.last / seen.range - seen.first / seen.range + 1 <= attention_ranges);
    }
  }
  CHECK(attention_range(4096) == 128);
  CHECK(attention_range(4097) == 256);
}

TEST_CASE("attention is shared out by keys: all of it, once, evenly") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int items = 1 + static_cast<int>(random() % 12), threads = 1 + static_cast<int>(random() % 9);
    std::vector<AttentionKeys> list;
    std::vector<int> rows;
    std::int64_t total = 0, largest = 0;
    for (int i = 0; i < items; ++i) {
      AttentionTask t;
      t.tokens = 1;
      t.position = t.last = static_cast<int>(random() % 3000);
      t.window = random() % 3 == 0 ? 700 : 0;
      list.push_back(attention_keys(t));
      rows.push_back(1 + static_cast<int>(random() % 8));
      total += attention_weight(list.back(), rows.back());
      largest = std::max(largest, std::int64_t{rows.back() + 8} * 128);
    }
    AttentionShares shares(total, threads);
    std::vector<std::int64_t> work(static_cast<std::size_t>(threads), 0);
    int last_thread = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const AttentionKeys& keys = list[i];
      const RangeParts parts = shares.next(keys, rows[i], false);
      int at = keys.first / keys.range;
      for (int p = 0; p < parts.count; ++p) {
        const RangePart& part = parts.parts[static_cast<std::size_t>(p)];
        REQUIRE(part.first == at);
        REQUIRE(part.end > part.first);
        REQUIRE(part.thread >= last_thread);
        if (p > 0) REQUIRE(part.thread > last_thread);
        last_thread = part.thread;
        at = part.end;
        const int from = std::max(keys.first, part.first * keys.range);
        const int to = std::min(keys.last + 1, part.end * keys.range);
        work[static_cast<std::size_t>(part.thread)] += std::int64_t{to - from} * (rows[i] + 8);
      }
      REQUIRE(at == keys.last / keys.range + 1);
    }
    REQUIRE(last_thread < threads);
    // Each end of a share is off by at most half a range.
    for (const std::int64_t w : work) REQUIRE(w <= total / threads + largest + 1);
  }
}

TEST_CASE("attention that may not be cut goes to one thread whole") {
  AttentionTask t;
  t.tokens = 16;
  t.position = 2000;
  const AttentionKeys keys = attention_keys(t);
  AttentionShares shares(3 * attention_weight(keys, 48), 2);
  for (int i = 0; i < 3; ++i) {
    const RangeParts parts = shares.next(keys, 48, true);
    REQUIRE(parts.count == 1);
    CHECK(parts.parts[0].thread == (i < 2 ? 0 : 1));
  }
}

}  // namespace
}  // namespace llminfer::cpu::test
