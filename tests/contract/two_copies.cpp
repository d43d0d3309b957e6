// Two copies of the library in one process: both load, work side by side, and leave nothing behind when they are
// closed. usage: two_copies LIBRARY PLUGIN FOLDER MODEL
//   LIBRARY  the shared library; PLUGIN  a module that has the static one inside; the copies are made in FOLDER
// Without the model's file the plug-in must report that it is missing, and the program ends with 77.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include <llminfer/error.hpp>

namespace {

namespace fs = std::filesystem;
using ToString = const char* (*)(llminfer::ErrorCode);
using Generate = int (*)(const char* path, char* text, std::size_t size);

// The shared library has no C interface: the mangled name of to_string(ErrorCode) stands for all of it.
constexpr const char* to_string_symbol = "_ZN8llminfer2v09to_stringENS0_9ErrorCodeE";

int failures = 0;
void check(bool ok, const std::string& what) {
  if (ok) return;
  std::printf("failed: %s\n", what.c_str());
  ++failures;
}

/// A copy of a library under a name of its own, open from construction to close().
class Copy {
 public:
  Copy(const fs::path& library, const fs::path& path) : path_(path.string()) {
    fs::copy_file(library, path, fs::copy_options::overwrite_existing);
    handle_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) check(false, dlerror());
  }

  template <class Function>
  Function symbol(const char* name) const {
    void* address = handle_ ? dlsym(handle_, name) : nullptr;
    check(address != nullptr, std::string(name) + " in " + path_);
    return reinterpret_cast<Function>(address);
  }

  // dlclose alone proves nothing: a unique symbol or a thread-local destructor would keep the library in memory.
  void close() const {
    check(dlclose(handle_) == 0, "dlclose of " + path_);
    check(dlopen(path_.c_str(), RTLD_NOW | RTLD_NOLOAD) == nullptr, path_ + " is gone after dlclose");
  }

 private:
  std::string path_;
  void* handle_ = nullptr;
};

void name_all_codes(ToString to_string) {
  for (int code = 0; code <= static_cast<int>(llminfer::ErrorCode::unavailable); ++code) {
    const char* name = to_string(static_cast<llminfer::ErrorCode>(code));
    check(name && std::strlen(name) > 0, "a name for every code");
  }
}

void shared_libraries(const fs::path& library, const fs::path& folder) {
  const Copy a(library, folder / "library_a.so");
  const Copy b(library, folder / "library_b.so");
  const auto name_a = a.symbol<ToString>(to_string_symbol);
  const auto name_b = b.symbol<ToString>(to_string_symbol);
  if (failures != 0) return;
  check(name_a != name_b, "the copies are two");
  name_all_codes(name_a);
  a.close();
  name_all_codes(name_b);
  b.close();
}

struct Output {
  int result = -1;
  char text[1024] = {};
};

/// Both generate at the same time, each with devices and threads of its own.
void plugins(const fs::path& plugin, const fs::path& folder, const std::string& model) {
  const Copy a(plugin, folder / "plugin_a.so");
  const Copy b(plugin, folder / "plugin_b.so");
  const auto generate_a = a.symbol<Generate>("plugin_generate");
  const auto generate_b = b.symbol<Generate>("plugin_generate");
  if (failures != 0) return;
  Output out_a;
  Output out_b;
  std::thread first([&] { out_a.result = generate_a(model.c_str(), out_a.text, sizeof out_a.text); });
  std::thread second([&] { out_b.result = generate_b(model.c_str(), out_b.text, sizeof out_b.text); });
  first.join();
  second.join();
  const int expected = fs::exists(model) ? 0 : 1;
  check(out_a.result == expected && out_b.result == expected, std::string("plug-ins said: ") + out_a.text);
  check(std::strlen(out_a.text) > 0 && std::strcmp(out_a.text, out_b.text) == 0, "both say the same");
  std::printf("%s\n", out_a.text);
  a.close();
  b.close();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  fs::create_directories(argv[3]);
  for (int round = 0; round < 2 && failures == 0; ++round) {
    shared_libraries(argv[1], argv[3]);
    plugins(argv[2], argv[3], argv[4]);
  }
  if (failures != 0) return 1;
  return fs::exists(argv[4]) ? 0 : 77;
}
