#include <dlfcn.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cctype>
#include <llminfer/backend/plugin.hpp>
#include <system_error>

#include "api/guard.h"
#include "core/fail.h"

namespace llminfer {
inline namespace v0 {
namespace backend {
namespace {

namespace fs = std::filesystem;

/// The file that this code is in: the library, or a program with the library inside. The loader knows a program by the
/// word that started it, which is no path to be looked up from here: the kernel knows better.
fs::path own_file() {
  static constexpr char here = 0;
  Dl_info own{}, program{};
  if (dladdr(&here, &own) == 0 || own.dli_fname == nullptr) {
    core::fail(ErrorCode::not_found, "the library does not know its own file");
  }
  // The kernel tells a program where its own headers are.
  const auto* headers = reinterpret_cast<const void*>(getauxval(AT_PHDR));
  const bool in_program = dladdr(headers, &program) != 0 && program.dli_fbase == own.dli_fbase;
  std::error_code error;
  const fs::path file = fs::canonical(in_program ? "/proc/self/exe" : own.dli_fname, error);
  if (error) core::fail(ErrorCode::not_found, "the library's own file {}: {}", own.dli_fname, error.message());
  return file;
}

const Plugin& load(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) core::fail(ErrorCode::not_found, "plug-in {}: no such file", file.string());
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* why = dlerror();
    core::fail(ErrorCode::corrupt, "plug-in {}: {}", file.string(), why != nullptr ? why : "cannot be loaded");
  }
  void* symbol = dlsym(handle, "llminfer_backend_plugin");
  const Plugin* plugin = symbol != nullptr ? reinterpret_cast<LlminferBackendPlugin*>(symbol)() : nullptr;
  if (plugin == nullptr) {
    core::fail(ErrorCode::corrupt, "plug-in {}: it has no llminfer_backend_plugin", file.string());
  }
  // The version comes first in every version: nothing else may be looked at before.
  if (plugin->version != interface_version) {
    core::fail(ErrorCode::mismatch, "plug-in {}: built for interface {}, this library has {}", file.string(),
               plugin->version, interface_version);
  }
  if (plugin->open == nullptr) core::fail(ErrorCode::corrupt, "plug-in {}: it opens nothing", file.string());
  return *plugin;
}

}  // namespace

Result<std::shared_ptr<Backend>> open_plugin(const fs::path& file, int index) {
  return api::guard("open_plugin", [&]() -> Result<std::shared_ptr<Backend>> {
    Result<std::shared_ptr<Backend>> device = load(file).open(index);
    if (device && *device == nullptr) {
      core::fail(ErrorCode::corrupt, "plug-in {}: device {} is null", file.string(), index);
    }
    return device;
  });
}

Result<fs::path> find_plugin(const std::string& name) {
  return api::guard("find_plugin", [&]() -> fs::path {
    const bool word =
        std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
    if (name.empty() || !word) core::fail(ErrorCode::invalid_argument, "name of a plug-in: '{}'", name);
    const fs::path folder = own_file().parent_path();
    const fs::path file = "libllminfer_" + name + ".so";
    for (const fs::path& place : {folder / "llminfer" / file, folder.parent_path() / "lib" / "llminfer" / file}) {
      std::error_code error;
      if (fs::is_regular_file(place, error)) return place;
    }
    core::fail(ErrorCode::not_found, "plug-in '{}': no llminfer/{} beside {}", name, file.string(), folder.string());
  });
}

}  // namespace backend
}  // namespace v0
}  // namespace llminfer
