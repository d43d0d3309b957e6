// A plug-in of some application that has llminfer inside, linked statically.
#include <cstring>
#include <string>

#include <llminfer/llminfer.hpp>

// Generates from a model into `text` (at most `size` bytes with the final
// zero). 0, or 1 with a message in `text`.
extern "C" __attribute__((visibility("default"))) int plugin_generate(const char* path, char* text, std::size_t size) {
  std::string out;
  int result = 0;
  try {
    const auto model = llminfer::Model::open(llminfer::ModelSource::file(path)).value();
    auto session = llminfer::Session::open(model, {.context = 64}).value();
    session.append(model.tokenizer().encode("Once upon a time").value()).value();
    for (const auto& piece : session.generate({.max_tokens = 8}).value()) out += piece.text;
  } catch (const std::exception& error) {
    out = error.what();
    result = 1;
  }
  std::strncpy(text, out.c_str(), size - 1);
  text[size - 1] = '\0';
  return result;
}
