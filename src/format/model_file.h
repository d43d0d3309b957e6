// The neutral form of a model file: what formats give and models take. Only this folder knows GGUF's keys and names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <llminfer/model_source.hpp>
#include <llminfer/weight_type.hpp>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/file.h"
#include "format/hyper_parameters.h"
#include "format/roles.h"
#include "text/tokenizer_spec.h"

namespace llminfer::format {

/// One tensor. dims[0] is the contiguous one (the length of a row); dims beyond n_dims are 1; none is 0.
struct TensorInfo {
  Role role = Role::unknown;
  int layer = -1;  ///< -1: belongs to no layer
  bool bias = false;
  std::string_view name;  ///< as in the file; valid as long as any copy of the ModelFile
  WeightType type = WeightType::f32;
  std::array<std::uint64_t, 4> dims{1, 1, 1, 1};
  int n_dims = 0;
  std::uint64_t offset = 0;  ///< bytes from the start of its part
  std::uint64_t bytes = 0;   ///< rows * bytes of a row; checked to lie within the part
  int part = 0;

  std::uint64_t elements() const noexcept { return dims[0] * dims[1] * dims[2] * dims[3]; }
  std::uint64_t rows() const noexcept { return dims[1] * dims[2] * dims[3]; }
};

/// What a file recommends for sampling.
struct SamplingDefaults {
  std::optional<float> temperature, top_p, min_p, xtc_probability, xtc_threshold, repetition_penalty;
  std::optional<int> top_k, penalty_last_n;
};

/// One key of the file, for people to read.
struct MetadataEntry {
  std::string key;
  std::string type;   ///< "uint32", "string", "array of 49152 string", ...
  std::string value;  ///< printable UTF-8 on one line, cut to about 120 bytes
};

struct OpenOptions {
  bool map = false;            ///< map files instead of reading them
  bool metadata_only = false;  ///< leave the tensor tables unread: enough for a tokenizer, whatever the tensors' types
};

/// (any thread) An opened model: everything but the weights is in memory and checked. Copies share it.
class ModelFile {
 public:
  /// Reads header, metadata and tensor table of every part. Throws what core::File does, not_gguf, truncated, corrupt,
  /// unsupported_type (version, byte order, tensor types), mismatch (parts that do not belong together), cancelled,
  /// callback_failed or what a Reader reports.
  static ModelFile open(const ModelSource& source, std::stop_token stop = {}, OpenOptions options = {});

  /// general.architecture; empty when the file has none. Ask the registry of models before hyper_parameters().
  const std::string& architecture() const noexcept;
  const std::string& name() const noexcept;
  /// Reads and checks them. Throws corrupt naming key and value, unsupported_architecture for files that hold no
  /// language model (adapters, projectors).
  HyperParameters hyper_parameters() const;
  /// The value of an optional hyper-parameter, or corrupt naming the missing key: need(hyper.rms_eps, "rms_eps").
  template <class T>
  const T& need(const std::optional<T>& value, std::string_view field) const {
    if (!value) fail_missing_key(field);
    return *value;
  }

  /// Tokenizer of the file; family is empty when the file has none.
  const text::TokenizerSpec& tokenizer() const noexcept;
  const SamplingDefaults& sampling() const noexcept;
  /// In the file's order, those of the first part.
  std::span<const MetadataEntry> metadata() const noexcept;

  /// In the file's order, part by part.
  std::span<const TensorInfo> tensors() const noexcept;
  const TensorInfo* find(Role role, int layer = -1, bool bias = false) const noexcept;
  /// Throws not_found naming the tensor.
  const TensorInfo& require(Role role, int layer = -1, bool bias = false) const;
  /// As above; throws corrupt naming tensor, expected and actual shape when the dims differ (trailing 1s do not count).
  const TensorInfo& require(Role role, int layer, std::initializer_list<std::int64_t> dims, bool bias = false) const;
  /// As require with dims, but null when there is no such tensor.
  const TensorInfo* optional(Role role, int layer, std::initializer_list<std::int64_t> dims, bool bias = false) const;
  /// Bytes of all tensors.
  std::uint64_t tensor_bytes() const noexcept;

  /// Fills `out` with the tensor's bytes from `offset` on.
  void read(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> out) const;
  /// The tensor's bytes in place if the source is mapped or in memory, else empty.
  std::span<const std::byte> mapped(const TensorInfo& tensor) const noexcept;

  /// What tells the parts from others, and from themselves before somebody wrote to them, without reading them: nothing
  /// where they are no files.
  std::optional<std::vector<core::FileIdentity>> identity() const;
  /// A hash of all bytes of all parts, a megabyte at a time. Throws as read does.
  std::uint64_t content_hash() const;

  struct Body;

 private:
  explicit ModelFile(std::shared_ptr<const Body> body) noexcept : body_(std::move(body)) {}
  [[noreturn]] void fail_missing_key(std::string_view field) const;
  std::shared_ptr<const Body> body_;
};

}  // namespace llminfer::format
