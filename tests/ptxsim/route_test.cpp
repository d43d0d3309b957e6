// The choice of experts by the launch that makes the router's logits: what a launch of its own behind the product
// chooses, and in the order that logits have.
#include <algorithm>
#include <numeric>

#include "f32_problem.h"

namespace ptxsim::tests {
namespace {

constexpr int rows = 11, columns = 72, used = 5;

struct Router {
  int experts = 0;
  cuda::RouteGating gating = cuda::RouteGating::softmax;
  bool bias = false;  ///< of the choice
};

/// What a choice leaves: ids and weights, and rows by their experts.
struct Choice {
  std::vector<float> out{};
  std::vector<std::int32_t> sorted{};

  /// Weights to their last bits but two: both kernels are compiled on their own.
  bool like(const Choice& other) const {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const float a = out[i], b = other.out[i], off = i / used % 2 == 0 ? 0.0F : 1e-6F * std::abs(b);
      if (std::isnan(a) != std::isnan(b) || std::abs(a - b) > off) return false;
    }
    return sorted == other.sorted;
  }
};

template <class T>
std::vector<T> from_device(const void* p, std::size_t count) {
  std::vector<T> v(count);
  REQUIRE(cudaMemcpy(v.data(), p, sizeof(T) * count, cudaMemcpyDeviceToHost) == cudaSuccess);
  return v;
}

/// Experts 7 and 3, and all behind the 30th, have what another has; logits are far enough apart else.
Problem problem_of(const Router& r, bool no_numbers) {
  Problem p({WeightType::f32, rows, columns, r.experts});
  const auto copy = [&](int to, int from) {
    std::copy_n(p.weights.begin() + from * columns, columns, p.weights.begin() + to * columns);
    p.bias[static_cast<std::size_t>(to)] = p.bias[static_cast<std::size_t>(from)];
  };
  copy(7, 3);
  for (int e = 30; e < r.experts; ++e) copy(e, e % 30);
  if (no_numbers) {
    p.weights[4 * columns + 1] = NAN;  // an expert's logits
    p.in[2 * columns + 5] = NAN;       // all of a row
  }
  return p;
}

/// `together`: in one launch.
Choice choose(const Router& r, const Problem& p, bool together, std::vector<float>* logits = nullptr) {
  cuda::MatMulF32Params m;
  m.weight = to_device(p.weights);
  m.in = to_device(p.in);
  m.bias = to_device(p.bias);
  m.rows = rows;
  m.columns_in = columns;
  m.columns_out = r.experts;
  m.out = to_device(std::vector<float>(static_cast<std::size_t>(rows * r.experts)));
  std::vector<float> bias;
  for (int e = 0; e < r.experts; ++e) bias.push_back(0.01F * static_cast<float>(e * 7 % 5));
  cuda::RouteParams route;
  route.in = m.out;
  if (r.bias) route.bias = to_device(bias);
  route.out = to_device(std::vector<float>(rows * 2 * used));
  route.sorted.count = static_cast<std::int32_t>(cuda::expert_tiles(rows, used, r.experts));
  const auto tiles = static_cast<std::size_t>(route.sorted.count);
  route.sorted.tiles = to_device(std::vector<cuda::ExpertTile>(tiles));
  route.sorted.rows = to_device(std::vector<std::int32_t>(8 * tiles));
  route.sorted.tokens = to_device(std::vector<std::int32_t>(8 * tiles));
  route.arrivals = to_device(std::vector<unsigned>(1));
  route.rows = rows;
  route.experts = r.experts;
  route.used = used;
  route.gating = r.gating;
  route.normalize = r.bias;
  if (together) {
    m.route = route;
    m.arrivals = to_device(std::vector<unsigned>(8));
  }
  REQUIRE(launch(m, nullptr) == cudaSuccess);
  if (!together) REQUIRE(launch(route, nullptr) == cudaSuccess);
  if (logits != nullptr) *logits = from_device<float>(m.out, static_cast<std::size_t>(rows * r.experts));
  Choice c{from_device<float>(route.out, rows * 2 * used), from_device<std::int32_t>(route.sorted.tiles, 2 * tiles)};
  for (const std::int32_t* more : {route.sorted.rows, route.sorted.tokens}) {
    const auto v = from_device<std::int32_t>(more, 8 * tiles);
    c.sorted.insert(c.sorted.end(), v.begin(), v.end());
  }
  return c;
}

}  // namespace

TEST_CASE("experts that the router's launch chooses are those of a launch of its own") {
  for (const int experts : {33, 300}) {  // more than are copied to shared memory
    for (const auto gating :
         {cuda::RouteGating::softmax, cuda::RouteGating::sigmoid, cuda::RouteGating::softmax_selected}) {
      for (const bool bias : {false, true}) {
        for (const bool no_numbers : {false, true}) {
          const Router r{experts, gating, bias};
          INFO(experts << " experts, gating " << static_cast<int>(gating) << (bias ? ", bias" : "")
                       << (no_numbers ? ", no numbers" : ""));
          const Problem p = problem_of(r, no_numbers);
          const Choice apart = choose(r, p, false), together = choose(r, p, true);
          CHECK(together.like(apart));
          for (int i = 0; i < rows * used; ++i) {
            const float id = together.out[static_cast<std::size_t>(i / used * 2 * used + i % used)];
            CHECK((id >= 0 && id < static_cast<float>(experts)));
          }
        }
      }
    }
  }
  no_findings();
}

TEST_CASE("experts with equal logits are chosen by their number, and logits that are no numbers come last") {
  for (const int experts : {33, 300}) {
    for (const bool no_numbers : {false, true}) {
      INFO(experts << " experts" << (no_numbers ? ", no numbers" : ""));
      const Router r{experts};
      std::vector<float> logits;
      const Choice c = choose(r, problem_of(r, no_numbers), true, &logits);
      for (int row = 0; row < rows; ++row) {
        if (no_numbers && row == 2) continue;
        const float* of = logits.data() + static_cast<std::ptrdiff_t>(row) * experts;
        std::vector<int> order(static_cast<std::size_t>(experts));
        std::iota(order.begin(), order.end(), 0);
        std::erase_if(order, [&](int e) { return std::isnan(of[e]); });
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return of[a] > of[b]; });
        for (int s = 0; s < used; ++s) {
          CHECK(c.out[static_cast<std::size_t>(row * 2 * used + s)] ==
                static_cast<float>(order[static_cast<std::size_t>(s)]));
        }
      }
    }
  }
  no_findings();
}

}  // namespace ptxsim::tests
