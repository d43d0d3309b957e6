// Files, memory, readers and split models as sources.
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "catch.h"
#include "format/model_file.h"
#include "support/gguf_builder.h"

namespace llminfer::format {
namespace {

namespace fs = std::filesystem;
using test::Bytes;
using test::GgufBuilder;
using test::tiny_llama;

// A folder that goes away again, with a name of many scripts.
class Folder {
 public:
  Folder() {
    path_ = fs::temp_directory_path() /
            fs::path(u8"llminfer модель 🦙 ü " + fs::path(std::to_string(::getpid())).u8string());
    fs::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path write(const fs::path& name, const Bytes& bytes) const {
    std::ofstream out(path_ / name, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return path_ / name;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class BytesReader : public Reader {
 public:
  explicit BytesReader(Bytes bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Result<void> read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    ++calls;
    if (fail_from_call > 0 && calls >= fail_from_call) {
      if (throws) throw std::runtime_error("no key");
      return Error{ErrorCode::device_lost, "the disk is gone"};
    }
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }
  mutable std::atomic<int> calls{0};
  int fail_from_call = 0;
  bool throws = false;

 private:
  Bytes bytes_;
};

Error error_of(const ModelSource& source, std::stop_token stop = {}) {
  try {
    ModelFile::open(source, std::move(stop));
  } catch (const Exception& exception) {
    return exception.error();
  }
  FAIL("opened");
  return {};
}

void check_error(const ModelSource& source, ErrorCode code, const std::string& said) {
  const Error error = error_of(source);
  INFO(error.message);
  CHECK(std::string(to_string(error.code)) == to_string(code));
  CHECK(error.message.find(said) != std::string::npos);
}

void check_same(const ModelFile& file, const GgufBuilder& builder) {
  REQUIRE(file.tensors().size() == builder.tensors.size());
  for (const test::GgufTensor& expected : builder.tensors) {
    const RoleName role = parse_tensor_name(expected.name);
    const TensorInfo& tensor = file.require(role.role, role.layer, role.bias);
    Bytes data(static_cast<std::size_t>(tensor.bytes));
    file.read(tensor, 0, data);
    CHECK(data == expected.data);
  }
}

// Three parts: all keys in the first, tensors dealt out in turn.
std::vector<Bytes> split(const GgufBuilder& whole) {
  std::vector<GgufBuilder> parts(3);
  parts[0].keys = whole.keys;
  for (std::uint16_t i = 0; i < 3; ++i) {
    parts[i].number("split.no", i).number("split.count", std::uint16_t{3});
    parts[i].number("split.tensors.count", static_cast<std::int32_t>(whole.tensors.size()));
  }
  for (std::size_t i = 0; i < whole.tensors.size(); ++i)
    parts[i * 3 / whole.tensors.size()].tensors.push_back(whole.tensors[i]);
  return {parts[0].build(), parts[1].build(), parts[2].build()};
}

TEST_CASE("a file, read and mapped") {
  const Folder folder;
  const GgufBuilder builder = tiny_llama();
  const fs::path path = folder.write(u8"имя 😀.gguf", builder.build());
  const ModelFile file = ModelFile::open(ModelSource::file(path));
  check_same(file, builder);
  CHECK(file.mapped(file.tensors()[0]).empty());
  OpenOptions options;
  options.map = true;
  const ModelFile mapped = ModelFile::open(ModelSource::file(path), {}, options);
  check_same(mapped, builder);
  const std::span<const std::byte> bytes = mapped.mapped(mapped.require(Role::output_norm));
  CHECK(Bytes(bytes.begin(), bytes.end()) == builder.tensors[1].data);
}

TEST_CASE("files that are none") {
  const Folder folder;
  check_error(ModelSource::file(folder.path() / u8"нет.gguf"), ErrorCode::not_found, "нет.gguf");
  check_error(ModelSource::file(folder.path()), ErrorCode::invalid_argument, "not a regular file");
  check_error(ModelSource::file("/dev/zero"), ErrorCode::invalid_argument, "not a regular file");
  check_error(ModelSource::file({}), ErrorCode::not_found, "cannot open");
  check_error(ModelSource::file(folder.write("empty.gguf", {})), ErrorCode::truncated, "empty.gguf");
  check_error(ModelSource::file(folder.write("text.gguf", Bytes(100, std::byte{'x'}))), ErrorCode::not_gguf, "xxxx");
  check_error(ModelSource::memory({}), ErrorCode::truncated, "memory");
}

TEST_CASE("a reader") {
  const GgufBuilder builder = tiny_llama();
  const auto reader = std::make_shared<BytesReader>(builder.build());
  const ModelFile file = ModelFile::open(ModelSource::reader(reader));
  CHECK(reader->calls <= 2);
  check_same(file, builder);
  SECTION("from several threads") {
    std::atomic<int> equal{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (const TensorInfo& tensor : file.tensors()) {
          Bytes data(static_cast<std::size_t>(tensor.bytes));
          file.read(tensor, 0, data);
          for (const test::GgufTensor& expected : builder.tensors) {
            if (expected.name == tensor.name && expected.data == data) ++equal;
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(equal == 4 * static_cast<int>(builder.tensors.size()));
  }
}

TEST_CASE("a reader that fails") {
  const auto reader = std::make_shared<BytesReader>(tiny_llama().build());
  reader->fail_from_call = 1;
  check_error(ModelSource::reader(reader), ErrorCode::device_lost, "the disk is gone");
  reader->throws = true;
  check_error(ModelSource::reader(reader), ErrorCode::callback_failed, "no key");
  check_error(ModelSource::reader(nullptr), ErrorCode::invalid_argument, "null");
  reader->calls = 0;
  reader->fail_from_call = 2;
  const ModelFile file = ModelFile::open(ModelSource::reader(reader));
  Bytes data(4);
  CHECK_THROWS_AS(file.read(file.tensors()[0], 0, data), Exception);
}

TEST_CASE("a stop before reading") {
  std::stop_source stop;
  stop.request_stop();
  const Bytes bytes = tiny_llama().build();
  CHECK(std::string(to_string(error_of(ModelSource::memory(bytes), stop.get_token()).code)) == "cancelled");
}

TEST_CASE("split models") {
  const Folder folder;
  const GgufBuilder builder = tiny_llama();
  const std::vector<Bytes> parts = split(builder);
  const auto name = [](int i) { return "m-0000" + std::to_string(i) + "-of-00003.gguf"; };
  std::vector<ModelSource> sources;
  for (int i = 0; i < 3; ++i) {
    folder.write(name(i + 1), parts[static_cast<std::size_t>(i)]);
    sources.push_back(ModelSource::memory(parts[static_cast<std::size_t>(i)]));
  }
  SECTION("found by the name of any part") {
    for (int i = 1; i <= 3; ++i) {
      const ModelFile file = ModelFile::open(ModelSource::file(folder.path() / name(i)));
      check_same(file, builder);
      CHECK(file.architecture() == "llama");
      CHECK(file.tensors().back().part == 2);
    }
  }
  SECTION("given part by part") { check_same(ModelFile::open(ModelSource::parts(sources)), builder); }
  SECTION("one part alone") { check_error(sources[0], ErrorCode::mismatch, "split.count"); }
  SECTION("in the wrong order") {
    std::swap(sources[1], sources[2]);
    check_error(ModelSource::parts(sources), ErrorCode::mismatch, "split.no");
  }
  SECTION("too few") {
    sources.pop_back();
    check_error(ModelSource::parts(sources), ErrorCode::mismatch, "3");
  }
  SECTION("none") { check_error(ModelSource::parts({}), ErrorCode::invalid_argument, "no parts"); }
  SECTION("parts of parts") {
    check_error(ModelSource::parts({ModelSource::parts(sources), sources[1], sources[2]}), ErrorCode::invalid_argument,
                "parts");
  }
  SECTION("a sibling that is missing") {
    fs::remove(folder.path() / name(2));
    check_error(ModelSource::file(folder.path() / name(1)), ErrorCode::not_found, name(2));
  }
  SECTION("a name that does not tell its siblings") {
    check_error(ModelSource::file(folder.write("renamed.gguf", parts[0])), ErrorCode::mismatch, "split.count");
  }
  SECTION("the same tensor in two parts") {
    GgufBuilder twice = builder;
    twice.tensors.back().name = twice.tensors.front().name;
    const std::vector<Bytes> bad = split(twice);
    check_error(
        ModelSource::parts({ModelSource::memory(bad[0]), ModelSource::memory(bad[1]), ModelSource::memory(bad[2])}),
        ErrorCode::corrupt, "token_embd.weight");
  }
}

}  // namespace
}  // namespace llminfer::format
