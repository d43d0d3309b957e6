// Dense products by cuBLAS, of which there is a stand-in: opening, what a product hands over, what happens when it
// fails, and which steps of a program take it.
#include <dlfcn.h>

#include <cmath>
#include <cstring>
#include <random>

#include "catch.h"
#include "core/half.h"
#include "cublas/stand_in.h"
#include "host/cuda_backend.h"
#include "host/dense_gemm.h"
#include "host/program.h"
#include "ops/cases/case_builder.h"
#include "ops/cases/run_case.h"
#include "runtime/device.h"
#include "runtime/state.h"
#include "support/relative_difference.h"

namespace ptxsim::tests {
namespace {

using namespace llminfer;  // NOLINT(google-build-using-namespace): a test
using cuda::DenseGemm;
using cuda::DenseProduct;

/// All but the handles that are still there.
void forget() {
  const int handles = simulated_cublas().handles;
  simulated_cublas() = {};
  simulated_cublas().handles = handles;
}

void all_well() {
  for (const Finding& f : simulated_device().findings) FAIL_CHECK(name_of(f.check) << " " << f.source << " " << f.text);
  for (const std::string& what : simulated_cublas().complaints) FAIL_CHECK(what);
  CHECK(simulated_cublas().in_default_workspace == 0);
  simulated_device().findings.clear();
  forget();
}

template <class T>
T* on_device(const std::vector<T>& values) {
  void* p = nullptr;
  REQUIRE(cudaMalloc(&p, values.size() * sizeof(T)) == cudaSuccess);
  REQUIRE(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess);
  return static_cast<T*>(p);
}
template <class T>
std::vector<T> from_device(const T* p, std::size_t count) {
  std::vector<T> out(count);
  REQUIRE(cudaMemcpy(out.data(), p, count * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess);
  return out;
}

/// Small whole numbers, which every format has and of which sums are exact.
std::vector<float> whole_numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> v(count);
  for (float& x : v) x = static_cast<float>(static_cast<int>(random() % 17) - 8);
  return v;
}

/// The values in a format, on the device.
const void* in_format(WeightType type, const std::vector<float>& values) {
  if (type == WeightType::f32) return on_device(values);
  std::vector<std::uint16_t> halves;
  for (const float v : values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &v, sizeof(bits));
    halves.push_back(type == WeightType::f16 ? core::f32_to_f16(v) : static_cast<std::uint16_t>(bits >> 16));
  }
  return on_device(halves);
}

std::string note_of(std::vector<std::string> names) {
  DenseGemm gemm(std::move(names));
  gemm.open(nullptr);
  CHECK_FALSE(gemm.ready());
  CHECK_FALSE(gemm.run({}, nullptr, 0));
  return gemm.note();
}

}  // namespace

