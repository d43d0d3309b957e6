#include "format/model_file.h"

#include <algorithm>

#include "core/fail.h"
#include "core/fast_hash.h"
#include "format/gguf.h"
#include "format/hyper_keys.h"
#include "format/parts.h"
#include "format/printable.h"
#include "format/tokenizer_keys.h"

namespace llminfer::format {
namespace {

constexpr std::uint64_t hash_piece = std::uint64_t{1} << 20;

// Roles in one order: file-wide first, then layer by layer.
std::uint64_t sort_key(Role role, int layer, bool bias) noexcept {
  return (static_cast<std::uint64_t>(layer + 1) << 16) | (static_cast<std::uint64_t>(role) << 1) | (bias ? 1U : 0U);
}

std::string shape_text(const std::uint64_t* dims, std::size_t count) {
  return fmt::format("[{}]", fmt::join(dims, dims + count, ", "));
}

}  // namespace

struct ModelFile::Body {
  std::vector<std::shared_ptr<const Source>> sources;
  core::StringTable names;  // of tensors[i]
  core::Vector<TensorInfo> tensors;
  core::Vector<std::pair<std::uint64_t, std::uint32_t>> by_role;  // sort_key, index; known roles only
  std::uint64_t tensor_bytes = 0;

  std::optional<Metadata> metadata;
  std::string architecture, name;
  core::Vector<MetadataEntry> entries;
  text::TokenizerSpec tokenizer;
  SamplingDefaults sampling;

  void add_tensors(const GgufPart& part, int number);
  void index_tensors();
  void check_names() const;
};

void ModelFile::Body::add_tensors(const GgufPart& part, int number) {
  for (std::size_t i = 0; i < part.tensors.size(); ++i) {
    names.push_back(part.tensor_names[i]);
    tensors.push_back(part.tensors[i]);
    tensors.back().part = number;
  }
}

void ModelFile::Body::index_tensors() {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    TensorInfo& tensor = tensors[i];
    tensor.name = names[i];
    const RoleName parsed = parse_tensor_name(tensor.name);
    tensor.role = parsed.role;
    tensor.layer = parsed.layer;
    tensor.bias = parsed.bias;
    tensor_bytes += tensor.bytes;  // each lies in its part and none overlap: the sum is at most the parts' sizes
    if (tensor.role == Role::unknown) continue;
    by_role.emplace_back(sort_key(tensor.role, tensor.layer, tensor.bias), static_cast<std::uint32_t>(i));
  }
  std::sort(by_role.begin(), by_role.end());
  check_names();
}

void ModelFile::Body::check_names() const {
  core::Vector<std::string_view> sorted(tensors.get_allocator());
  for (const TensorInfo& tensor : tensors) sorted.push_back(tensor.name);
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) core::fail(ErrorCode::corrupt, "tensor '{}' comes twice", printable(*twice));
}

ModelFile ModelFile::open(const ModelSource& source, std::stop_token stop, OpenOptions options) {
  auto body = std::make_shared<Body>();
  std::vector<LoadedPart> parts = load_parts(source.body(), std::move(stop), options);
  const std::shared_ptr<core::Memory>& memory = parts.front().gguf.tensor_names.memory();
  body->names = core::StringTable(memory);
  body->tensors = core::Vector<TensorInfo>(memory);
  body->by_role = decltype(body->by_role)(memory);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    body->sources.push_back(parts[i].source);
    body->add_tensors(parts[i].gguf, static_cast<int>(i));
  }
  named(*body->sources.front(), [&] {
    body->index_tensors();
    Metadata& metadata = body->metadata.emplace(std::move(parts.front().gguf.metadata));
    body->architecture = metadata.string("general.architecture").value_or("");
    body->name = metadata.string("general.name").value_or("");
    body->entries = metadata.describe();
    body->tokenizer = read_tokenizer(metadata);
    body->sampling = read_sampling(metadata);
  });
  return ModelFile(std::move(body));
}

const std::string& ModelFile::architecture() const noexcept { return body_->architecture; }
const std::string& ModelFile::name() const noexcept { return body_->name; }
const text::TokenizerSpec& ModelFile::tokenizer() const noexcept { return body_->tokenizer; }
const SamplingDefaults& ModelFile::sampling() const noexcept { return body_->sampling; }
std::span<const MetadataEntry> ModelFile::metadata() const noexcept { return body_->entries; }
std::span<const TensorInfo> ModelFile::tensors() const noexcept { return body_->tensors; }
std::uint64_t ModelFile::tensor_bytes() const noexcept { return body_->tensor_bytes; }

