#include "host/dense_gemm.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <utility>

namespace llminfer::cuda {
namespace {

// Of cublas_api.h and library_types.h, which not every toolkit brings along.
constexpr int success = 0;
constexpr int not_transposed = 0, transposed = 1;
constexpr int r_32f = 0, r_16f = 2, r_16bf = 14;
constexpr int compute_32f = 68;  // sums, and products of floats, in floats
constexpr int default_math = 0;
constexpr int default_algorithm = -1;

constexpr int type_of(WeightType type) noexcept {
  return type == WeightType::f16 ? r_16f : type == WeightType::bf16 ? r_16bf : r_32f;
}

}  // namespace

std::vector<std::string> cublas_names() { return {"libcublas.so.13", "libcublas.so.12"}; }

/// Finds all functions of a library. What is wrong, or empty.
std::string DenseGemm::load(const std::string& name) {
  // What the library leaves behind (threads, handlers at exit) must not lose its code.
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* why = dlerror();
    return why != nullptr ? why : name;
  }
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* symbol) {
    void* address = dlsym(library, symbol);
    if (address == nullptr) missing = symbol;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
  find(functions_.create, "cublasCreate_v2");
  find(functions_.destroy, "cublasDestroy_v2");
  find(functions_.get_version, "cublasGetVersion_v2");
  find(functions_.set_stream, "cublasSetStream_v2");
  find(functions_.set_workspace, "cublasSetWorkspace_v2");
  find(functions_.set_math_mode, "cublasSetMathMode");
  find(functions_.gemm, "cublasGemmEx");
  dlclose(library);  // one reference less; RTLD_NODELETE keeps it
  return missing == nullptr ? std::string() : fmt::format("{} has no {}", name, missing);
}

/// A handle on the stream. What is wrong, or empty.
std::string DenseGemm::start(cudaStream_t stream) {
  const auto failed = [](const char* call, int status) {
    return fmt::format("{} failed with status {}", call, status);
  };
  if (const int s = functions_.create(&handle_); s != success) {
    handle_ = nullptr;
    return failed("cublasCreate", s);
  }
  if (const int s = functions_.set_stream(handle_, stream); s != success) return failed("cublasSetStream", s);
  if (const int s = functions_.set_math_mode(handle_, default_math); s != success)
    return failed("cublasSetMathMode", s);
  int version = 0;
  if (const int s = functions_.get_version(handle_, &version); s != success) return failed("cublasGetVersion", s);
  note_ = fmt::format("cuBLAS {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  return {};
}

void DenseGemm::open(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  if (state_.load() != State::untried || names_.empty()) return;
  std::string all;
  for (const std::string& name : names_) {
    release();
    std::string wrong = load(name);
    if (wrong.empty()) wrong = start(stream);
    if (wrong.empty()) return state_.store(State::ready, std::memory_order_release);
    all += (all.empty() ? "" : ", ") + wrong;
  }
  release();
  note_ = "no cuBLAS: " + all;
  state_.store(State::absent, std::memory_order_release);
}

void DenseGemm::release() noexcept {
  if (handle_ != nullptr) static_cast<void>(functions_.destroy(handle_));
  handle_ = nullptr;
}

void DenseGemm::close() noexcept {
  release();
  state_.store(State::absent);
}

void DenseGemm::forget() noexcept {
  handle_ = nullptr;
  state_.store(State::absent);
}

bool DenseGemm::run(const DenseProduct& p, void* memory, std::uint64_t bytes) noexcept {
  if (!ready()) return false;
  // The library's matrices go column by column. So the weights are [columns_in x columns_out] there, taken transposed;
  // the rows of activations are columns of columns_in values, those of the result of columns_out.
  const float alpha = 1, beta = p.add ? 1 : 0;
  const int type = type_of(p.type);
  // Memory of ours: nothing is allocated, and each time the same is chosen for a shape.
  int status = functions_.set_workspace(handle_, memory, bytes);
  if (status == success) {
    status = functions_.gemm(handle_, transposed, not_transposed, p.columns_out, p.rows, p.columns_in, &alpha, p.weight,
                             type, p.columns_in, p.in, type, p.columns_in, &beta, p.out, r_32f, p.columns_out,
                             compute_32f, default_algorithm);
  }
  if (status == success) return true;
  failed_.store(status);
  state_.store(State::failed, std::memory_order_release);
  return false;
}

std::string DenseGemm::note() const {
  const std::lock_guard lock(mutex_);
  if (state_.load() != State::failed) return note_;
  return fmt::format("no cuBLAS: a product of {} failed with status {}", note_, failed_.load());
}

}  // namespace llminfer::cuda