TEST_CASE("the stand-in's matrices go column by column, as in cuBLAS's documentation") {
  // A of 2 x 3, B of 3 x 2; C in a place of three rows, of which the last is not touched.
  //   A = 1 2 3    B = 1 0    A B = 10 11
  //       4 5 6        0 1          22 23   (first column: 1 + 3 * 3, 4 + 3 * 6)
  //                    3 3
  using Create = int (*)(void**);
  using Gemm = int (*)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int,
                       const void*, void*, int, int, int, int);
  void* library = dlopen(stand_in_cublas(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  void* handle = nullptr;
  REQUIRE(reinterpret_cast<Create>(dlsym(library, "cublasCreate_v2"))(&handle) == 0);
  const auto gemm = reinterpret_cast<Gemm>(dlsym(library, "cublasGemmEx"));
  const float* a = on_device<float>({1, 4, 2, 5, 3, 6});
  const float* a_rows = on_device<float>({1, 2, 3, 4, 5, 6});
  const float* b = on_device<float>({1, 0, 3, 0, 1, 3});
  float* c = on_device<float>({-1, -1, -1, -1, -1, -1});
  const float one = 1, zero = 0;
  constexpr int n = 0, t = 1, f32 = 0, in_floats = 68, any = -1;
  REQUIRE(gemm(handle, n, n, 2, 2, 3, &one, a, f32, 2, b, f32, 3, &zero, c, f32, 3, in_floats, any) == 0);
  CHECK(from_device(c, 6) == std::vector<float>{10, 22, -1, 11, 23, -1});
  // Row by row, A is a matrix of 3 x 2 column by column: its transposition is A again. Added to what is there.
  REQUIRE(gemm(handle, t, n, 2, 2, 3, &one, a_rows, f32, 3, b, f32, 3, &one, c, f32, 3, in_floats, any) == 0);
  CHECK(from_device(c, 6) == std::vector<float>{20, 44, -1, 22, 46, -1});
  CHECK(simulated_cublas().in_default_workspace == 2);
  // Leading dimensions that are too small are refused.
  CHECK(gemm(handle, t, n, 2, 2, 3, &one, a_rows, f32, 2, b, f32, 3, &one, c, f32, 3, in_floats, any) == 7);
  CHECK(gemm(handle, n, n, 2, 2, 3, &one, a, f32, 2, b, f32, 2, &one, c, f32, 3, in_floats, any) == 7);
  CHECK(gemm(handle, n, n, 2, 2, 3, &one, a, f32, 2, b, f32, 3, &one, c, f32, 1, in_floats, any) == 7);
  reinterpret_cast<int (*)(void*)>(dlsym(library, "cublasDestroy_v2"))(handle);
  CHECK(simulated_cublas().handles == 0);
  forget();
}

TEST_CASE("dense products of all float formats") {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 4096) == cudaSuccess);
  constexpr int rows = 5, columns_in = 7, columns_out = 3;
  const std::vector<float> in = whole_numbers(rows * columns_in, 1), w = whole_numbers(columns_out * columns_in, 2);
  for (const WeightType type : {WeightType::f32, WeightType::f16, WeightType::bf16}) {
    DenseGemm gemm({"no such library", stand_in_cublas()});
    CHECK(gemm.note().empty());
    gemm.open(stream);
    gemm.open(stream);  // once
    REQUIRE(gemm.ready());
    CHECK(gemm.note() == "cuBLAS 13.2.3");
    CHECK(simulated_cublas().handles == 1);
    for (const bool add : {false, true}) {
      const float before = add ? 100.0F : std::nanf("");
      float* out = on_device(std::vector<float>(rows * columns_out, before));
      const DenseProduct p{in_format(type, w), in_format(type, in), out, rows, columns_in, columns_out, type, add};
      REQUIRE(gemm.run(p, memory, 4096));
      std::vector<float> expected;
      for (int r = 0; r < rows; ++r) {
        for (int j = 0; j < columns_out; ++j) {
          float sum = add ? 100.0F : 0.0F;
          for (int k = 0; k < columns_in; ++k) {
            sum += in[static_cast<std::size_t>(r * columns_in + k)] * w[static_cast<std::size_t>(j * columns_in + k)];
          }
          expected.push_back(sum);
        }
      }
      CHECK(from_device(out, expected.size()) == expected);
      CHECK(simulated_cublas().workspace == memory);
      CHECK(simulated_cublas().workspace_bytes == 4096);
      CHECK(simulated_cublas().stream == stream);
      CHECK(simulated_cublas().math_mode == 0);
    }
    gemm.close();
    CHECK_FALSE(gemm.ready());
    CHECK(simulated_cublas().handles == 0);
  }
  cudaFree(memory);
  cudaStreamDestroy(stream);
  all_well();
}

TEST_CASE("without a library that works there are no dense products, and a note says why") {
  CHECK(note_of({}).empty());
  const std::string absent = note_of({"none.so", "/nowhere/none.so"});  // in the dynamic linker's words
  CHECK(absent.find("no cuBLAS: none.so: ") == 0);
  CHECK(absent.find(", /nowhere/none.so: ") != std::string::npos);
  CHECK(note_of({incomplete_cublas()}) == "no cuBLAS: " + std::string(incomplete_cublas()) + " has no cublasGemmEx");
  simulated_cublas().create_status = 1;
  CHECK(note_of({stand_in_cublas()}) == "no cuBLAS: cublasCreate failed with status 1");
  all_well();
}

namespace {

/// A product with weights of 32 bits and a bias, at any shape of step.
op_cases::OpCase product(bool bias, std::int32_t columns = 72) {
  op_cases::CaseBuilder b("dense");
  const backend::ValueId in = b.input(columns, 64);
  const backend::WeightId weight = b.weight(WeightType::f32, columns, 33, 1, 0.1);
  const backend::WeightId of_bias = bias ? b.vector(33, 0.0, 1.0) : backend::none;
  const backend::ValueId out = b.add(backend::MatMul{in, weight, of_bias, backend::none}, in, 33);
  b.step(20);
  return b.finish(out, 1e-4);
}

/// `sequences` of `count` tokens each.
op_cases::CaseStep step_of(std::int32_t sequences, std::int32_t count) {
  op_cases::CaseStep s;
  for (std::int32_t i = 0; i < sequences; ++i) s.parts.push_back({i, 0, count});
  for (std::int32_t i = 0; i < sequences * count; ++i) {
    s.tokens.push_back(i % 64);
    s.output_rows.push_back(i);
  }
  return s;
}

std::vector<float> run(op_cases::CaseRun& on, const op_cases::CaseStep& step) {
  const auto result = on.step(step);
  REQUIRE(result);
  return result->values;
}

/// The case with steps of all shapes that the tests want, so that its limits allow them.
op_cases::OpCase with_steps(op_cases::OpCase c) {
  c.steps = {step_of(1, 20), step_of(20, 1), step_of(1, 16), step_of(3, 9)};
  return c;
}

}  // namespace

