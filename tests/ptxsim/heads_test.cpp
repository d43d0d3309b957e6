// Norms, rotations and the cache by the last blocks of the product that makes queries, keys and values: the bits of a
// launch of their own, in every mode.
#include <algorithm>

#include "kernels/matmul_mixed.h"
#include "matmul_problem.h"

namespace ptxsim::tests {
namespace {

struct HeadsShape {
  const char* name;
  WeightType type, values;
  int rows, columns, heads, kv_heads, width, value_width, pairs;
  KvType keys_as, values_as;
  bool adjacent = false, norms = false, shared = false;
  bool all_modes = false;
};

using Bytes = std::vector<std::uint8_t>;

/// What is left: queries, then the caches of both sides.
struct Left {
  std::vector<float> queries;
  Bytes caches[2];
  bool operator==(const Left& o) const {
    const std::size_t bytes = queries.size() * sizeof(float);
    return queries.size() == o.queries.size() && std::memcmp(queries.data(), o.queries.data(), bytes) == 0 &&
           caches[0] == o.caches[0] && caches[1] == o.caches[1];
  }
};

class HeadsProblem {
 public:
  explicit HeadsProblem(const HeadsShape& s) : shape_(s) {
    const int widths[] = {s.heads * s.width, s.kv_heads * s.width, s.kv_heads * s.value_width};
    for (int n = 0; n < 3; ++n) {
      p_.emplace_back(Shape{n == 2 ? s.values : s.type, s.rows, s.columns, widths[n]});
      Problem& p = p_.back();
      p.in = p_[0].in;
      if (n > 0 || s.rows < 2) continue;
      for (int k = 0; k < s.columns; ++k) p.in[static_cast<std::size_t>(s.columns + k)] *= 1e-30F;
    }
  }

  /// `folded`: in the launch of the product. `times`: one behind the other, in the same memory.
  Left run(bool folded, int times = 1) {
    cuda::RopeKvParams heads = rotations();
    cuda::MatMulQuantParams m[2];
    products(m, heads);
    unsigned* arrivals = keep(std::vector<unsigned>(counters()));
    if (folded) {
      REQUIRE(cuda::matmul_takes_heads(heads));
      for (cuda::MatMulQuantParams& one : m) {
        one.end.heads = heads;
        one.end.head_arrivals = arrivals;
      }
    }
    for (int n = 0; n < times; ++n) {
      REQUIRE((m[1].count > 0 ? launch_mixed(m[0], m[1], nullptr) : launch(m[0], nullptr)) == cudaSuccess);
      if (!folded) REQUIRE(launch(heads, nullptr) == cudaSuccess);
    }
    Left left;
    left.queries = from_device(heads.queries.out, queries());
    for (int side = 0; side < 2; ++side) left.caches[side] = from_device(heads.cache.sides[side].data, bytes_[side]);
    CHECK(from_device(arrivals, counters()) == std::vector<unsigned>(counters()));
    for (void* p : held_) cudaFree(p);
    held_.clear();
    return left;
  }

 private:
  static constexpr int pages_each = 5;

