// Elementary functions and row kernels: accuracy against <cmath>, equal bits on every instruction set.
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "catch.h"
#include "device/cpu/angles.h"
#include "device/cpu/kernels.h"

namespace llminfer::cpu::test {
namespace {

std::vector<float> grid(float low, float high, std::size_t n) {
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = low + (high - low) * static_cast<float>(i) / static_cast<float>(n - 1);
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

const Kernels& portable() {
  static const Kernels kernels = choose_kernels("portable");
  return kernels;
}
const Kernels& best() {
  static const Kernels kernels = choose_kernels("auto");
  return kernels;
}

TEST_CASE("exponential: relative error below 3e-7, zero far below, equal bits") {
  const std::vector<float> x = grid(-87.0F, 0.0F, 100003);
  std::vector<float> a(x.size()), b(x.size());
  const float sum_a = portable().exponentials(x.data(), a.data(), static_cast<std::int64_t>(x.size()), 0.0F);
  const float sum_b = best().exponentials(x.data(), b.data(), static_cast<std::int64_t>(x.size()), 0.0F);
  REQUIRE(same_bits(a, b));
  REQUIRE(sum_a == sum_b);
  double worst = 0;
  // The product x * log2(e) is rounded: an error that grows with |x|.
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    worst = std::max(worst, std::fabs(a[i] - exact) / exact / (3e-7 + std::fabs(x[i]) * 1e-7));
  }
  REQUIRE(worst < 1.0);
  const float extremes[4] = {-INFINITY, -1000.0F, NAN, 0.0F};
  float out[4];
  best().exponentials(extremes, out, 4, 0.0F);
  REQUIRE(out[0] == 0.0F);
  REQUIRE(out[1] == 0.0F);
  REQUIRE(std::isnan(out[2]));
  REQUIRE(out[3] == 1.0F);
}

TEST_CASE("activations: absolute error below 3e-7 of 1 + |x|, equal bits, odd lengths") {
  for (std::size_t n : {1, 7, 8, 9, 100001}) {
    const std::vector<float> g = grid(-30.0F, 30.0F, n + 1);
    const std::vector<float> u(n, 1.0F);
    std::vector<float> a(n), b(n);
    const std::int64_t count = static_cast<std::int64_t>(n);
    const auto check = [&](const char* name, auto exact, double limit = 3e-7) {
      INFO(name);
      REQUIRE(same_bits(a, b));
      double worst = 0;
      for (std::size_t i = 0; i < n; ++i) {
        worst = std::max(worst, std::fabs(a[i] - exact(static_cast<double>(g[i]))) / (1.0 + std::fabs(g[i])));
      }
      REQUIRE(worst < limit);
    };
    portable().silu(g.data(), u.data(), a.data(), count);
    best().silu(g.data(), u.data(), b.data(), count);
    check("silu", [](double x) { return x / (1 + std::exp(-x)); });
    portable().gelu_tanh(g.data(), u.data(), a.data(), count);
    best().gelu_tanh(g.data(), u.data(), b.data(), count);
    check("gelu_tanh", [](double x) {
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979324) * (x + 0.044715 * x * x * x)));
    });
    portable().swiglu_clip(g.data(), u.data(), a.data(), count, 1.702F, 7.0F);
    best().swiglu_clip(g.data(), u.data(), b.data(), count, 1.702F, 7.0F);
    check("swiglu_clip", [](double x) {
      const double c = std::min(x, 7.0);
      return c / (1 + std::exp(-static_cast<double>(1.702F) * c)) * 2.0;
    });
    portable().softcap(g.data(), a.data(), count, 5.0F);
    best().softcap(g.data(), b.data(), count, 5.0F);
    check(
        "softcap", [](double x) { return 5 * std::tanh(x / 5); }, 5 * 2e-7);
  }
}

TEST_CASE("norms against double arithmetic, any width, equal bits") {
  std::mt19937 random(31);
  std::normal_distribution<float> normal(0.3F, 2.0F);
  for (std::size_t n : {1, 5, 8, 31, 64, 576, 1001}) {
    std::vector<float> x(n), w(n), bias(n), a(n), b(n);
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = normal(random);
      w[i] = normal(random);
      bias[i] = normal(random);
    }
    double squares = 0, mean = 0, variance = 0;
    for (float v : x) squares += static_cast<double>(v) * v;
    for (float v : x) mean += v / static_cast<double>(n);
    for (float v : x) variance += (v - mean) * (v - mean) / static_cast<double>(n);
    const std::int64_t count = static_cast<std::int64_t>(n);
    portable().rms_norm(x.data(), w.data(), a.data(), count, 1e-5F);
    best().rms_norm(x.data(), w.data(), b.data(), count, 1e-5F);
    REQUIRE(same_bits(a, b));
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
    for (std::size_t i = 0; i < n; ++i) REQUIRE(a[i] == Approx(x[i] * inverse * w[i]).epsilon(2e-6).margin(1e-6));
    portable().layer_norm(x.data(), w.data(), bias.data(), a.data(), count, 1e-5F);
    best().layer_norm(x.data(), w.data(), bias.data(), b.data(), count, 1e-5F);
    REQUIRE(same_bits(a, b));
    for (std::size_t i = 0; i < n; ++i) {
      const double exact = (x[i] - mean) / std::sqrt(variance + 1e-5) * w[i] + bias[i];
      REQUIRE(a[i] == Approx(exact).epsilon(1e-5).margin(1e-4));
    }
  }
}

TEST_CASE("rotary angles: error below 1e-6 up to position 1,000,000") {
  std::vector<float> frequency;
  for (int i = 0; i < 64; ++i) frequency.push_back(static_cast<float>(std::pow(500000.0, -i / 64.0)));
  std::vector<float> cosine(64), sine(64);
  for (std::int32_t position : {0, 1, 2, 17, 1000, 8191, 131071, 1000000}) {
    rope_angles(position, frequency, 1.0F, cosine.data(), sine.data());
    for (std::size_t i = 0; i < 64; ++i) {
      const double angle = static_cast<double>(position) * static_cast<double>(frequency[i]);
      REQUIRE(std::fabs(cosine[i] - std::cos(angle)) < 1e-7);
      REQUIRE(std::fabs(sine[i] - std::sin(angle)) < 1e-7);
    }
  }
}

}  // namespace
}  // namespace llminfer::cpu::test
