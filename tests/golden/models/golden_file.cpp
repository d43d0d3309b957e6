#include "golden_file.h"

#include <fstream>

namespace llminfer::test {
namespace {

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), in_(path, std::ios::binary) {}
  std::int32_t integer() {
    std::int32_t value = 0;
    fill(&value, sizeof value);
    return value;
  }
  std::int32_t count() {
    const std::int32_t value = integer();
    if (value < 1 || value > 100000) throw std::runtime_error(path_ + ": a count is " + std::to_string(value));
    return value;
  }
  void fill(void* out, std::size_t bytes) {
    in_.read(static_cast<char*>(out), static_cast<std::streamsize>(bytes));
    if (!in_) throw std::runtime_error(path_ + ": missing or cut short");
  }

 private:
  std::string path_;
  std::ifstream in_;
};

}  // namespace

Golden read_golden(const std::string& path) {
  constexpr std::int32_t magic = 0x474f4c44;
  Reader in(path);
  if (in.integer() != magic) throw std::runtime_error(path + ": no golden file");
  Golden golden;
  golden.context = in.count();
  golden.tokens.resize(static_cast<std::size_t>(in.count()));
  for (Token& token : golden.tokens) token = in.integer();
  golden.rows.resize(static_cast<std::size_t>(in.count()));
  golden.vocabulary = in.count();
  for (GoldenRow& row : golden.rows) {
    row.position = in.integer();
    row.logits.resize(static_cast<std::size_t>(golden.vocabulary));
    in.fill(row.logits.data(), row.logits.size() * sizeof(float));
  }
  return golden;
}

}  // namespace llminfer::test
