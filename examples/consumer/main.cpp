// Uses the library as an application would, through its installed headers alone.
// usage: consumer [MODEL.gguf]   with a model: loads it and continues a text
#include <array>
#include <cstdio>
#include <llminfer/llminfer.hpp>
#include <llminfer/weight_type.hpp>
#include <string>

namespace {

// What is not a model is an Error that says so.
bool refuses_what_is_no_model() {
  const std::array<std::byte, 64> zeros{};
  const auto model = llminfer::Model::open(llminfer::ModelSource::memory(zeros));
  if (model) return false;
  std::printf("%s: %s\n", llminfer::to_string(model.error().code), model.error().message.c_str());
  return model.error().code == llminfer::ErrorCode::not_gguf;
}

// Returns whether the model wrote something, and the same twice.
bool continues_a_text(const char* path) {
  const auto model = llminfer::Model::open(llminfer::ModelSource::file(path), {.context = 64}).value();
  const auto prompt = model.tokenizer().encode("The capital of France is").value();
  auto session = llminfer::Session::open(model).value();
  std::array<std::string, 2> texts;
  for (std::string& text : texts) {
    session.rewind(0).value();
    session.append(prompt).value();
    for (const auto& piece : session.generate({.max_tokens = 16}).value()) text += piece.text;
  }
  std::printf("%s:%s\n", model.info().name.c_str(), texts[0].c_str());
  return !texts[0].empty() && texts[0] == texts[1];
}

}  // namespace

int main(int argc, char** argv) try {
  const auto& format = llminfer::describe(llminfer::WeightType::q4_0);
  std::printf("%s: %u weights in %u bytes\n", format.name.data(), format.block_size, format.block_bytes);
  const auto device = llminfer::Device::cpu().value().info().value();
  std::printf("%s: %s, %d threads\n", device.name.c_str(), device.isa.c_str(), device.threads);
  if (!refuses_what_is_no_model()) return 1;
  return argc < 2 || continues_a_text(argv[1]) ? 0 : 1;
} catch (const llminfer::Exception& error) {
  std::fprintf(stderr, "%s: %s\n", llminfer::to_string(error.error().code), error.what());
  return 1;
}
