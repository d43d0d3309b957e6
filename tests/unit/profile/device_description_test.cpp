#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <llminfer/device_description.hpp>
#include <sstream>
#include <vector>

#include "catch.h"
#include "profile/description_check.h"

namespace {

using namespace llminfer;
namespace fs = std::filesystem;

fs::path devices() {
  const char* folder = std::getenv("LLMINFER_DEVICES");
  return folder == nullptr ? fs::path() : fs::path(folder);
}

std::string text_of(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// The text is refused as invalid_argument, with a message that has all of `parts`.
void check_refused(const std::string& text, const std::vector<std::string>& parts) {
  const Result<DeviceDescription> result = DeviceDescription::parse(text);
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code == ErrorCode::invalid_argument);
  for (const std::string& part : parts) {
    INFO(result.error().message << " | " << part);
    CHECK(result.error().message.find(part) != std::string::npos);
  }
}

constexpr Figure DeviceDescription::*figures[] = {
    &DeviceDescription::memory,        &DeviceDescription::bandwidth,      &DeviceDescription::f32,
    &DeviceDescription::f16,           &DeviceDescription::int8,           &DeviceDescription::bandwidth_share,
    &DeviceDescription::compute_share, &DeviceDescription::group_overhead, &DeviceDescription::step_overhead,
    &DeviceDescription::link,          &DeviceDescription::cache};

TEST_CASE("every shipped description loads, and every figure has a source") {
  if (devices().empty()) {
    WARN("LLMINFER_DEVICES is not set");
    return;
  }
  int count = 0;
  for (const auto& entry : fs::directory_iterator(devices())) {
    INFO(entry.path());
    const DeviceDescription d = DeviceDescription::file(entry.path()).value();
    CHECK_FALSE(d.name.empty());
    for (const auto figure : figures) CHECK((d.*figure).source.size() >= 10);
    // The same silicon is never slower at narrower types, and memory is slower than arithmetic.
    CHECK(d.f16.value >= d.f32.value);
    CHECK(d.int8.value >= d.f16.value);
    CHECK(d.f32.value > d.bandwidth.value);
    CHECK(&d.rate(MultiplyAdd::int8) == &d.int8);
    CHECK(&d.rate(MultiplyAdd::f16) == &d.f16);
    CHECK(&d.rate(MultiplyAdd::f32) == &d.f32);
    ++count;
  }
  CHECK(count == 6);
  const DeviceDescription eight = DeviceDescription::file(devices() / "h200-x8.json").value();
  CHECK(eight.replicas == 8);
  CHECK(eight.bandwidth.value == Approx(DeviceDescription::file(devices() / "h200.json").value().bandwidth.value));
}

TEST_CASE("a description that is wrong is refused by field and value") {
  if (devices().empty()) return;
  const std::string good = text_of(devices() / "h200.json");
  REQUIRE(DeviceDescription::parse(good).has_value());
  check_refused(replaced(good, "4800000000000.0", "-1"), {"figures.bandwidth.value", "-1"});
  check_refused(replaced(good, "4800000000000.0", "1e400"), {"no valid JSON"});
  check_refused(replaced(good, "4800000000000.0", "\"fast\""), {"figures.bandwidth.value", "fast", "a number"});
  check_refused(replaced(good, "4800000000000.0", "null"), {"figures.bandwidth.value", "null"});
  check_refused(replaced(good, "4800000000000.0", "[1]"), {"figures.bandwidth.value", "array"});
  check_refused(replaced(good, "0.9", "1.5"), {"figures.bandwidth_share.value", "1.5"});
  check_refused(replaced(good, "\"bandwidth\"", "\"bandwith\""), {"figures.bandwidth.value", "absent"});
  check_refused(replaced(good, "\"format\": 1", "\"format\": 2"), {"format", "2"});
  check_refused(replaced(good, "\"format\": 1", "\"format\": 1, \"format\": 1"), {"format", "twice"});
  check_refused(replaced(good, "\"format\": 1", "\"format\": 1, \"speed\": 3"), {"speed", "no known field"});
  check_refused(replaced(good, "\"format\": 1", "\"format\": 1, \"replicas\": 1.5"), {"replicas", "1.5", "integer"});
  check_refused(replaced(good, "\"format\": 1", "\"format\": 1, \"replicas\": 0"), {"replicas", "0"});
  check_refused(replaced(good, "\"page_size\": 16", "\"page_size\": 24"), {"page_size", "24"});
  check_refused(replaced(good, "\"quantized\": \"f16\"", "\"quantized\": \"int4\""), {"quantized", "int4", "int8"});
  check_refused(replaced(good, "\"name\": \"NVIDIA H200 SXM\"", "\"name\": \"\""), {"name"});
  check_refused(replaced(good, "measured on an H200: a copy moves 4.3 TB/s", " "), {"bandwidth_share.source"});
  check_refused("", {"no valid JSON at byte"});
  check_refused("{", {"no valid JSON at byte"});
  check_refused("7", {"no object"});
  check_refused(good + "x", {"no valid JSON at byte"});
  check_refused(std::string(60000, '['), {"array"});
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += "{\"a\":";
  check_refused(deep, {"nests too deep"});
  std::string many = "{";
  for (int i = 0; i < 1000; ++i) many += "\"k" + std::to_string(i) + "\":1,";
  check_refused(many + "\"z\":1}", {"more than 256 keys"});
  check_refused(std::string(70000, ' '), {"70000"});
  check_refused("{\"name\": \"\xff\xfe\"}", {"no valid JSON"});
}

TEST_CASE("every cut of a description is an error, never a crash") {
  if (devices().empty()) return;
  const std::string good = text_of(devices() / "epyc-2core.json");
  const std::size_t end = good.rfind('}');
  for (std::size_t n = 0; n <= end; n += 7) CHECK_FALSE(DeviceDescription::parse(good.substr(0, n)).has_value());
}

TEST_CASE("a description made by hand is checked before it is used") {
  if (devices().empty()) return;
  DeviceDescription d = DeviceDescription::file(devices() / "h100.json").value();
  profile::check(d);
  d.bandwidth.value = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(profile::check(d), Exception);
  d.bandwidth.value = 0;
  CHECK_THROWS_AS(profile::check(d), Exception);
  d.bandwidth.value = 1e12;
  d.page_size = 0;
  CHECK_THROWS_AS(profile::check(d), Exception);
}

TEST_CASE("a file that is not there is not_found") {
  const Result<DeviceDescription> result = DeviceDescription::file("/nowhere/device.json");
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code == ErrorCode::not_found);
  CHECK(result.error().message.find("/nowhere/device.json") != std::string::npos);
}

}  // namespace