HyperParameters ModelFile::hyper_parameters() const {
  return named(*body_->sources.front(),
               [&] { return read_hyper_parameters(*body_->metadata, body_->tokenizer.tokens.size()); });
}

void ModelFile::fail_missing_key(std::string_view field) const {
  core::fail(ErrorCode::corrupt, "{}: key '{}' is missing", body_->sources.front()->name(),
             printable(key_of_field(body_->architecture, field)));
}

const TensorInfo* ModelFile::find(Role role, int layer, bool bias) const noexcept {
  const std::uint64_t key = sort_key(role, layer, bias);
  const auto at = std::lower_bound(body_->by_role.begin(), body_->by_role.end(), std::pair(key, std::uint32_t{0}));
  return at != body_->by_role.end() && at->first == key ? &body_->tensors[at->second] : nullptr;
}

const TensorInfo& ModelFile::require(Role role, int layer, bool bias) const {
  if (const TensorInfo* tensor = find(role, layer, bias)) return *tensor;
  core::fail(ErrorCode::not_found, "{}: tensor '{}' is missing", body_->sources.front()->name(),
             tensor_name(role, layer, bias));
}

const TensorInfo& ModelFile::require(Role role, int layer, std::initializer_list<std::int64_t> dims, bool bias) const {
  require(role, layer, bias);
  return *optional(role, layer, dims, bias);
}

const TensorInfo* ModelFile::optional(Role role, int layer, std::initializer_list<std::int64_t> dims, bool bias) const {
  const TensorInfo* tensor = find(role, layer, bias);
  if (!tensor) return nullptr;
  std::array<std::uint64_t, 4> expected{1, 1, 1, 1};
  bool possible = dims.size() <= expected.size();
  for (std::size_t i = 0; i < dims.size() && possible; ++i) {
    const std::int64_t size = dims.begin()[i];
    possible = size > 0;
    expected[i] = static_cast<std::uint64_t>(size);
  }
  if (possible && expected == tensor->dims) return tensor;
  core::fail(ErrorCode::corrupt, "{}: tensor '{}' has the shape {}, not [{}]", body_->sources.front()->name(),
             printable(tensor->name), shape_text(tensor->dims.data(), static_cast<std::size_t>(tensor->n_dims)),
             fmt::join(dims, ", "));
}

void ModelFile::read(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > tensor.bytes || out.size() > tensor.bytes - offset) {
    core::fail(ErrorCode::invalid_argument, "{} bytes at byte {} of tensor '{}', which has {}", out.size(), offset,
               printable(tensor.name), tensor.bytes);
  }
  body_->sources.at(static_cast<std::size_t>(tensor.part))->read_at(tensor.offset + offset, out);
}

std::span<const std::byte> ModelFile::mapped(const TensorInfo& tensor) const noexcept {
  const std::span<const std::byte> all = body_->sources[static_cast<std::size_t>(tensor.part)]->mapping();
  if (all.empty()) return {};
  return all.subspan(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.bytes));
}

std::optional<std::vector<core::FileIdentity>> ModelFile::identity() const {
  std::vector<core::FileIdentity> parts;
  for (const std::shared_ptr<const Source>& source : body_->sources) {
    const std::optional<core::FileIdentity> part = source->identity();
    if (!part) return std::nullopt;
    parts.push_back(*part);
  }
  return parts;
}

std::uint64_t ModelFile::content_hash() const {
  core::FastHasher hasher;
  std::vector<std::byte> piece;
  for (const std::shared_ptr<const Source>& source : body_->sources) {
    hasher.update_value(source->size());
    if (const std::span<const std::byte> all = source->mapping(); !all.empty()) {
      hasher.update(all);
      continue;
    }
    for (std::uint64_t at = 0; at < source->size(); at += piece.size()) {
      piece.resize(static_cast<std::size_t>(std::min(hash_piece, source->size() - at)));
      source->read_at(at, piece);
      hasher.update(piece);
    }
  }
  return hasher.finish();
}

}  // namespace llminfer::format
