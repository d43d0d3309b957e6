#include "format/file_source.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "core/fail.h"

namespace llminfer::format {
namespace {

std::string reason(int error) { return std::error_code(error, std::generic_category()).message(); }

}  // namespace

FileSource::FileSource(const std::filesystem::path& path, bool map) {
  name_ = printable_path(path);
  // O_NONBLOCK: a named pipe must give an error, not wait for a writer. It changes nothing for regular files.
  file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file_ < 0) {
    const int error = errno;
    core::fail(ErrorCode::not_found, "cannot open {}: {}", name_, reason(error));
  }
  struct stat status {};
  const bool known = ::fstat(file_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode) || status.st_size < 0) {
    ::close(file_);
    core::fail(ErrorCode::not_found, "{} is not a regular file", name_);
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
  if (!map || size_ == 0) return;
  void* start = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file_, 0);
  if (start == MAP_FAILED) {
    const int error = errno;
    ::close(file_);
    core::fail(ErrorCode::unavailable, "cannot map {} ({} bytes): {}", name_, size_, reason(error));
  }
  mapping_ = {static_cast<const std::byte*>(start), static_cast<std::size_t>(size_)};
}

FileSource::~FileSource() {
  if (!mapping_.empty()) ::munmap(const_cast<std::byte*>(mapping_.data()), mapping_.size());
  ::close(file_);
}

void FileSource::do_read(std::uint64_t offset, std::span<std::byte> out) const {
  constexpr std::size_t most = std::size_t{1} << 30;  // Linux reads at most 2 GiB a call
  while (!out.empty()) {
    const ssize_t got = ::pread(file_, out.data(), std::min(out.size(), most), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) core::fail(ErrorCode::unavailable, "reading {} at byte {}: {}", name_, offset, reason(errno));
    if (got == 0) core::fail(ErrorCode::truncated, "{} ended at byte {}: it was cut while in use", name_, offset);
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace llminfer::format
