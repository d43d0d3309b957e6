#include "core/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "core/path_errors.h"

namespace llminfer::core {
namespace {

constexpr std::size_t most_per_write = std::size_t{1} << 26;
constexpr int most_names = 100;

[[noreturn]] void fail_system(const char* action, const std::filesystem::path& path, int error) {
  const bool absent = error == ENOENT || error == ENOTDIR || error == EACCES || error == EPERM || error == EROFS;
  const bool wrong = error == EISDIR || error == ENAMETOOLONG || error == EINVAL;
  core::fail_system(absent  ? ErrorCode::not_found
                    : wrong ? ErrorCode::invalid_argument
                            : ErrorCode::unavailable,
                    action, path, error);
}

/// Unlikely to be anybody else's; O_EXCL makes sure.
std::filesystem::path temporary_name(const std::filesystem::path& path, int attempt) {
  const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  std::filesystem::path name = path;
  name += fmt::format(".{}-{:x}-{}.new", ::getpid(), now, attempt);
  return name;
}

}  // namespace

NewFile::NewFile(std::filesystem::path path) : path_(std::move(path)) {
  refuse_zero_byte(path_);
  for (int attempt = 0; descriptor_ < 0; ++attempt) {
    temporary_ = temporary_name(path_, attempt);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ >= 0 || ((errno == EEXIST || errno == EINTR) && attempt < most_names)) continue;
    fail_system("create", temporary_, errno);
  }
}

NewFile::~NewFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void NewFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), std::min(bytes.size(), most_per_write));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_system("write", temporary_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void NewFile::commit() {
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail_system("replace", path_, errno);
  ::close(std::exchange(descriptor_, -1));
}

}  // namespace llminfer::core
