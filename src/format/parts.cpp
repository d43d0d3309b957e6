#include "format/parts.h"

#include "core/fail.h"

namespace llminfer::format {
namespace {

using Kind = ModelSource::Body::Kind;

// split.*: 0 and 1 of 1 where the file has no such keys.
struct Split {
  std::int64_t number = 0, count = 1;
  std::optional<std::int64_t> tensors;
};

Split split_of(const Metadata& metadata) {
  Split split;
  split.number = metadata.integer("split.no").value_or(0);
  split.count = std::max<std::int64_t>(1, metadata.integer("split.count").value_or(1));
  split.tensors = metadata.integer("split.tensors.count");
  return split;
}

LoadedPart load_part(const ModelSource::Body& body, const std::stop_token& stop, OpenOptions options) {
  std::shared_ptr<const Source> source = open_source(body, options.map);
  GgufPart gguf = named(*source, [&] { return parse_gguf(*source, stop, options.metadata_only); });
  return {std::move(source), std::move(gguf)};
}

void check_number(const LoadedPart& part, std::size_t index, std::size_t count) {
  const Split split = split_of(part.gguf.metadata);
  if (split.number == static_cast<std::int64_t>(index) && split.count == static_cast<std::int64_t>(count)) return;
  core::fail(ErrorCode::mismatch, "{}: keys 'split.no' and 'split.count' are {} and {}, not {} and {}",
             part.source->name(), split.number, split.count, index, count);
}

void check_total(const std::vector<LoadedPart>& parts) {
  const Split split = split_of(parts.front().gguf.metadata);
  std::size_t tensors = 0;
  for (const LoadedPart& part : parts) tensors += part.gguf.tensors.size();
  if (!split.tensors || *split.tensors == static_cast<std::int64_t>(tensors)) return;
  core::fail(ErrorCode::mismatch, "{}: key 'split.tensors.count' is {}, but the {} parts have {}",
             parts.front().source->name(), *split.tensors, parts.size(), tensors);
}

std::vector<LoadedPart> load_list(const std::vector<ModelSource>& sources, const std::stop_token& stop,
                                  OpenOptions options) {
  if (sources.empty()) core::fail(ErrorCode::invalid_argument, "ModelSource::parts was given no parts");
  std::vector<LoadedPart> parts;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    parts.push_back(load_part(sources[i].body(), stop, options));
    check_number(parts.back(), i, sources.size());
  }
  if (!options.metadata_only) check_total(parts);
  return parts;
}

}  // namespace

std::vector<LoadedPart> load_parts(const ModelSource::Body& body, const std::stop_token& stop, OpenOptions options) {
  if (body.kind == Kind::parts) return load_list(body.parts, stop, options);
  std::vector<LoadedPart> single;
  single.push_back(load_part(body, stop, options));
  const Split split = split_of(single.front().gguf.metadata);
  if (split.count == 1) return single;

  const auto siblings = body.kind == Kind::file ? split_siblings(body.path) : std::nullopt;
  if (!siblings) {
    core::fail(ErrorCode::mismatch, "{}: key 'split.count' is {}, but only one part was given",
               single.front().source->name(), split.count);
  }
  if (static_cast<std::int64_t>(siblings->size()) != split.count) {
    core::fail(ErrorCode::mismatch, "{}: key 'split.count' is {}, but the file's name says {}",
               single.front().source->name(), split.count, siblings->size());
  }
  std::vector<ModelSource> sources;
  for (const std::filesystem::path& path : *siblings) sources.push_back(ModelSource::file(path));
  return load_list(sources, stop, options);
}

}  // namespace llminfer::format
