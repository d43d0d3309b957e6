// Devices from plug-ins, by path and by name, and what is refused. usage: open_plugin GOOD OTHER_VERSION NO_PLUGIN
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <llminfer/backend/plugin.hpp>
#include <llminfer/device.hpp>

namespace {

namespace fs = std::filesystem;
using namespace llminfer;  // NOLINT(google-build-using-namespace): a test

int failures = 0;
void check(bool ok, const std::string& what) {
  if (ok) return;
  std::printf("failed: %s\n", what.c_str());
  ++failures;
}

template <class T>
void refused(const Result<T>& result, ErrorCode code, const std::string& part) {
  if (result) return check(false, "'" + part + "' is not refused");
  const std::string text = result.error().message;
  check(result.error().code == code && text.find(part) != std::string::npos, "'" + part + "' in: " + text);
}

void by_path(const fs::path& good, const fs::path& other, const fs::path& none) {
  const auto backend = backend::open_plugin(good);
  check(backend.has_value(), "a plug-in opens");
  if (!backend) return;
  const auto device = Device::wrap(*backend);
  check(device && device->info()->kind == "nothing", "and is a device");
  refused(backend::open_plugin(good, 7), ErrorCode::not_found, "there is one device");
  refused(backend::open_plugin(good, 1), ErrorCode::corrupt, "null");
  refused(backend::open_plugin(other), ErrorCode::mismatch, "built for interface 1");
  refused(backend::open_plugin(none), ErrorCode::corrupt, "llminfer_backend_plugin");
  refused(backend::open_plugin(good.parent_path() / "absent.so"), ErrorCode::not_found, "absent.so");
  refused(backend::open_plugin(good.parent_path()), ErrorCode::not_found, "no such file");
  const fs::path text = fs::temp_directory_path() / "llminfer_not_a_library.so";
  std::ofstream(text) << "text";
  refused(backend::open_plugin(text), ErrorCode::corrupt, "llminfer_not_a_library");
  fs::remove(text);
}

/// The library is inside this program: plug-ins lie in a folder beside it.
void by_name(const fs::path& program, const fs::path& good) {
  refused(backend::find_plugin("absent"), ErrorCode::not_found, "libllminfer_absent.so");
  refused(backend::find_plugin("../absent"), ErrorCode::invalid_argument, "../absent");
  refused(backend::find_plugin(""), ErrorCode::invalid_argument, "''");
  const fs::path place = fs::canonical(program).parent_path() / "llminfer" / "libllminfer_nothing.so";
  fs::create_directories(place.parent_path());
  fs::copy_file(good, place, fs::copy_options::overwrite_existing);
  const auto found = backend::find_plugin("nothing");
  check(found && fs::equivalent(*found, place), "a plug-in is found beside the program");
  check(found && backend::open_plugin(*found).has_value(), "and opens");
  fs::remove_all(place.parent_path());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  by_path(argv[1], argv[2], argv[3]);
  by_name("/proc/self/exe", argv[1]);
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
