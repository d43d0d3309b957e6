#include "profile/ceilings_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "profile/json_writer.h"

#ifndef LLMINFER_VERSION
#error "the build names the version"
#endif

namespace llminfer::profile {
namespace {

using Json = nlohmann::json;

constexpr std::string_view format_name = "llminfer ceilings";
constexpr const char* families[] = {"matmul", "attention", "rows"};
constexpr std::size_t most_entries = 10'000;

void write(JsonWriter& json, std::string_view key, const MeasuredRate& rate) {
  json.begin_object(key);
  json.number("best", rate.best);
  json.number("spread", rate.spread);
  json.end_object();
}

void write(JsonWriter& json, const ThreadCeilings& at) {
  json.begin_object();
  json.integer("threads", at.threads);
  write(json, "read", at.read);
  write(json, "copy", at.copy);
  json.begin_array("caches");
  for (const CacheCeiling& cache : at.caches) {
    json.begin_object();
    json.integer("level", cache.level);
    json.count("bytes", cache.bytes);
    write(json, "read", cache.read);
    json.end_object();
  }
  json.end_array();
  write(json, "f32", at.f32);
  write(json, "int8", at.int8);
  write(json, "bf16", at.bf16);
  json.number("barrier_s", at.barrier_s);
  json.end_object();
}

/// Members of a parsed file; whatever is missing or out of range makes the whole file invalid.
class Reader {
 public:
  bool ok() const noexcept { return ok_; }

  double number(const Json& object, const char* key, double most) {
    const Json* at = find(object, key);
    if (at == nullptr || !at->is_number()) return refuse();
    const double value = at->get<double>();
    const bool in_range = value >= 0 && value <= most;
    return in_range ? value : refuse();
  }
  int integer(const Json& object, const char* key, int most) {
    return static_cast<int>(std::lround(number(object, key, most)));
  }
  std::string text(const Json& object, const char* key) {
    const Json* at = find(object, key);
    if (at == nullptr || !at->is_string()) return refuse(), std::string();
    return at->get<std::string>();
  }
  const Json& array(const Json& object, const char* key) {
    const Json* at = find(object, key);
    const bool good = at != nullptr && at->is_array() && at->size() <= most_entries;
    if (!good) refuse();
    return good ? *at : empty_;
  }
  MeasuredRate rate(const Json& object, const char* key) {
    const Json* at = find(object, key);
    if (at == nullptr) return refuse(), MeasuredRate();
    return {number(*at, "best", 1e18), number(*at, "spread", 1)};
  }
  int refuse() noexcept {
    ok_ = false;
    return 0;
  }

 private:
  static const Json* find(const Json& object, const char* key) {
    if (!object.is_object()) return nullptr;
    const auto at = object.find(key);
    return at == object.end() ? nullptr : &*at;
  }

  bool ok_ = true;
  const Json empty_ = Json::array();
};

ThreadCeilings thread_ceilings(Reader& reader, const Json& json) {
  ThreadCeilings out;
  out.threads = reader.integer(json, "threads", 4096);
  out.read = reader.rate(json, "read");
  out.copy = reader.rate(json, "copy");
  for (const Json& c : reader.array(json, "caches")) {
    out.caches.push_back({reader.integer(c, "level", 9), static_cast<std::uint64_t>(reader.number(c, "bytes", 1e15)),
                          reader.rate(c, "read")});
  }
  out.f32 = reader.rate(json, "f32");
  out.int8 = reader.rate(json, "int8");
  out.bf16 = reader.rate(json, "bf16");
  out.barrier_s = reader.number(json, "barrier_s", 1);
  return out;
}

Efficiency efficiency(Reader& reader, const Json& json) {
  Efficiency out;
  const std::string family = reader.text(json, "family"), type = reader.text(json, "type");
  bool known = false;
  for (std::size_t i = 0; i < std::size(families); ++i) {
    if (family == families[i]) out.family = static_cast<KernelFamily>(i), known = true;
  }
  bool known_type = false;
  for (int i = 0; i <= static_cast<int>(WeightType::mxfp4); ++i) {
    if (describe(static_cast<WeightType>(i)).name == type) out.type = static_cast<WeightType>(i), known_type = true;
  }
  if (!known || !known_type) reader.refuse();
  out.tokens = reader.integer(json, "tokens", 1 << 20);
  out.context = reader.integer(json, "context", 1 << 24);
  out.width = reader.integer(json, "width", 1 << 24);
  out.share = reader.number(json, "share", 1e3);
  return out;
}

}  // namespace

const char* library_version() noexcept { return LLMINFER_VERSION; }

std::string to_json(const Ceilings& c) {
  JsonWriter json;
  json.begin_object();
  json.text("format", format_name);
  json.integer("version", ceilings_version);
  json.text("library", c.library);
  json.text("device", c.device);
  json.text("name", c.name);
  json.text("isa", c.isa);
  json.integer("threads", c.threads);
  json.boolean("busy", c.busy);
  json.number("op_overhead_s", c.op_overhead_s);
  json.number("step_overhead_s", c.step_overhead_s);
  json.number("sample_s", c.sample_s);
  json.begin_array("at");
  for (const ThreadCeilings& at : c.at) write(json, at);
  json.end_array();
  json.begin_array("efficiencies");
  for (const Efficiency& e : c.efficiencies) {
    json.begin_object();
    json.text("family", families[static_cast<std::size_t>(e.family)]);
    json.text("type", describe(e.type).name);
    json.integer("tokens", e.tokens);
    json.integer("context", e.context);
    json.integer("width", e.width);
    json.number("share", e.share);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return std::move(json).take();
}

std::optional<Ceilings> ceilings_from_json(std::string_view text) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  Reader reader;
  if (reader.text(json, "format") != format_name || reader.integer(json, "version", 1 << 20) != ceilings_version) {
    return {};
  }
  Ceilings out;
  out.library = reader.text(json, "library");
  out.device = reader.text(json, "device");
  out.name = reader.text(json, "name");
  out.isa = reader.text(json, "isa");
  out.threads = reader.integer(json, "threads", 4096);
  out.op_overhead_s = reader.number(json, "op_overhead_s", 1);
  out.step_overhead_s = reader.number(json, "step_overhead_s", 1);
  out.sample_s = reader.number(json, "sample_s", 1);
  const auto busy = json.find("busy");
  out.busy = busy != json.end() && busy->is_boolean() && busy->get<bool>();
  for (const Json& at : reader.array(json, "at")) out.at.push_back(thread_ceilings(reader, at));
  for (const Json& e : reader.array(json, "efficiencies")) out.efficiencies.push_back(efficiency(reader, e));
  const bool usable = reader.ok() && !out.at.empty() && out.all().read.best > 0 && out.all().f32.best > 0;
  if (!usable) return {};
  return out;
}

}  // namespace llminfer::profile
