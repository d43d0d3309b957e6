#include "profile/description_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/fail.h"

namespace llminfer::profile {
namespace {

constexpr std::size_t max_depth = 3;
constexpr std::size_t max_leaves = 256;

/// Takes the parser's events; keeps no tree.
class LeafReader {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  bool null() { return refuse("null"); }
  bool boolean(bool value) { return refuse(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) { return add(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) { return add(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t& text) {
    if (!std::isfinite(value)) return refuse(text);
    return add(value);
  }
  bool string(string_t& text) { return add(std::move(text)); }
  bool binary(binary_t&) { return refuse("binary data"); }
  bool start_array(std::size_t) { return refuse("an array"); }
  bool end_array() { return false; }
  bool start_object(std::size_t) {
    if (levels_.size() >= max_depth) return refuse("an object, which nests too deep");
    levels_.emplace_back();
    return true;
  }
  bool end_object() {
    levels_.pop_back();
    return true;
  }
  bool key(string_t& name) {
    Level& level = levels_.back();
    level.key = std::move(name);
    if (std::find(level.seen.begin(), level.seen.end(), level.key) != level.seen.end()) {
      core::fail(ErrorCode::invalid_argument, "device description: '{}' stands there twice", path());
    }
    if (level.seen.size() >= max_leaves) {
      core::fail(ErrorCode::invalid_argument, "device description: more than {} keys", max_leaves);
    }
    level.seen.push_back(level.key);
    return true;
  }
  [[noreturn]] bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) {
    core::fail(ErrorCode::invalid_argument, "device description: no valid JSON at byte {}", position);
  }

  std::vector<JsonLeaf> take() { return std::move(leaves_); }

 private:
  struct Level {
    std::string key;
    std::vector<std::string> seen;
  };

  /// Of the value that comes now. Keys are quoted in messages and cut there.
  std::string path() const {
    std::string out;
    for (const Level& level : levels_) {
      if (!out.empty()) out += '.';
      out += level.key.substr(0, 64);
    }
    return out;
  }

  [[noreturn]] bool refuse(const std::string& what) const {
    core::fail(ErrorCode::invalid_argument, "device description: '{}' is {}, must be a string or a finite number",
               path(), what.substr(0, 64));
  }

  template <class T>
  bool add(T value) {
    if (levels_.empty()) return refuse("no object");
    if (leaves_.size() >= max_leaves) {
      core::fail(ErrorCode::invalid_argument, "device description: more than {} values", max_leaves);
    }
    leaves_.push_back({path(), std::move(value)});
    return true;
  }

  std::vector<Level> levels_;
  std::vector<JsonLeaf> leaves_;
};

}  // namespace

std::vector<JsonLeaf> read_leaves(std::string_view json) {
  LeafReader reader;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &reader)) {
    core::fail(ErrorCode::invalid_argument, "device description: no valid JSON");
  }
  return reader.take();
}

}  // namespace llminfer::profile
