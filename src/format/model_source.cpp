#include <llminfer/model_source.hpp>
#include <utility>

#include "format/source.h"

namespace llminfer {
inline namespace v0 {

Reader::~Reader() = default;

ModelSource::ModelSource(std::shared_ptr<const Body> body) noexcept : body_(std::move(body)) {}

ModelSource ModelSource::file(std::filesystem::path path) {
  auto body = std::make_shared<Body>();
  body->kind = Body::Kind::file;
  body->path = std::move(path);
  return ModelSource(std::move(body));
}

ModelSource ModelSource::memory(std::span<const std::byte> bytes) {
  auto body = std::make_shared<Body>();
  body->kind = Body::Kind::memory;
  body->bytes = bytes;
  return ModelSource(std::move(body));
}

ModelSource ModelSource::reader(std::shared_ptr<Reader> reader) {
  auto body = std::make_shared<Body>();
  body->kind = Body::Kind::reader;
  body->reader = std::move(reader);
  return ModelSource(std::move(body));
}

ModelSource ModelSource::parts(std::vector<ModelSource> parts) {
  auto body = std::make_shared<Body>();
  body->kind = Body::Kind::parts;
  body->parts = std::move(parts);
  return ModelSource(std::move(body));
}

}  // namespace v0
}  // namespace llminfer
