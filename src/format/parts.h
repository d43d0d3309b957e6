// The parts of a model: one file, or several that were split.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "format/gguf.h"
#include "format/model_file.h"
#include "format/source.h"

namespace llminfer::format {

struct LoadedPart {
  std::shared_ptr<const Source> source;
  GgufPart gguf;
};

/// Opens and parses all parts in order and checks that they belong together.
std::vector<LoadedPart> load_parts(const ModelSource::Body& body, const std::stop_token& stop, OpenOptions options);

/// Runs `call`; an Exception from it gets the source's name in front of its message.
template <class Call>
auto named(const Source& source, Call&& call) {
  try {
    return call();
  } catch (const Exception& exception) {
    Error error = exception.error();
    error.message = source.name() + ": " + error.message;
    throw Exception(std::move(error));
  }
}

}  // namespace llminfer::format
