// Continues a text: llminfer-hello MODEL.gguf "Once upon a time"
#include <iostream>
#include <llminfer/llminfer.hpp>

int main(int argc, char** argv) try {
  if (argc != 3) return 2;
  auto model = llminfer::Model::open(llminfer::ModelSource::file(argv[1])).value();
  auto session = llminfer::Session::open(model).value();
  session.append(model.tokenizer().encode(argv[2]).value()).value();
  for (auto& piece : session.generate({.max_tokens = 100}).value()) std::cout << piece.text << std::flush;
} catch (const llminfer::Exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