  template <class T>
  T* keep(const std::vector<T>& values) {
    T* p = to_device(values);
    held_.push_back(p);
    return p;
  }
  template <class T>
  static std::vector<T> from_device(const T* p, std::size_t count) {
    std::vector<T> out(count);
    REQUIRE(cudaMemcpy(out.data(), p, count * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess);
    return out;
  }
  std::size_t queries() const { return static_cast<std::size_t>(shape_.rows * shape_.heads * shape_.width); }
  std::size_t counters() const { return static_cast<std::size_t>(shape_.heads + 2 * shape_.kv_heads); }

  /// Each row is a token of a sequence of its own, the last of several rows fills the step up.
  cuda::RopeKvParams rotations() {
    const HeadsShape& s = shape_;
    std::vector<std::int32_t> positions, sequence_of, pages, pages_at;
    for (int r = 0; r < s.rows; ++r) {
      positions.push_back(s.rows > 2 && r + 1 == s.rows ? -1 : 3 + 5 * r % 77);
      sequence_of.push_back(r);
      pages_at.push_back(pages_each * r);
      for (int n = 0; n < pages_each; ++n) pages.push_back(pages_each * r + n);
    }
    std::shuffle(pages.begin(), pages.end(), std::mt19937(3));
    std::vector<float> frequencies, norms[2];
    for (int i = 0; i < s.pairs; ++i) {
      frequencies.push_back(std::pow(10000.0F, -static_cast<float>(i) / static_cast<float>(s.pairs)));
    }
    for (int i = 0; i < s.width; ++i) {
      norms[0].push_back(1.0F + 0.125F * static_cast<float>(i % 7));
      norms[1].push_back(0.5F + 0.25F * static_cast<float>(i % 5));
    }
    cuda::RopeKvParams p;
    p.queries.out = keep(std::vector<float>(queries(), std::nanf("")));
    p.queries.positions = keep(positions);
    p.queries.inverse_frequency = keep(frequencies);
    p.queries.rows = p.cache.tokens = s.rows;
    p.queries.heads = s.heads;
    p.queries.head_width = s.width;
    p.queries.pairs = s.pairs;
    p.queries.magnitude = 1.25F;
    p.queries.adjacent = s.adjacent;
    p.cache.heads = s.kv_heads;
    p.cache.step.positions = p.queries.positions;
    p.cache.step.sequence_of = keep(sequence_of);
    p.cache.step.pages = keep(pages);
    p.cache.step.pages_at = keep(pages_at);
    for (int side = 0; side < 2; ++side) {
      const KvType type = side == 0 ? s.keys_as : s.values_as;
      const int width = side == 0 ? s.width : s.value_width;
      const std::int64_t block = cuda::kv_block_bytes(type, width);
      bytes_[side] = static_cast<std::size_t>(block * s.kv_heads * pages_each * s.rows);
      p.cache.sides[side] = {keep(Bytes(bytes_[side], 0xcc)), block * s.kv_heads, 0, block, width, type};
    }
    if (s.norms) {
      p.query_norm = keep(norms[0]);
      p.key_norm = keep(norms[1]);
      p.eps = 1e-5F;
    }
    return p;
  }

  void products(cuda::MatMulQuantParams (&m)[2], cuda::RopeKvParams& heads) {
    cuda::FragmentsParams f;
    f.rows = shape_.rows;
    f.columns = shape_.columns;
    f.blocks = static_cast<std::int32_t>(cuda::fragment_blocks(f.columns));
    f.in = keep(p_[0].in);
    const auto halves = static_cast<std::size_t>(cuda::fragments_bytes(f.rows, f.blocks) / 2);
    f.fragments = keep(std::vector<std::uint16_t>(halves));
    f.rest = keep(std::vector<std::uint16_t>(halves));
    f.scales = keep(std::vector<float>(static_cast<std::size_t>(f.rows + 7) / 8 * 8));
    f.block_sums = keep(std::vector<float>(static_cast<std::size_t>(cuda::block_sum_floats(f.rows, f.blocks))));
    REQUIRE(launch(f, nullptr) == cudaSuccess);
    float* partials = keep(std::vector<float>(static_cast<std::size_t>(cuda::matmul_partial_floats(f.rows))));
    unsigned* shared = keep(std::vector<unsigned>(cuda::matmul_counters));
    for (cuda::MatMulQuantParams& one : m) {
      one.count = 0;
      one.fragments = f.fragments;
      one.rest = f.rest;
      one.row_scales = f.scales;
      one.block_sums = f.block_sums;
      one.rows = f.rows;
      one.in_blocks = f.blocks;
      if (shape_.shared) one.partials = partials;
      one.counters = shared;
    }
    for (std::size_t i = 0; i < 3; ++i) {
      const Repacked w(p_[i]);
      cuda::MatMulQuantParams& one = m[p_[i].shape.type == p_[0].shape.type ? 0 : 1];
      one.type = p_[i].shape.type;
      one.chunks = static_cast<std::int32_t>(w.layout.chunks);
      cuda::MatMulTarget& t = one.targets[one.count++];
      t.weight = reinterpret_cast<const std::uint8_t*>(keep(w.bytes));
      if (i != 1) t.bias = keep(p_[i].bias);
      t.columns_out = p_[i].shape.columns_out;
      t.out = keep(std::vector<float>(static_cast<std::size_t>(f.rows * t.columns_out), std::nanf("")));
      (i == 0 ? heads.queries.in : heads.cache.in[i - 1]) = t.out;
    }
  }

  HeadsShape shape_;
  std::vector<Problem> p_;
  std::vector<void*> held_;
  std::size_t bytes_[2] = {};
};

}  // namespace

TEST_CASE("the last blocks of a product do what is due to heads, with the bits of a launch of its own") {
  using W = WeightType;
  using K = KvType;
  const HeadsShape shapes[] = {
      {"64, halves", W::q4_0, W::q4_0, 3, 256, 4, 2, 64, 64, 32, K::f16, K::f16, false, false, false, true},
      {"80, part", W::q8_0, W::q8_0, 8, 512, 5, 1, 80, 80, 32, K::bf16, K::bf16, false, true, false, true},
      {"96 and 64", W::q4_1, W::q4_1, 2, 256, 3, 2, 96, 64, 48, K::q8_0, K::q4_0, true},
      {"128, mixed", W::q4_k, W::q6_k, 5, 512, 4, 2, 128, 128, 64, K::f16, K::q8_0, true, true, false, true},
      {"mixed, four warps", W::q3_k, W::q5_k, 8, 2304, 3, 1, 80, 80, 40, K::q4_0, K::f16, false, false, true},
      {"256, columns shared", W::q5_k, W::q5_k, 1, 2304, 2, 1, 256, 256, 128, K::q8_0, K::q8_0, false, true, true,
       true},
      {"many rows, 96", W::q2_k, W::q2_k, 11, 512, 6, 1, 96, 96, 48, K::q4_0, K::q4_0, false, true, false, true},
      {"many rows, columns shared", W::q6_k, W::q6_k, 16, 2304, 3, 1, 256, 256, 100, K::f32, K::f16, true, false, true},
      {"halves", W::f16, W::f16, 16, 128, 3, 1, 128, 128, 64, K::f32, K::f32, false, false, true},
      {"least heads", W::iq4_nl, W::iq4_nl, 9, 64, 40, 3, 16, 16, 8, K::f16, K::q8_0, false, true},
  };
  for (const HeadsShape& s : shapes) {
    INFO(s.name);
    HeadsProblem p(s);
    const Left apart = p.run(false);
    for (const Options& options : all_modes()) {
      simulated_device().options = options;
      CHECK(p.run(true) == apart);
      if (!s.all_modes) break;
    }
    simulated_device().options = {};
    CHECK(p.run(true, 2) == apart);  // counters are as they were
    no_findings();
  }
}

TEST_CASE("heads that a product does not take are refused") {
  cuda::RopeKvParams p;
  p.queries.rows = 16;
  p.queries.head_width = p.cache.sides[0].width = 64;
  p.cache.sides[1].width = 64;
  p.queries.pairs = 32;
  CHECK(cuda::matmul_takes_heads(p));
  p.queries.rows = 17;
  CHECK_FALSE(cuda::matmul_takes_heads(p));
  p.queries.rows = 1;
  p.cache.sides[1].width = 8;
  CHECK_FALSE(cuda::matmul_takes_heads(p));
  p.cache.sides[1].width = 64;
  p.queries.pairs = 33;
  CHECK_FALSE(cuda::matmul_takes_heads(p));
}

}  // namespace ptxsim::tests
