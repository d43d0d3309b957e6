// Kernels as nvcc makes them give what the same code gives on the host.
#include <cmath>

#include "catch.h"
#include "core/half.h"
#include "support.h"

namespace ptxsim::tests {
namespace {

class Shapes {
 public:
  LaunchResult run(const std::string& kernel, Dim3 grid, Dim3 block, const std::vector<std::byte>& args,
                   const Options& options = {}) {
    LaunchResult r = launch(module.kernels.find(kernel)->second, {grid, block, 0}, args, memory, tracker, options);
    for (const Finding& f : r.findings) FAIL_CHECK(name_of(f.check) << " " << f.source << " " << f.text);
    CHECK(r.completed);
    return r;
  }
  Module module = parse_module(read_file(PTXSIM_PTX_DIR "/shapes.ptx"));
  DeviceMemory memory;
  GlobalTracker tracker;

  Shapes() {
    for (const auto& [name, v] : module.variables) memory.add(v.bytes.get(), v.size);
  }
};

int collatz(int i) {
  int v = i + 1, steps = 0;
  while (v != 1) {
    v = v % 2 == 0 ? v / 2 : 3 * v + 1;
    ++steps;
  }
  const int by_case[] = {steps + 10, steps - 3, steps * 2, steps ^ 5, -steps, steps + i, steps};
  return by_case[i % 7];
}

}  // namespace

TEST_CASE("loops, divergence and switches") {
  Shapes s;
  std::vector<int> zero(300);
  for (const Options& o : all_modes()) {
    int* y = upload(s.memory, zero);
    s.run("collatz", {3, 1, 1}, {128, 1, 1}, parameters(y, 300), o);
    for (int i = 0; i < 300; ++i) REQUIRE(y[i] == collatz(i));
  }
}

TEST_CASE("reductions by shuffles and shared memory, with counts") {
  Shapes s;
  std::vector<float> x(1000, 0.5F);
  float* y = upload(s.memory, std::vector<float>(1));
  const LaunchResult r = s.run("sums", {1, 1, 1}, {256, 1, 1}, parameters(y, upload(s.memory, x), 1000));
  CHECK(y[0] == 500.0F);
  CHECK(r.counters.barriers == 8);
  CHECK(r.counters.global_bytes == 4 * 1001);
  CHECK(r.counters.unique_sectors == 125 + 1);
  CHECK(r.counters.global_loads >= 32);
  CHECK(r.counters.global_loads < 40);  // the last warp's lanes part near the end
  CHECK(r.counters.global_stores == 1);
  REQUIRE_FALSE(r.counters.lines.empty());
  CHECK(r.counters.lines.front().source.find("shapes.cu:") == 0);
}

TEST_CASE("math functions and conversions") {
  Shapes s;
  std::vector<float> x;
  for (int i = 0; i < 32; ++i) x.push_back(static_cast<float>(i - 16) * 0.37F);
  float* y = upload(s.memory, std::vector<float>(32 * 12));
  s.run("functions", {1, 1, 1}, {32, 1, 1}, parameters(y, upload(s.memory, x), 32));
  for (std::size_t i = 0; i < 32; ++i) {
    const float v = x[i];
    const float* out = y + 12 * i;
    INFO(v);
    CHECK(out[0] == Approx(std::exp(v)).epsilon(1e-6));
    CHECK(out[1] == Approx(std::tanh(v)).epsilon(1e-5));
    CHECK(out[2] == Approx(1 / std::sqrt(std::abs(v) + 1)).epsilon(1e-6));
    CHECK(out[3] == std::sqrt(std::abs(v)));
    CHECK(out[4] == Approx(std::log(std::abs(v) + 1)).epsilon(1e-6).margin(1e-7));
    CHECK(out[5] == 1 / (v * v + 1));
    CHECK(out[6] == std::nearbyint(v * 10));
    CHECK(out[7] == llminfer::core::f16_to_f32(llminfer::core::f32_to_f16(v)));
    CHECK(out[8] == llminfer::core::bf16_to_f32(llminfer::core::f32_to_bf16(v)));
    CHECK(out[9] == std::trunc(v * 100));
    CHECK(out[10] == static_cast<float>(static_cast<double>(v) / 3));
    CHECK(out[11] == std::fma(v, v, -v));
  }
}

TEST_CASE("ldmatrix and mma") {
  Shapes s;
  std::vector<std::uint16_t> a, b;
  for (int i = 0; i < 256; ++i) a.push_back(llminfer::core::f32_to_f16(static_cast<float>(i * 37 % 101 - 50) / 16));
  for (int i = 0; i < 128; ++i) b.push_back(llminfer::core::f32_to_f16(static_cast<float>(i * 53 % 89 - 44) / 16));
  float* c = upload(s.memory, std::vector<float>(128));
  float* c_trans = upload(s.memory, std::vector<float>(128));
  const LaunchResult r =
      s.run("tile", {1, 1, 1}, {32, 1, 1}, parameters(c, c_trans, upload(s.memory, a), upload(s.memory, b)));
  CHECK(r.counters.mma == 2);
  CHECK(r.counters.flops == 2 * 2 * 16 * 8 * 16);
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 8; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < 16; ++k) {
        sum += llminfer::core::f16_to_f32(a[i * 16 + k]) * llminfer::core::f16_to_f32(b[j * 16 + k]);
      }
      CHECK(c[i * 8 + j] == sum);
      CHECK(c_trans[i * 8 + j] == sum);
    }
  }
}

TEST_CASE("movmatrix") {
  Shapes s;
  std::vector<std::uint16_t> x;
  for (std::uint16_t i = 0; i < 64; ++i) x.push_back(static_cast<std::uint16_t>(1000 + i));
  auto* y = upload(s.memory, std::vector<std::uint16_t>(64));
  s.run("turned", {1, 1, 1}, {32, 1, 1}, parameters(y, upload(s.memory, x)));
  for (std::size_t i = 0; i < 64; ++i) CHECK(y[i] == x[i % 8 * 8 + i / 8]);
}

TEST_CASE("local memory and tables") {
  Shapes s;
  int* y = upload(s.memory, std::vector<int>(64));
  s.run("tables", {1, 1, 1}, {64, 1, 1}, parameters(y, 3));
  constexpr int powers[6] = {1, 3, 9, 27, 81, 243};
  for (int t = 0; t < 64; ++t) CHECK(y[t] == powers[((t + 3) % 8 + 3) % 6] + t);
}

}  // namespace ptxsim::tests
