// Files, read at offsets by several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace llminfer::core {

/// Tells a file from another one, and from itself before somebody wrote to it, without reading it.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t modified = 0;  ///< nanoseconds, of the system's clock
  std::int64_t changed = 0;   ///< likewise: of the content or of what the system keeps about the file
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

/// A regular file open for reading. Move-only. The const members may be called from several threads at a time.
class File {
 public:
  /// Throws Exception{not_found} (no such file, or no permission), invalid_argument (not a regular file), unavailable
  /// (the system refused otherwise); the message names the path.
  explicit File(std::filesystem::path path);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  /// Bytes, as they were when the file was opened.
  std::uint64_t size() const noexcept { return size_; }
  const std::filesystem::path& path() const noexcept { return path_; }

  /// Fills `out` with the bytes from `offset` on. Throws Exception{truncated} if the file does not hold them all (also
  /// if it shrank since), unavailable if the system cannot read; `out` is then unspecified.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;

  /// As the file is now. Throws unavailable if the system does not tell.
  FileIdentity identity() const;

  /// Tells the system that these bytes will not be read again soon, so that their pages need not stay in its cache.
  /// A hint: nothing happens where it is not understood.
  void advise_dont_need(std::uint64_t offset, std::uint64_t bytes) const noexcept;

 private:
  friend class MappedFile;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// A file's bytes as memory, read from disk when they are touched. Move-only.
/// Risk: if another process makes the file shorter, touching the missing bytes kills this process (SIGBUS), and bytes
/// that change on disk change here. Use it only for files that nobody writes; File::read_at reports both as errors.
class MappedFile {
 public:
  /// Maps the whole file. Throws as File's constructor does; out_of_memory if there is no address space for it.
  explicit MappedFile(const std::filesystem::path& path) : MappedFile(File(path)) {}
  explicit MappedFile(const File& file);
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  /// Brings these bytes of the file into memory, many pages at a time. A hint.
  void populate(std::size_t offset, std::size_t bytes) const noexcept;

  /// Empty for an empty file. Valid as long as this object (or the one it was moved to).
  std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace llminfer::core
