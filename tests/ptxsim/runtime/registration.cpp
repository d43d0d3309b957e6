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
constexpr std::uint32_t simulated_architecture = 80;

/// The PTX of the simulated architecture, which was not compressed (nvcc --no-compress, code=compute_80).
std::string_view ptx_of(const FatBinary& f) {
  std::uint64_t size = 0;
  std::memcpy(&size, f.data + 8, 8);
  std::string_view images(f.data + 16, size);
  while (images.size() >= sizeof(ImageHeader)) {
    ImageHeader h{};
    std::memcpy(&h, images.data(), sizeof h);
    if (h.header_size < sizeof h || h.header_size > images.size() || h.size > images.size() - h.header_size) return {};
    const std::string_view image = images.substr(h.header_size, h.size);
    const std::size_t start = image.find(".version");
    if (h.kind == 1 && h.architecture == simulated_architecture && start != std::string_view::npos)
      return image.substr(start, image.find('\0', start) - start);
    images.remove_prefix(h.header_size + h.size);
  }
  return {};
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

extern "C" {

void** __cudaRegisterFatBinary(void* fat) {
  auto module = std::make_unique<Module>();
  const std::string_view ptx = ptx_of(*static_cast<FatBinary*>(fat));
  try {
    *module = parse_module(ptx);
  } catch (const ParseError& e) {
    state().device.findings.push_back({Check::unsupported, "", "", std::string("PTX: ") + e.what()});
  }
  if (ptx.empty()) state().device.findings.push_back({Check::unsupported, "", "", "a fat binary without plain PTX"});
  for (const auto& [name, variable] : module->variables) state().memory.add(variable.bytes.get(), variable.size);
  state().modules.push_back(std::move(module));
  return reinterpret_cast<void**>(state().modules.back().get());
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void** module, const char* stub, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  const auto& kernels = reinterpret_cast<Module*>(module)->kernels;
  const auto it = kernels.find(std::string_view(name));
  if (it != kernels.end()) state().functions[stub].kernel = &it->second;
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
