// A file written whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace llminfer::core {

/// Written beside its final place under a name of its own, and moved there at the end: readers see the old file or the
/// whole new one, however many write at a time. Neither copied nor moved.
class NewFile {
 public:
  /// Throws not_found (no such folder, or no permission), invalid_argument (a path that no file can have), unavailable.
  explicit NewFile(std::filesystem::path path);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  /// Removes what was not committed.
  ~NewFile();

  /// Throws unavailable, e.g. when the disk is full.
  void append(std::span<const std::byte> bytes);
  /// Moves the file to its place. Throws as the constructor does.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

}  // namespace llminfer::core
