#include "core/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <llminfer/error.hpp>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "core/new_file.h"

using namespace llminfer;
using namespace llminfer::core;

namespace {

// A folder of its own, with a name outside ASCII, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "llminfer-\u00fcn\u00efcode-\u6a21-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path write(const char* name, const std::string& content) const {
    const std::filesystem::path file = path_ / name;
    std::ofstream(file, std::ios::binary) << content;
    return file;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

template <class F>
Error error_of(F&& call) {
  try {
    call();
  } catch (const Exception& exception) {
    return exception.error();
  }
  return Error{ErrorCode::cancelled, "nothing was thrown", "", 0, 0};
}

std::string read_text(const File& file, std::uint64_t offset, std::size_t bytes) {
  std::string text(bytes, '?');
  file.read_at(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

std::string counting_text(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>((i * 7 + i / 251) & 0xff);
  return text;
}

}  // namespace

TEST_CASE("reads at offsets, up to the last byte and no further") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.write("m\u00f6del.bin", "0123456789");
  const File file(path);
  CHECK(file.size() == 10);
  CHECK(read_text(file, 0, 10) == "0123456789");
  CHECK(read_text(file, 7, 3) == "789");
  CHECK(read_text(file, 10, 0).empty());
  for (const std::uint64_t offset : {std::uint64_t{8}, std::uint64_t{11}, ~std::uint64_t{0}, ~std::uint64_t{0} - 1}) {
    const Error error = error_of([&] { read_text(file, offset, 3); });
    CHECK(error.code == ErrorCode::truncated);
    CHECK(error.message.find(path.string()) != std::string::npos);
    CHECK(error.message.find(std::to_string(offset)) != std::string::npos);
  }
}

TEST_CASE("a file that shrinks while open is truncated, not a crash") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.write("a", counting_text(100000));
  const File file(path);
  std::filesystem::resize_file(path, 50000);
  CHECK(read_text(file, 0, 50000) == counting_text(50000));
  const Error error = error_of([&] { read_text(file, 40000, 20000); });
  CHECK(error.code == ErrorCode::truncated);
  CHECK(error.message.find("ends at byte 50000") != std::string::npos);
}

TEST_CASE("what cannot be opened is a typed error that names the path") {
  const TemporaryFolder folder;
  const Error missing = error_of([&] { File file(folder.path() / "missing"); });
  CHECK(missing.code == ErrorCode::not_found);
  CHECK(missing.message.find((folder.path() / "missing").string()) != std::string::npos);
  CHECK(error_of([&] { File file(folder.write("f", "x") / "below"); }).code == ErrorCode::not_found);
  CHECK(error_of([&] { File file{std::filesystem::path()}; }).code == ErrorCode::not_found);
  CHECK(error_of([&] { File file(folder.path()); }).code == ErrorCode::invalid_argument);
  const std::filesystem::path pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(error_of([&] { File file(pipe); }).code == ErrorCode::invalid_argument);
  const std::string zero_inside = (folder.path() / "f").string() + std::string("\0x", 2);
  CHECK(error_of([&] { File file{std::filesystem::path(zero_inside)}; }).code == ErrorCode::invalid_argument);
  CHECK(error_of([&] { MappedFile file(folder.path() / "missing"); }).code == ErrorCode::not_found);
}

TEST_CASE("moving keeps one owner of the descriptor") {
  const TemporaryFolder folder;
  File first(folder.write("a", "first"));
  File second(folder.write("b", "second"));
  File moved = std::move(first);
  CHECK(read_text(moved, 0, 5) == "first");
  moved = std::move(second);
  CHECK(moved.size() == 6);
  CHECK(read_text(moved, 0, 6) == "second");
}

TEST_CASE("several threads read the same file") {
  const TemporaryFolder folder;
  const std::string content = counting_text(1 << 20);
  const File file(folder.write("big", content));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::byte> block(1000);
      for (std::size_t i = 0; i < 500; ++i) {
        const std::size_t offset = (i * 2003 + static_cast<std::size_t>(t) * 37) % (content.size() - block.size());
        file.read_at(offset, block);
        for (std::size_t k = 0; k < block.size(); ++k) {
          if (block[k] != static_cast<std::byte>(content[offset + k])) wrong.fetch_add(1);
        }
        file.advise_dont_need(offset, block.size());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong.load() == 0);
}

TEST_CASE("advice about any range is harmless") {
  const TemporaryFolder folder;
  const File file(folder.write("a", "0123456789"));
  file.advise_dont_need(0, 0);
  file.advise_dont_need(~std::uint64_t{0}, ~std::uint64_t{0});
  file.advise_dont_need(3, ~std::uint64_t{0});
  CHECK(read_text(file, 0, 10) == "0123456789");
}

TEST_CASE("a mapped file shows the same bytes") {
  const TemporaryFolder folder;
  const std::string content = counting_text(10000);
  MappedFile mapped(folder.write("a", content));
  MappedFile moved = std::move(mapped);
  REQUIRE(moved.bytes().size() == content.size());
  CHECK(std::string(reinterpret_cast<const char*>(moved.bytes().data()), content.size()) == content);
  CHECK(MappedFile(folder.write("empty", "")).bytes().empty());
  CHECK(File(folder.path() / "empty").size() == 0);
}

TEST_CASE("a new file appears whole, in place of the old one, or not at all") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.write("cache", "old");
  const auto entries = [&] { return std::distance(std::filesystem::directory_iterator(folder.path()), {}); };
  {
    NewFile file(path);
    file.append(std::as_bytes(std::span("new", 3)));
    CHECK(entries() == 2);
    CHECK(read_text(File(path), 0, 3) == "old");
  }
  CHECK(entries() == 1);  // nothing was committed
  CHECK(read_text(File(path), 0, 3) == "old");
  const File before(path);
  {
    NewFile one(path), other(path);  // two writers at a time
    one.append(std::as_bytes(std::span("first", 5)));
    other.append(std::as_bytes(std::span("sec", 3)));
    other.append({});
    other.append(std::as_bytes(std::span("ond", 3)));
    one.commit();
    CHECK(read_text(File(path), 0, 5) == "first");
    other.commit();
  }
  CHECK(read_text(File(path), 0, 6) == "second");
  CHECK(read_text(before, 0, 3) == "old");  // who had it open keeps it
  CHECK(entries() == 1);
  CHECK(error_of([&] { NewFile(folder.path() / "none" / "file"); }).code == ErrorCode::not_found);
  CHECK(error_of([&] { NewFile(folder.path() / std::string(300, 'x')); }).code == ErrorCode::invalid_argument);
  CHECK(error_of([&] { NewFile(std::string("a\0b", 3)); }).code == ErrorCode::invalid_argument);
  std::filesystem::create_directory(folder.path() / "folder");
  NewFile onto_folder(folder.path() / "folder");
  CHECK(error_of([&] { onto_folder.commit(); }).code == ErrorCode::invalid_argument);
}

TEST_CASE("an identity changes with the file's content, time or place") {
  const TemporaryFolder folder;
  const File file(folder.write("a", "text"));
  const FileIdentity first = file.identity();
  CHECK(first == file.identity());
  CHECK(first.size == 4);
  CHECK_FALSE(first == File(folder.write("b", "text")).identity());
  std::ofstream(folder.path() / "a", std::ios::app) << "x";
  CHECK(file.identity().size == 5);
  std::filesystem::last_write_time(folder.path() / "a",
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  CHECK(file.identity().modified < first.modified);
}
