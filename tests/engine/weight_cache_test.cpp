// LoadOptions::weight_cache: the same bits with it and without, whatever lies at its path.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "catch.h"
#include "engine_fixture.h"

namespace llminfer::tests {
namespace {

namespace fs = std::filesystem;
using test::Bytes;

/// A folder of its own with model files in it.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "llminfer-weight-cache-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  fs::path operator/(const char* name) const { return path_ / name; }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

Bytes read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  Bytes out(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}

void write_all(const fs::path& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

/// A file that is as old as those of real models: one of the last seconds is not trusted by its times.
void make_old(const fs::path& path) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
}

Result<Model> open(const ModelSource& source, const fs::path& cache, LoadOptions options = {},
                   const char* isa = "auto") {
  options.devices = {cpu(2, isa)};
  options.weight_cache = cache;
  return Model::open(source, options);
}

std::vector<float> logits(const Model& model) {
  Session session = Session::open(model).value();
  session.append(some_tokens(9, model.info().vocabulary)).value();
  session.prefill().value();
  return {session.logits().begin(), session.logits().end()};
}

/// The model of tiny_bytes with another last weight.
Bytes other_bytes() {
  Bytes bytes = tiny_bytes();
  bytes.back() ^= std::byte{1};
  return bytes;
}

TEST_CASE("a weight cache: written, then read, and the same bits each time") {
  const Folder folder;
  const fs::path cache = folder / "cache";
  const ModelSource source = ModelSource::memory(tiny_bytes());
  const Model plain = tiny_model(cpu());
  REQUIRE(plain.info().weight_cache == WeightCache::unused);
  const std::vector<float> truth = logits(plain);
  const Model first = open(source, cache).value();
  REQUIRE(first.info().weight_cache == WeightCache::written);
  REQUIRE(logits(first) == truth);
  const Model second = open(source, cache).value();
  REQUIRE(second.info().weight_cache == WeightCache::read);
  REQUIRE(logits(second) == truth);
  REQUIRE(folder.entries() == 1);
  // The layout is that of every instruction set.
  const Model portable = open(source, cache, {}, "portable").value();
  REQUIRE(portable.info().weight_cache == WeightCache::read);
  REQUIRE(logits(portable) == logits(tiny_model(cpu(2, "portable"))));
  // Who has it mapped keeps it when another model takes its place.
  const Bytes others = other_bytes();
  REQUIRE(open(ModelSource::memory(others), cache).value().info().weight_cache == WeightCache::written);
  REQUIRE(logits(second) == truth);
}

TEST_CASE("a weight cache of a file is known by the file's times, and by its bytes after a copy") {
  const Folder folder;
  const fs::path cache = folder / "cache", file = folder / "model.gguf";
  write_all(file, tiny_bytes());
  const std::vector<float> truth = logits(tiny_model(cpu()));
  REQUIRE(open(ModelSource::file(file), cache).value().info().weight_cache == WeightCache::written);
  REQUIRE(open(ModelSource::file(file), cache).value().info().weight_cache == WeightCache::read);
  const fs::path copy = folder / "copy.gguf";
  write_all(copy, tiny_bytes());
  make_old(copy);
  LoadOptions mapped;
  mapped.map_file = true;
  for (const LoadOptions& options : {LoadOptions{}, mapped}) {
    const Model model = open(ModelSource::file(copy), cache, options).value();
    REQUIRE(model.info().weight_cache == WeightCache::read);
    REQUIRE(logits(model) == truth);
  }
  // Other bytes in the same place, of the same length and time.
  const fs::file_time_type time = fs::last_write_time(copy);
  write_all(copy, other_bytes());
  fs::last_write_time(copy, time);
  const Model changed = open(ModelSource::file(copy), cache).value();
  REQUIRE(changed.info().weight_cache == WeightCache::written);
  REQUIRE(logits(changed) == logits(open(ModelSource::file(copy), {}).value()));
}

TEST_CASE("a damaged weight cache is made anew") {
  const Folder folder;
  const fs::path cache = folder / "cache";
  const ModelSource source = ModelSource::memory(tiny_bytes());
  const std::vector<float> truth = logits(tiny_model(cpu()));
  open(source, cache).value();
  const Bytes good = read_all(cache);
  REQUIRE(good.size() > 4096);
  const auto check = [&](const Bytes& bytes) {
    write_all(cache, bytes);
    const Model model = open(source, cache).value();
    REQUIRE(model.info().weight_cache == WeightCache::written);
    REQUIRE(logits(model) == truth);
    REQUIRE(read_all(cache) == good);
  };
  // A flipped bit in every field of the header, and in the arena's first, middle and last byte.
  for (const std::size_t at : {std::size_t{8}, std::size_t{16}, std::size_t{24}, std::size_t{39}, std::size_t{40},
                               std::size_t{48}, std::size_t{63}, std::size_t{4096}, good.size() / 2, good.size() - 1}) {
    INFO("byte " << at);
    Bytes bad = good;
    bad[at] ^= std::byte{0x10};
    check(bad);
  }
  for (const std::size_t length : {std::size_t{0}, std::size_t{3}, std::size_t{8}, std::size_t{63}, std::size_t{64},
                                   std::size_t{4096}, good.size() / 2, good.size() - 1}) {
    INFO("length " << length);
    check(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)));
  }
  Bytes longer = good;
  longer.push_back(std::byte{0});
  check(longer);
}

