// Bounded random access to the bytes of one part of a model, whatever they come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <llminfer/model_source.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/file.h"

namespace llminfer {
inline namespace v0 {

/// What a ModelSource names; exactly one of the members is in use.
class ModelSource::Body {
 public:
  enum class Kind { file, memory, reader, parts } kind = Kind::memory;
  std::filesystem::path path;
  std::span<const std::byte> bytes;
  std::shared_ptr<Reader> reader;
  std::vector<ModelSource> parts;
};

}  // namespace v0

namespace format {

/// (any thread) Immutable.
class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;

  std::uint64_t size() const noexcept { return size_; }
  /// For messages: a path in UTF-8, "memory" or "reader".
  const std::string& name() const noexcept { return name_; }
  /// Fills `out` from `offset`. Throws truncated when that is past the end, or what the reading itself failed with.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;
  /// All bytes if they can be addressed in place, else empty.
  std::span<const std::byte> mapping() const noexcept { return mapping_; }
  /// Of a file, as it is now; else nothing. Throws as File::identity does.
  virtual std::optional<core::FileIdentity> identity() const { return {}; }

 protected:
  std::uint64_t size_ = 0;
  std::string name_;
  std::span<const std::byte> mapping_;

 private:
  virtual void do_read(std::uint64_t offset, std::span<std::byte> out) const = 0;  // within bounds
};

/// Opens one part. `map`: files are mapped instead of read (a file that shrinks meanwhile kills the process).
std::shared_ptr<const Source> open_source(const ModelSource::Body& body, bool map);

/// The file names of all parts if `path` is named like one of a split model, in order; else nothing.
std::optional<std::vector<std::filesystem::path>> split_siblings(const std::filesystem::path& path);

/// A path for messages, in UTF-8.
std::string printable_path(const std::filesystem::path& path);

}  // namespace format
}  // namespace llminfer