TEST_CASE("prompts take cuBLAS in memory of the workspace, steps of single tokens do not") {
  const auto with = cuda::make_cuda_backend(0, {stand_in_cublas()}), without = cuda::make_cuda_backend(0);
  for (const bool bias : {false, true}) {
    INFO("bias " << bias);
    const op_cases::OpCase c = with_steps(product(bias));
    CHECK(with->info().notes == (bias ? "cuBLAS 13.2.3" : ""));
    auto theirs = op_cases::CaseRun::open(*with, c).value(), ours = op_cases::CaseRun::open(*without, c).value();
    CHECK(with->info().notes == "cuBLAS 13.2.3");
    CHECK(without->info().notes.empty());
    CHECK(simulated_cublas().products == 0);
    const auto& space = dynamic_cast<const cuda::CudaWorkspace&>(theirs.workspace());
    const CallCounts before = simulated_device().calls;
    // One sequence of 20 tokens, three of 9.
    for (const std::size_t i : {0U, 3U}) {
      const std::vector<float> out = run(theirs, c.steps[i]), own = run(ours, c.steps[i]);
      CHECK(llminfer::test::relative_difference(out, own) < 1e-6);
      CHECK(out != own);  // sums of another kind
    }
    CHECK(simulated_cublas().products == 2);
    const auto* memory = static_cast<const std::uint8_t*>(simulated_cublas().workspace);
    CHECK(memory >= space.memory.data());
    CHECK(memory + simulated_cublas().workspace_bytes <= space.memory.data() + space.memory.size());
    // 20 sequences of a token each, and 16 tokens.
    for (const std::size_t i : {1U, 2U}) CHECK(run(theirs, c.steps[i]) == run(ours, c.steps[i]));
    CHECK(simulated_cublas().products == 2);
    CHECK(simulated_device().calls.allocations == before.allocations);
    simulated_cublas().products = 0;
  }
  all_well();
}

TEST_CASE("no step is large enough, or no weight has floats: nothing is opened") {
  const auto device = cuda::make_cuda_backend(0, {stand_in_cublas()});
  op_cases::OpCase few = product(true);
  few.steps = {step_of(1, 16)};
  auto run = op_cases::CaseRun::open(*device, few).value();
  CHECK(device->info().notes.empty());
  CHECK(simulated_cublas().handles == 0);
  all_well();
}

TEST_CASE("a product that fails is made by our kernel, and so are those that follow") {
  const auto with = cuda::make_cuda_backend(0, {stand_in_cublas()}), without = cuda::make_cuda_backend(0);
  for (const std::int32_t columns : {72, 71}) {
    const op_cases::OpCase c = with_steps(product(true, columns));
    auto theirs = op_cases::CaseRun::open(*with, c).value(), ours = op_cases::CaseRun::open(*without, c).value();
    if (columns == 72) run(theirs, c.steps[0]);
    simulated_cublas().product_status = 14;
    CHECK(run(theirs, c.steps[0]) == run(ours, c.steps[0]));
    CHECK(with->info().notes == "no cuBLAS: a product of cuBLAS 13.2.3 failed with status 14");
    simulated_cublas().product_status = 0;
    CHECK(run(theirs, c.steps[3]) == run(ours, c.steps[3]));
    CHECK(simulated_cublas().products == 1);
  }
  all_well();
}

TEST_CASE("a device that is lost in a product is told as such") {
  const auto device = cuda::make_cuda_backend(0, {stand_in_cublas()});
  const op_cases::OpCase c = with_steps(product(true));
  auto run = op_cases::CaseRun::open(*device, c).value();
  // The launch ahead of the product goes well, the product does not.
  simulated_cublas().lose_device = true;
  const auto result = run.step(c.steps[0]);
  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::device_lost);
  simulated_device().lost = false;
  runtime::state().sticky = runtime::state().last = cudaSuccess;
  forget();
}

TEST_CASE("the memory of dense products is in the plan where cuBLAS is") {
  const op_cases::OpCase c = with_steps(product(true));
  const auto more_for_prompts = [&](std::vector<std::string> cublas) {
    const auto device = cuda::make_cuda_backend(0, std::move(cublas));
    const auto workspace = [&](std::int32_t tokens) {
      return device->plan(*c.graph, {tokens, 1, 1}, c.kv).value().workspace;
    };
    return workspace(17) - workspace(16);
  };
  const std::uint64_t with = more_for_prompts({stand_in_cublas()});
  CHECK(with >= cuda::dense_gemm_bytes);
  CHECK(with < cuda::dense_gemm_bytes + 4096);
  CHECK(more_for_prompts({}) < 4096);
  CHECK(more_for_prompts({"none.so"}) < 4096);
  forget();
}

}  // namespace ptxsim::tests