TEST_CASE("a weight cache of another model, type of weights or version is made anew") {
  const Folder folder;
  const fs::path cache = folder / "cache";
  const Bytes others = other_bytes();
  const ModelSource one = ModelSource::memory(tiny_bytes()), other = ModelSource::memory(others);
  LoadOptions converted;
  converted.weight_type = WeightType::q4_0;
  for (int round = 0; round < 2; ++round) {
    for (const auto& [source, options] :
         {std::pair(one, LoadOptions{}), std::pair(other, LoadOptions{}), std::pair(one, converted)}) {
      const Model model = open(source, cache, options).value();
      REQUIRE(model.info().weight_cache == WeightCache::written);
      REQUIRE(logits(model) == logits(open(source, {}, options).value()));
      REQUIRE(open(source, cache, options).value().info().weight_cache == WeightCache::read);
    }
  }
}

TEST_CASE("a weight cache that cannot be written is no error; what is none is never replaced") {
  const Folder folder;
  const ModelSource source = ModelSource::memory(tiny_bytes());
  const std::vector<float> truth = logits(tiny_model(cpu()));
  const auto not_written = [&](const fs::path& path) {
    const Model model = open(source, path).value();
    REQUIRE(model.info().weight_cache == WeightCache::not_written);
    REQUIRE(logits(model) == truth);
  };
  not_written(folder / "no" / "such");
  not_written("/proc/llminfer-weight-cache");
  if (::geteuid() != 0) {  // root may write anywhere
    const Folder locked;
    fs::permissions(locked / "", fs::perms::owner_read | fs::perms::owner_exec);
    not_written(locked / "cache");
    fs::permissions(locked / "", fs::perms::owner_all);
  }
  const auto refused = [&](const fs::path& path) {
    const Result<Model> model = open(source, path);
    REQUIRE_FALSE(model.has_value());
    REQUIRE(model.error().code == ErrorCode::invalid_argument);
    REQUIRE(model.error().message.find(path.filename().string()) != std::string::npos);
  };
  const fs::path file = folder / "model.gguf";
  write_all(file, tiny_bytes());
  refused(file);
  REQUIRE(read_all(file) == tiny_bytes());
  write_all(file, Bytes(1, std::byte{'x'}));
  refused(file);
  REQUIRE(read_all(file).size() == 1);
  fs::create_directory(folder / "folder");
  refused(folder / "folder");
  REQUIRE(folder.entries() == 2);
}

TEST_CASE("many load with one weight cache at a time") {
  const Folder folder;
  const fs::path cache = folder / "cache";
  const ModelSource source = ModelSource::memory(tiny_bytes());
  const std::vector<float> truth = logits(tiny_model(cpu()));
  constexpr int loaders = 4;
  for (int round = 0; round < 5; ++round) {
    if (round % 2 == 0) fs::remove(cache);
    if (round == 1) fs::resize_file(cache, fs::file_size(cache) / 2);
    std::array<bool, loaders> good{};
    std::vector<std::thread> threads;
    for (int i = 0; i < loaders; ++i) {
      threads.emplace_back([&, i] {
        const Result<Model> model = open(source, cache);
        good[static_cast<std::size_t>(i)] = model.has_value() &&
                                            model.value().info().weight_cache != WeightCache::not_written &&
                                            logits(model.value()) == truth;
      });
    }
    for (std::thread& thread : threads) thread.join();
    REQUIRE(std::count(good.begin(), good.end(), true) == loaders);
    REQUIRE(open(source, cache).value().info().weight_cache == WeightCache::read);
    REQUIRE(folder.entries() == 1);
  }
}

TEST_CASE("a real model's weight cache: the same logits, and memory that is not the device's") {
  const std::optional<fs::path> file = smollm2();
  if (!file) {
    WARN("skipped: no SmolLM2");
    return;
  }
  const Folder folder;
  std::vector<float> truth;
  std::uint64_t packed = 0;
  for (const WeightCache expected : {WeightCache::written, WeightCache::read}) {
    LoadOptions options;
    const Device device = cpu();
    options.devices = {device};
    options.weight_cache = folder / "cache";
    const Model model = Model::open(ModelSource::file(*file), options).value();
    REQUIRE(model.info().weight_cache == expected);
    if (expected == WeightCache::written) {
      truth = logits(model);
      packed = device.memory_used();
    } else {
      REQUIRE(logits(model) == truth);
      REQUIRE(device.memory_used() + (std::uint64_t{50} << 20) < packed);
    }
  }
}

}  // namespace
}  // namespace llminfer::tests
