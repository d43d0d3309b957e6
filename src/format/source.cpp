#include "format/source.h"

#include <cstring>
#include <exception>
#include <new>

#include "core/fail.h"
#include "core/file.h"
#include "format/printable.h"

namespace llminfer::format {
namespace {

class FileSource final : public Source {
 public:
  explicit FileSource(const std::filesystem::path& path) : file_(path) {
    size_ = file_.size();
    name_ = printable_path(path);
  }
  std::optional<core::FileIdentity> identity() const override { return file_.identity(); }

 private:
  void do_read(std::uint64_t offset, std::span<std::byte> out) const override { file_.read_at(offset, out); }
  core::File file_;
};

class MappedSource final : public Source {
 public:
  explicit MappedSource(const std::filesystem::path& path) : file_(path), map_(file_) {
    mapping_ = map_.bytes();
    size_ = mapping_.size();
    name_ = printable_path(path);
  }
  std::optional<core::FileIdentity> identity() const override { return file_.identity(); }

 private:
  void do_read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (!out.empty()) std::memcpy(out.data(), mapping_.data() + offset, out.size());
  }
  core::File file_;
  core::MappedFile map_;
};

class MemorySource final : public Source {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) {
    size_ = bytes.size();
    name_ = "memory";
    mapping_ = bytes;
  }

 private:
  void do_read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (!out.empty()) std::memcpy(out.data(), mapping_.data() + offset, out.size());
  }
};

// Runs the caller's code: what it throws becomes callback_failed, except that memory running out stays what it is.
template <class Call>
auto guarded(const char* what, Call&& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    core::fail(ErrorCode::callback_failed, "Reader::{} threw: {}", what, printable(error.what()));
  } catch (...) {
    core::fail(ErrorCode::callback_failed, "Reader::{} threw", what);
  }
}

class ReaderSource final : public Source {
 public:
  explicit ReaderSource(std::shared_ptr<Reader> reader) : reader_(std::move(reader)) {
    if (!reader_) core::fail(ErrorCode::invalid_argument, "ModelSource::reader was given a null Reader");
    size_ = guarded("size", [&] { return reader_->size(); });
    name_ = "reader";
  }

 private:
  void do_read(std::uint64_t offset, std::span<std::byte> out) const override {
    const Result<void> result = guarded("read_at", [&] { return reader_->read_at(offset, out); });
    if (!result) throw Exception(result.error());
  }
  std::shared_ptr<Reader> reader_;
};

// "name-00002-of-00003.gguf": where the two numbers are.
constexpr std::size_t suffix_length = sizeof("-00002-of-00003.gguf") - 1;

std::optional<int> five_digits(std::string_view text) {
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

}  // namespace

void Source::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    core::fail(ErrorCode::truncated, "{} bytes wanted at byte {} of {}, which has {}", out.size(), offset, name_,
               size_);
  }
  do_read(offset, out);
}

std::shared_ptr<const Source> open_source(const ModelSource::Body& body, bool map) {
  using Kind = ModelSource::Body::Kind;
  switch (body.kind) {
    case Kind::file:
      if (map) return std::make_shared<MappedSource>(body.path);
      return std::make_shared<FileSource>(body.path);
    case Kind::memory:
      return std::make_shared<MemorySource>(body.bytes);
    case Kind::reader:
      return std::make_shared<ReaderSource>(body.reader);
    case Kind::parts:
      break;
  }
  core::fail(ErrorCode::invalid_argument, "ModelSource::parts was given a source that itself has parts");
}

std::optional<std::vector<std::filesystem::path>> split_siblings(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  if (name.size() <= suffix_length) return std::nullopt;
  const std::string_view suffix = std::string_view(name).substr(name.size() - suffix_length);
  const std::optional<int> number = five_digits(suffix.substr(1, 5));
  const std::optional<int> count = five_digits(suffix.substr(10, 5));
  if (suffix[0] != '-' || suffix.substr(6, 4) != "-of-" || suffix.substr(15) != ".gguf") return std::nullopt;
  if (!number || !count || *number < 1 || *number > *count) return std::nullopt;
  const std::string stem = name.substr(0, name.size() - suffix_length);
  std::vector<std::filesystem::path> parts;
  for (int i = 1; i <= *count; ++i) {
    parts.push_back(path.parent_path() / fmt::format("{}-{:05}-of-{:05}.gguf", stem, i, *count));
  }
  return parts;
}

std::string printable_path(const std::filesystem::path& path) {
  const std::u8string text = path.u8string();
  return printable(std::string_view(reinterpret_cast<const char*>(text.data()), text.size()), 400);
}

}  // namespace llminfer::format
