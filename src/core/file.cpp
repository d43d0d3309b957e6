#include "core/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "core/checked.h"
#include "core/path_errors.h"

namespace llminfer::core {
namespace {

// One system call's worth: Linux reads at most 2 GiB - 4 KiB at a time anyway.
constexpr std::size_t most_per_read = std::size_t{1} << 30;

ErrorCode code_of(int error) noexcept {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EACCES:
    case EPERM:
    case ELOOP:
    case ENAMETOOLONG:
      return ErrorCode::not_found;
    case ENOMEM:
      return ErrorCode::out_of_memory;
    default:
      return ErrorCode::unavailable;
  }
}

[[noreturn]] void fail_system(const char* action, const std::filesystem::path& path, int error) {
  core::fail_system(code_of(error), action, path, error);
}

int open_for_reading(const std::filesystem::path& path) noexcept {
  int descriptor = -1;
  do {  // non-blocking, so that a pipe is refused below instead of waiting for its writer
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

}  // namespace

File::File(std::filesystem::path path) : path_(std::move(path)) {
  refuse_zero_byte(path_);
  descriptor_ = open_for_reading(path_);
  if (descriptor_ < 0) fail_system("open", path_, errno);
  struct stat status {};
  const int error = ::fstat(descriptor_, &status) == 0 ? 0 : errno;
  if (error != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);  // no destructor runs for a constructor that throws
    if (error != 0) fail_system("inspect", path_, error);
    fail(ErrorCode::invalid_argument, "'{}' is not a regular file", path_.string());
  }
  size_ = static_cast<std::uint64_t>(std::max<decltype(status.st_size)>(status.st_size, 0));
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(std::exchange(other.size_, 0)) {}

File& File::operator=(File&& other) noexcept {
  path_.swap(other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void File::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  const auto fail_truncated = [&](std::uint64_t end) {
    fail(ErrorCode::truncated, "'{}' ends at byte {}, but {} bytes are wanted at offset {}", path_.string(), end,
         out.size(), offset);
  };
  if (offset > size_ || out.size() > size_ - offset) fail_truncated(size_);
  std::size_t done = 0;
  while (done < out.size()) {
    const std::size_t step = std::min(out.size() - done, most_per_read);
    const ssize_t got = ::pread(descriptor_, out.data() + done, step, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_system("read", path_, errno);
    if (got == 0) fail_truncated(offset + done);
    done += static_cast<std::size_t>(got);
  }
}

FileIdentity File::identity() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail_system("inspect", path_, errno);
  const auto nanoseconds = [](const timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  return {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino),
          static_cast<std::uint64_t>(status.st_size), nanoseconds(status.st_mtim), nanoseconds(status.st_ctim)};
}

void File::advise_dont_need([[maybe_unused]] std::uint64_t offset,
                            [[maybe_unused]] std::uint64_t bytes) const noexcept {
#ifdef POSIX_FADV_DONTNEED
  if (offset >= size_ || bytes == 0) return;  // to posix_fadvise, 0 bytes means all that follow
  ::posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(std::min(bytes, size_ - offset)),
                  POSIX_FADV_DONTNEED);
#endif
}

MappedFile::MappedFile(const File& file) {
  const std::size_t length = cast_or_fail<std::size_t>(file.size(), "file size", ErrorCode::out_of_memory);
  if (length == 0) return;
  void* const mapping = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, file.descriptor_, 0);
  if (mapping == MAP_FAILED) fail_system("map", file.path(), errno);
  bytes_ = {static_cast<const std::byte*>(mapping), length};
}

void MappedFile::populate([[maybe_unused]] std::size_t offset, [[maybe_unused]] std::size_t bytes) const noexcept {
#ifdef MADV_POPULATE_READ
  const std::size_t page = 4096;  // rounding to less than the system's would only make the hint fail
  const std::size_t begin = std::min(offset, bytes_.size()) / page * page,
                    end = std::min(offset + bytes, bytes_.size());
  if (begin < end) ::madvise(const_cast<std::byte*>(bytes_.data()) + begin, end - begin, MADV_POPULATE_READ);
#endif
}

MappedFile::~MappedFile() {
  // munmap takes a mutable pointer though the pages were never writable here.
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace llminfer::core
