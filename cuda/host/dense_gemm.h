// Products of plain rows by cuBLAS, which is opened at run time: nothing links it, and no other file knows it.
#pragma once

#include <cuda_runtime_api.h>

#include <llminfer/weight_type.hpp>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace llminfer::cuda {

/// Names that the dynamic linker knows the library by, the best first: what to open on a GPU.
std::vector<std::string> cublas_names();

/// out[r][j] = sum_k in[r][k] * weight[j][k], added to what stands there if `add`. Sums are floats, and so are products
/// of floats: no shorter formats take their place.
struct DenseProduct {
  const void* weight = nullptr;  ///< [columns_out x columns_in] of `type`
  const void* in = nullptr;      ///< [rows x columns_in] of `type`
  float* out = nullptr;          ///< [rows x columns_out]
  std::int32_t rows = 0;
  std::int32_t columns_in = 0;
  std::int32_t columns_out = 0;
  WeightType type = WeightType::f32;  ///< f32, f16 or bf16
  bool add = false;
};

/// Of the memory that a product may use as it likes, which begins at a multiple of 256: as much as cuBLAS's
/// documentation advises for compute capability 9.0, more than for 8.x.
constexpr std::uint64_t dense_gemm_bytes = std::uint64_t{32} << 20;

/// One handle of cuBLAS on one stream, or the reason why there is none.
class DenseGemm {
 public:
  /// Opens nothing. `names`: of files, or names that the dynamic linker finds; empty: never.
  explicit DenseGemm(std::vector<std::string> names) : names_(std::move(names)) {}
  DenseGemm(const DenseGemm&) = delete;
  DenseGemm& operator=(const DenseGemm&) = delete;
  ~DenseGemm() { close(); }

  /// Loads the library and makes a handle, on the first call only; the device must be current. What fails is told by
  /// note(). (any thread) The library stays loaded until the process ends.
  void open(cudaStream_t stream);
  /// Destroys the handle; the device must be current, and nothing at work.
  void close() noexcept;
  /// Drops the handle as it is, when the device and the library's state have ended before.
  void forget() noexcept;

  /// Whether run() would try.
  bool ready() const noexcept { return state_.load(std::memory_order_acquire) == State::ready; }
  /// Starts a product on the stream. False: not done, and `out` undefined if it was started; another kernel has to do
  /// it. A call that fails is not tried again: ready() is false from then on. One thread at a time.
  bool run(const DenseProduct& product, void* memory, std::uint64_t bytes) noexcept;

  /// "cuBLAS 13.1.0", or why there is none; empty before open(), and without names. (any thread)
  std::string note() const;

 private:
  enum class State : std::uint8_t { untried, ready, absent, failed };
  using Handle = void*;
  /// As cublas_api.h declares them: statuses, operations, types are ints there.
  struct Functions {
    int (*create)(Handle*) = nullptr;
    int (*destroy)(Handle) = nullptr;
    int (*get_version)(Handle, int*) = nullptr;
    int (*set_stream)(Handle, cudaStream_t) = nullptr;
    int (*set_workspace)(Handle, void*, std::size_t) = nullptr;
    int (*set_math_mode)(Handle, int) = nullptr;
    int (*gemm)(Handle, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int, const void*,
                void*, int, int, int, int) = nullptr;
  };
  std::string load(const std::string& name);
  void release() noexcept;
  std::string start(cudaStream_t stream);

  std::vector<std::string> names_;
  mutable std::mutex mutex_{};
  std::string note_{};
  Functions functions_{};
  Handle handle_ = nullptr;
  std::atomic<State> state_{State::untried};
  std::atomic<int> failed_{0};  // the status of the product that failed
};

}  // namespace llminfer::cuda
