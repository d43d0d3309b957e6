// Where a model's bytes come from: a file, a buffer, or the caller's own reader (encrypted or packed assets).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include <llminfer/error.hpp>

namespace llminfer {
inline namespace v0 {

/// Random access to bytes, implemented by the caller. Called from several threads at once. Must not throw: what is
/// thrown all the same is caught and becomes ErrorCode::callback_failed.
class LLMINFER_API Reader {
 public:
  Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  virtual ~Reader();

  /// Bytes in total. Asked once, when the source is opened; must not change while it is in use.
  virtual std::uint64_t size() const = 0;
  /// Fills all of `out` with the bytes from `offset` on; never asked for bytes beyond size().
  virtual Result<void> read_at(std::uint64_t offset, std::span<std::byte> out) const = 0;
};

/// Names a model; opens and reads nothing until it is given to Model::open or Tokenizer::open, which report what is
/// wrong with it. Copies are cheap and name the same model. The functions here throw only std::bad_alloc.
class LLMINFER_API ModelSource {
 public:
  /// A file. One part of a split model ("name-00001-of-00003.gguf") stands for all: its siblings are found beside it.
  static ModelSource file(std::filesystem::path path);

  /// A whole model file in memory, borrowed: the bytes must stay as they are while anything opened from this source
  /// (Model, Tokenizer, a Device's mapped weights) is alive.
  static ModelSource memory(std::span<const std::byte> bytes);

  /// The caller's reader, shared: kept alive as long as anything opened from this source needs it.
  static ModelSource reader(std::shared_ptr<Reader> reader);

  /// A split model, part by part in order; each part a file (then taken alone, without a search for siblings), memory
  /// or a reader, not itself made by parts().
  static ModelSource parts(std::vector<ModelSource> parts);

  class Body;
  /// For the library's own use.
  const Body& body() const noexcept { return *body_; }

 private:
  explicit ModelSource(std::shared_ptr<const Body> body) noexcept;
  std::shared_ptr<const Body> body_;
};

}  // namespace v0
}  // namespace llminfer
