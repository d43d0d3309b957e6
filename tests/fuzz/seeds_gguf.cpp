// Writes the seeds of fuzz_gguf into the folder named: a valid file and every malformed one of the unit tests, which
// assert that together they bring out every error of the loader.
#include <filesystem>
#include <fstream>

#include "support/gguf_cases.h"

namespace {

bool write(const std::filesystem::path& path, const llminfer::test::Bytes& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  out.close();
  return static_cast<bool>(out);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const std::filesystem::path folder = arguments[1];
  bool good = write(folder / "valid", llminfer::test::tiny_llama().build());
  for (const llminfer::test::GgufCase& malformed : llminfer::test::malformed_cases()) {
    good = write(folder / malformed.name, malformed.file) && good;
  }
  return good ? 0 : 1;
}
