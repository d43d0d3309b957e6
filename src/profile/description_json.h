// The JSON text of a device description, taken apart: two levels of objects with strings and numbers, nothing else.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace llminfer::profile {

/// One value with the path of its key, e.g. "figures.memory.value".
struct JsonLeaf {
  std::string path{};
  std::variant<double, std::string> value{};
};

/// All leaves in the order of the text. Throws Exception (invalid_argument) for what is no JSON, nests deeper than
/// three objects, has other values than strings and finite numbers, or a key twice in one object.
std::vector<JsonLeaf> read_leaves(std::string_view json);

}  // namespace llminfer::profile
