// Two copies of the shared library in one process: both load, work, and leave nothing behind when they are closed.
// usage: two_copies LIBRARY FOLDER [MODEL]      the copies are made in FOLDER
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <llminfer/error.hpp>

namespace {

using ToString = const char* (*)(llminfer::ErrorCode);

// The library has no C interface: the mangled name of to_string(ErrorCode) stands for all of it.
constexpr const char* to_string_symbol = "_ZN8llminfer2v09to_stringENS0_9ErrorCodeE";

int failures = 0;
void check(bool ok, const std::string& what) {
  if (ok) return;
  std::printf("failed: %s\n", what.c_str());
  ++failures;
}

struct Copy {
  std::string path;
  void* handle = nullptr;
  ToString to_string = nullptr;
};

Copy open_copy(const std::filesystem::path& library, const std::filesystem::path& path) {
  std::filesystem::copy_file(library, path, std::filesystem::copy_options::overwrite_existing);
  Copy copy{path.string()};
  copy.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  check(copy.handle != nullptr, copy.handle ? "" : dlerror());
  if (copy.handle) copy.to_string = reinterpret_cast<ToString>(dlsym(copy.handle, to_string_symbol));
  check(copy.to_string != nullptr, "to_string found in " + copy.path);
  return copy;
}

void use(const Copy& copy) {
  for (int code = 0; code <= static_cast<int>(llminfer::ErrorCode::unavailable); ++code) {
    const char* name = copy.to_string(static_cast<llminfer::ErrorCode>(code));
    if (!name || std::strlen(name) == 0) check(false, "a name for every code");
  }
}

// dlclose alone proves nothing: a unique symbol or a thread-local destructor would keep the library in memory.
void close_copy(const Copy& copy) {
  check(dlclose(copy.handle) == 0, "dlclose of " + copy.path);
  check(dlopen(copy.path.c_str(), RTLD_NOW | RTLD_NOLOAD) == nullptr, copy.path + " is gone after dlclose");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::filesystem::path folder = argv[2];
  std::filesystem::create_directories(folder);
  for (int round = 0; round < 3 && failures == 0; ++round) {
    const Copy a = open_copy(argv[1], folder / "copy_a.so");
    const Copy b = open_copy(argv[1], folder / "copy_b.so");
    if (failures != 0) break;
    check(a.to_string != b.to_string, "the copies are two");
    std::thread first([&] { use(a); });
    std::thread second([&] { use(b); });
    first.join();
    second.join();
    close_copy(a);
    use(b);
    close_copy(b);
  }
  return failures == 0 ? 0 : 1;
}
