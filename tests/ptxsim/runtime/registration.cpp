// How nvcc's host objects hand over their kernels: __cudaRegisterFatBinary and its like. These are no public interface;
// they are as nvcc 13's crt/host_runtime.h declares them.
#include <cstring>
#include <string_view>

#include "interpreter/parser.h"
#include "runtime/state.h"

using namespace ptxsim;           // NOLINT(google-build-using-namespace): C functions
using namespace ptxsim::runtime;  // NOLINT(google-build-using-namespace)

namespace {

/// What __cudaRegisterFatBinary gets; `data` points to a header of 16 bytes (the last 8 are the size of what follows)
/// and the images behind it.
struct FatBinary {
  int magic;
  int version;
  const char* data;
  void* file;
};

/// Before every image, which follows after `header_size` bytes. PTX begins with line ends and may end with zeros.
struct ImageHeader {
  std::uint16_t kind;  // 1: PTX
  std::uint16_t version;
  std::uint32_t header_size;
  std::uint64_t size;
  std::uint32_t compressed_size;
  std::uint32_t options;
  std::uint16_t minor, major;
  std::uint32_t architecture;
};
/// Of all chips, and of those with clusters.
constexpr std::uint32_t simulated_architecture = 80, newer_architecture = 90;

/// The PTX of an architecture, which was not compressed (nvcc --no-compress, code=compute_80); empty: there is none.
std::string_view ptx_of(const FatBinary& f, std::uint32_t architecture) {
  std::uint64_t size = 0;
  std::memcpy(&size, f.data + 8, 8);
  std::string_view images(f.data + 16, size);
  while (images.size() >= sizeof(ImageHeader)) {
    ImageHeader h{};
    std::memcpy(&h, images.data(), sizeof h);
    if (h.header_size < sizeof h || h.header_size > images.size() || h.size > images.size() - h.header_size) return {};
    const std::string_view image = images.substr(h.header_size, h.size);
    const std::size_t start = image.find(".version");
    if (h.kind == 1 && h.architecture == architecture && start != std::string_view::npos)
      return image.substr(start, image.find('\0', start) - start);
    images.remove_prefix(h.header_size + h.size);
  }
  return {};
}

Module parse(std::string_view ptx) {
  Module module;
  try {
    module = parse_module(ptx);
  } catch (const ParseError& e) {
    state().device.findings.push_back({Check::unsupported, "", "", std::string("PTX: ") + e.what()});
  }
  for (const auto& [name, variable] : module.variables) state().memory.add(variable.bytes.get(), variable.size);
  return module;
}

struct PendingLaunch {
  dim3 grid, block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
};
PendingLaunch& pending() {
  static PendingLaunch p;
  return p;
}

}  // namespace

const Kernel& ptxsim::runtime::Function::on(const Chip& chip) const {
  if (chip.major < 9 || newer == nullptr || newer->ptx.empty()) return *kernel;
  if (newer->module == nullptr) newer->module = std::make_unique<Module>(parse(newer->ptx));
  const auto it = newer->module->kernels.find(kernel->name);
  return it == newer->module->kernels.end() ? *kernel : it->second;
}

extern "C" {

void** __cudaRegisterFatBinary(void* fat) {
  auto binary = std::make_unique<LoadedBinary>();
  const std::string_view ptx = ptx_of(*static_cast<FatBinary*>(fat), simulated_architecture);
  binary->module = parse(ptx);
  binary->newer.ptx = ptx_of(*static_cast<FatBinary*>(fat), newer_architecture);
  if (ptx.empty()) state().device.findings.push_back({Check::unsupported, "", "", "a fat binary without plain PTX"});
  state().binaries.push_back(std::move(binary));
  return reinterpret_cast<void**>(state().binaries.back().get());
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void** module, const char* stub, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  auto* binary = reinterpret_cast<LoadedBinary*>(module);
  const auto it = binary->module.kernels.find(std::string_view(name));
  if (it == binary->module.kernels.end()) return;
  state().functions[stub].kernel = &it->second;
  state().functions[stub].newer = &binary->newer;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream) {
  pending() = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  *grid = pending().grid;
  *block = pending().block;
  *shared = pending().shared;
  *static_cast<cudaStream_t*>(stream) = pending().stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, std::size_t shared,
                               cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, args, shared, stream);
}

}  // extern "C"
