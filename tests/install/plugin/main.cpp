// Opens the CUDA device by name. usage: plugin_consumer FOLDER    where the plug-in must be found
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <llminfer/backend/plugin.hpp>
#include <llminfer/llminfer.hpp>

int main(int argc, char** argv) try {
  if (argc != 2) return 2;
  const std::filesystem::path file = llminfer::backend::find_plugin("cuda").value();
  std::printf("%s\n", file.c_str());
  if (!std::filesystem::equivalent(file.parent_path(), argv[1])) return 1;
  const auto backend = llminfer::backend::open_plugin(file);
  if (!backend) {
    // Loaded, asked, and there is no GPU: anything else is a failure.
    std::printf("%s: %s\n", llminfer::to_string(backend.error().code), backend.error().message.c_str());
    return backend.error().code == llminfer::ErrorCode::unavailable ? 0 : 1;
  }
  const auto info = llminfer::Device::wrap(*backend).value().info().value();
  std::printf("%s %s\n", info.kind.c_str(), info.name.c_str());
  return info.kind == "cuda" ? 0 : 1;
} catch (const llminfer::Exception& error) {
  std::fprintf(stderr, "%s: %s\n", llminfer::to_string(error.error().code), error.what());
  return 1;
}
