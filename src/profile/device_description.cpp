#include <algorithm>
#include <array>
#include <llminfer/device_description.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/fail.h"
#include "core/file.h"
#include "core/guard.h"
#include "profile/description_check.h"
#include "profile/description_json.h"

namespace llminfer {
inline namespace v0 {
namespace {

constexpr std::size_t max_bytes = 64 * 1024;
constexpr int max_replicas = 1024;

/// A figure of the description, its key, and the values it may have.
struct FigureRow {
  const char* key;
  Figure DeviceDescription::*field;
  double least;
  double most;
};

constexpr FigureRow figure_rows[] = {
    FigureRow{"memory", &DeviceDescription::memory, 1, 1e18},
    FigureRow{"bandwidth", &DeviceDescription::bandwidth, 1, 1e18},
    FigureRow{"cache", &DeviceDescription::cache, 0, 1e18},
    FigureRow{"f32", &DeviceDescription::f32, 1, 1e21},
    FigureRow{"f16", &DeviceDescription::f16, 1, 1e21},
    FigureRow{"int8", &DeviceDescription::int8, 1, 1e21},
    FigureRow{"bandwidth_share", &DeviceDescription::bandwidth_share, 1e-6, 1},
    FigureRow{"compute_share", &DeviceDescription::compute_share, 1e-6, 1},
    FigureRow{"group_overhead", &DeviceDescription::group_overhead, 0, 1},
    FigureRow{"step_overhead", &DeviceDescription::step_overhead, 0, 1},
    FigureRow{"link", &DeviceDescription::link, 0, 1e18},
};

/// Hands out the leaves of the text by path, each once.
class Fields {
 public:
  explicit Fields(std::vector<profile::JsonLeaf> leaves) : leaves_(std::move(leaves)) {}

  std::string text(const std::string& path) {
    const profile::JsonLeaf leaf = take(path);
    const auto* value = std::get_if<std::string>(&leaf.value);
    if (value == nullptr) refuse(path, std::get<double>(leaf.value), "a string");
    return *value;
  }
  double number(const std::string& path, double least, double most) {
    const profile::JsonLeaf leaf = take(path);
    const auto* value = std::get_if<double>(&leaf.value);
    if (value == nullptr) refuse(path, std::get<std::string>(leaf.value), "a number");
    if (*value < least || *value > most) {
      core::fail(ErrorCode::invalid_argument, "device description: '{}' is {}, must be {} to {}", path, *value, least,
                 most);
    }
    return *value;
  }
  int integer(const std::string& path, int least, int most) {
    const double value = number(path, least, most);
    const int rounded = static_cast<int>(value);
    if (static_cast<double>(rounded) < value) refuse(path, value, "an integer");
    return rounded;
  }
  /// One of `names`, by its place.
  template <std::size_t n>
  std::size_t choice(const std::string& path, const std::array<const char*, n>& names) {
    const std::string value = text(path);
    const auto found = std::find(names.begin(), names.end(), value);
    if (found == names.end()) {
      std::string list;
      for (const char* name : names) list.append(list.empty() ? "" : ", ").append(name);
      core::fail(ErrorCode::invalid_argument, "device description: '{}' is '{}', must be one of {}", path,
                 value.substr(0, 64), list);
    }
    return static_cast<std::size_t>(found - names.begin());
  }

  bool has(const std::string& path) const {
    return std::any_of(leaves_.begin(), leaves_.end(), [&](const auto& leaf) { return leaf.path == path; });
  }
  void end() const {
    if (!leaves_.empty()) {
      core::fail(ErrorCode::invalid_argument, "device description: '{}' is no known field", leaves_.front().path);
    }
  }

 private:
  template <class T>
  [[noreturn]] static void refuse(const std::string& path, const T& value, const char* wanted) {
    core::fail(ErrorCode::invalid_argument, "device description: '{}' is '{}', must be {}", path, value, wanted);
  }
  profile::JsonLeaf take(const std::string& path) {
    const auto found =
        std::find_if(leaves_.begin(), leaves_.end(), [&](const auto& leaf) { return leaf.path == path; });
    if (found == leaves_.end()) {
      core::fail(ErrorCode::invalid_argument, "device description: '{}' is absent", path);
    }
    profile::JsonLeaf leaf = std::move(*found);
    leaves_.erase(found);
    return leaf;
  }

  std::vector<profile::JsonLeaf> leaves_;
};

Figure figure(Fields& fields, const FigureRow& row) {
  const std::string path = std::string("figures.") + row.key;
  Figure out;
  out.value = fields.number(path + ".value", row.least, row.most);
  out.source = fields.text(path + ".source");
  if (out.source.find_first_not_of(" \t\r\n") == std::string::npos) {
    core::fail(ErrorCode::invalid_argument,
               "device description: '{}.source' is '{}', must say where the figure is from", path,
               out.source.substr(0, 64));
  }
  return out;
}

DeviceDescription parse_text(std::string_view json) {
  if (json.size() > max_bytes) {
    core::fail(ErrorCode::invalid_argument, "device description: the text has {} bytes, at most {} are read",
               json.size(), max_bytes);
  }
  static constexpr std::array<const char*, 3> kinds = {"f32", "f16", "int8"};
  static constexpr std::array<const char*, 5> caches = {"f32", "f16", "bf16", "q8_0", "q4_0"};
  Fields fields(profile::read_leaves(json));
  fields.integer("format", 1, 1);
  DeviceDescription out;
  out.name = fields.text("name");
  if (fields.has("replicas")) out.replicas = fields.integer("replicas", 1, max_replicas);
  out.page_size = fields.integer("page_size", 8, 128);
  out.default_kv = static_cast<KvType>(fields.choice("default_kv", caches) + static_cast<std::size_t>(KvType::f32));
  out.quantized = static_cast<MultiplyAdd>(fields.choice("quantized", kinds));
  out.half = static_cast<MultiplyAdd>(fields.choice("half", kinds));
  out.attention = static_cast<MultiplyAdd>(fields.choice("attention", kinds));
  for (const FigureRow& row : figure_rows) out.*row.field = figure(fields, row);
  if (fields.has("comment")) fields.text("comment");
  fields.end();
  profile::check(out);
  return out;
}

void check_number(const char* field, double value, double least, double most) {
  if (!(value >= least && value <= most)) {  // not a number is refused too
    core::fail(ErrorCode::invalid_argument, "device description: '{}' is {}, must be {} to {}", field, value, least,
               most);
  }
}

}  // namespace

const char* to_string(MultiplyAdd kind) noexcept {
  switch (kind) {
    case MultiplyAdd::f32:
      return "f32";
    case MultiplyAdd::f16:
      return "f16";
    case MultiplyAdd::int8:
      return "int8";
  }
  return "unknown";
}

Result<DeviceDescription> DeviceDescription::parse(std::string_view json) {
  return core::guard("DeviceDescription::parse", [&] { return parse_text(json); });
}

Result<DeviceDescription> DeviceDescription::file(const std::filesystem::path& path) {
  return core::guard("DeviceDescription::file", [&] {
    const core::File file(path);
    if (file.size() > max_bytes) {
      core::fail(ErrorCode::invalid_argument, "device description: the file has {} bytes, at most {} are read",
                 file.size(), max_bytes);
    }
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    file.read_at(0, std::as_writable_bytes(std::span(text)));
    return parse_text(text);
  });
}

}  // namespace v0

void profile::check(const DeviceDescription& d) {
  if (d.name.empty()) core::fail(ErrorCode::invalid_argument, "device description: 'name' is empty");
  check_number("replicas", d.replicas, 1, max_replicas);
  static constexpr std::array<int, 5> pages = {8, 16, 32, 64, 128};
  if (std::find(pages.begin(), pages.end(), d.page_size) == pages.end()) {
    core::fail(ErrorCode::invalid_argument, "device description: 'page_size' is {}, must be 8, 16, 32, 64 or 128",
               d.page_size);
  }
  if (d.default_kv <= KvType::automatic || d.default_kv > KvType::q4_0) {
    core::fail(ErrorCode::invalid_argument, "device description: 'default_kv' is {}", static_cast<int>(d.default_kv));
  }
  for (const MultiplyAdd kind : {d.quantized, d.half, d.attention}) {
    if (kind <= MultiplyAdd::int8) continue;
    core::fail(ErrorCode::invalid_argument, "device description: a kind of arithmetic is {}", static_cast<int>(kind));
  }
  for (const FigureRow& row : figure_rows) check_number(row.key, (d.*row.field).value, row.least, row.most);
}

}  // namespace llminfer
