#include <algorithm>
#include <array>
#include <optional>

#include "text/jinja/arguments.h"
#include "text/jinja/characters.h"
#include "text/jinja/format.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/string_ops.h"

namespace llminfer::text::jinja {
namespace {

using Method = Value (*)(Runtime&, const Value&, const Args&);

template <Case how>
Value cased(Runtime& runtime, const Value& text, const Args& args) {
  const Bound<0> bound("str", args, {});
  return change_case(runtime.meter, text, how);
}

template <bool left, bool right>
Value stripped(Runtime& runtime, const Value& text, const Args& args) {
  const Bound<1> bound("strip", args, {"chars"});
  return strip(runtime.meter, text, bound.string(0), left, right);
}

// The text between two optional character positions, in bytes.
struct Window {
  std::size_t begin, end;
  bool valid;
};

Window window(const Value& text, std::int64_t start, std::int64_t stop) {
  const auto size = static_cast<std::int64_t>(text.string().characters);
  const auto clamp = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
  const std::int64_t from = start > size ? size : clamp(start), to = clamp(stop);
  const auto offset = [&](std::int64_t at) { return offset_of_character(text.view(), static_cast<std::size_t>(at)); };
  return {offset(from), offset(to), start <= size && from <= to};
}

template <bool at_start>
Value has_affix(Runtime& runtime, const Value& text, const Args& args) {
  const std::string_view name = at_start ? "startswith" : "endswith";
  const Bound<3> bound(name, args, {"prefix", "start", "end"});
  const Value& wanted = bound.require(0);
  if (wanted.is_undefined()) fail_undefined(wanted);
  const Window where = window(text, bound.integer(1, 0), bound.integer(2, INT64_MAX));
  const std::string_view part = where.valid ? text.view().substr(where.begin, where.end - where.begin) : "";
  const auto matches = [&](const Value& affix) {
    if (!affix.is_string()) {
      fail_type(std::string(name) + " first arg must be str or a tuple of str, not " + std::string(type_name(affix)));
    }
    const std::string_view bytes = affix.view();
    runtime.meter.touch(bytes.size());
    if (!where.valid || bytes.size() > part.size()) return false;
    return (at_start ? part.substr(0, bytes.size()) : part.substr(part.size() - bytes.size())) == bytes;
  };
  if (!wanted.is(Kind::tuple)) return Value::boolean(matches(wanted));
  return Value::boolean(std::any_of(wanted.items().begin(), wanted.items().end(), matches));
}

enum class Search { find, rfind, index, rindex, count };

template <Search how>
Value searched(Runtime& runtime, const Value& text, const Args& args) {
  const Bound<3> bound("find", args, {"sub", "start", "end"});
  const std::string_view needle = bound.require_string(0).view();
  const Window where = window(text, bound.integer(1, 0), bound.integer(2, INT64_MAX));
  const std::string_view part = where.valid ? text.view().substr(where.begin, where.end - where.begin) : "";
  if (how == Search::count) {
    if (!where.valid) return Value::integer(0);
    if (needle.empty()) return Value::integer(static_cast<std::int64_t>(count_characters(part)) + 1);
    std::int64_t count = 0;
    for (std::size_t at = 0; (at = find_bytes(part, needle, at)) != std::string_view::npos; at += needle.size())
      ++count;
    return Value::integer(count);
  }
  const bool right = how == Search::rfind || how == Search::rindex;
  if (right) runtime.meter.touch(part.size() * std::min(needle.size(), part.size()) / 16);
  const std::size_t found = !where.valid ? std::string_view::npos
                            : right      ? part.rfind(needle)
                                         : find_bytes(part, needle);
  if (found == std::string_view::npos) {
    if (how == Search::index || how == Search::rindex) fail_type("substring not found");
    return Value::integer(-1);
  }
  return Value::integer(static_cast<std::int64_t>(count_characters(text.view().substr(0, where.begin + found))));
}

template <bool from_right>
Value split_method(Runtime& runtime, const Value& text, const Args& args) {
  const Bound<2> bound("split", args, {"sep", "maxsplit"});
  return make_list(runtime.meter, split(runtime.meter, text, bound.string(0), bound.integer(1, -1), from_right));
}

Value splitlines(Runtime& runtime, const Value& text, const Args& args) {
  const Bound<1> bound("splitlines", args, {"keepends"});
  return make_list(runtime.meter, split_lines(runtime.meter, text, bound.flag(0, false)));
}

template <bool from_right>
Value partition(Runtime& runtime, const Value& text, const Args& args) {
  const Bound<1> bound("partition", args, {"sep"});
  const Value& separator = bound.require_string(0);
  std::vector<Value> parts = split(runtime.meter, text, &separator, 1, from_right);
  if (parts.size() == 2) {
    parts.insert(parts.begin() + 1, separator);
  } else {
    const Value empty = make_string(&runtime.meter, "");
    parts.insert(from_right ? parts.begin() : parts.end(), 2, empty);
  }
  return make_sequence(&runtime.meter, Kind::tuple, std::move(parts));
}

Value join_method(Runtime& runtime, const Value& text, const Args& args) {
  const Bound<1> bound("join", args, {"iterable"});
  return join(runtime.meter, text, iterate(runtime.meter, bound.require(0)), false);
}

Value replace_method(Runtime& runtime, const Value& text, const Args& args) {
  const Bound<3> bound("replace", args, {"old", "new", "count"});
  return replace(runtime.meter, text, bound.require_string(0), bound.require_string(1), bound.integer(2, -1));
}

template <bool prefix>
Value remove_affix(Runtime& runtime, const Value& text, const Args& args) {
  const Bound<1> bound("removeprefix", args, {"affix"});
  const std::string_view affix = bound.require_string(0).view(), bytes = text.view();
  if (affix.size() > bytes.size()) return text;
  const std::size_t rest = bytes.size() - affix.size();
  if (prefix)
    return bytes.substr(0, affix.size()) == affix ? substring(runtime.meter, text, affix.size(), bytes.size()) : text;
  return bytes.substr(rest) == affix ? substring(runtime.meter, text, 0, rest) : text;
}

template <Align how>
Value aligned(Runtime& runtime, const Value& text, const Args& args) {
  const Bound<2> bound("ljust", args, {"width", "fillchar"});
  return align(runtime.meter, text, to_index(bound.require(0), "width"), bound.string(1), how);
}

Value zfill(Runtime& runtime, const Value& text, const Args& args) {
  const Bound<1> bound("zfill", args, {"width"});
  const std::int64_t missing =
      to_index(bound.require(0), "width") - static_cast<std::int64_t>(text.string().characters);
  const bool sign = !text.view().empty() && (text.view()[0] == '-' || text.view()[0] == '+');
  Builder out(runtime.meter);
  out.add(text.text(), 0, sign ? 1 : 0);
  for (std::int64_t i = 0; i < missing; ++i) out.add("0");
  out.add(text.text(), sign ? 1 : 0, text.text().size());
  return out.string();
}

Value expandtabs(Runtime& runtime, const Value& text, const Args& args) {
  const Bound<1> bound("expandtabs", args, {"tabsize"});
  const std::int64_t size = bound.integer(0, 8);
  Builder out(runtime.meter);
  std::int64_t column = 0;
  for (std::size_t i = 0; i < text.view().size();) {
    const Character c = decode_character(text.view(), i);
    if (c.code == '\t') {
      for (std::int64_t fill = size > 0 ? size - column % size : 0; fill > 0; --fill, ++column) out.add(" ");
    } else {
      out.add(text.text(), i, i + c.size);
      column = c.code == '\n' || c.code == '\r' ? 0 : column + 1;
    }
    i += c.size;
  }
  return out.string();
}

// True when there is a character and all of them are of the class.
template <bool (*matches)(char32_t)>
Value all_characters(Runtime&, const Value& text, const Args& args) {
  const Bound<0> bound("str", args, {});
  const std::string_view bytes = text.view();
  for (std::size_t i = 0; i < bytes.size();) {
    const Character c = decode_character(bytes, i);
    if (!matches(c.code)) return Value::boolean(false);
    i += c.size;
  }
  return Value::boolean(!bytes.empty());
}

bool alphanumeric(char32_t code) { return is_alpha(code) || is_decimal(code) || is_digit(code) || is_numeric(code); }
bool ascii(char32_t code) { return code < 0x80; }

Value isascii(Runtime& runtime, const Value& text, const Args& args) {
  return text.view().empty() ? Value::boolean(true) : all_characters<ascii>(runtime, text, args);
}
Value isprintable(Runtime& runtime, const Value& text, const Args& args) {
  return text.view().empty() ? Value::boolean(true) : all_characters<is_printable>(runtime, text, args);
}

template <bool upper>
Value is_cased_as(Runtime&, const Value& text, const Args& args) {
  const Bound<0> bound("str", args, {});
  bool found = false;
  for (std::size_t i = 0; i < text.view().size();) {
    const Character c = decode_character(text.view(), i);
    if (is_title(c.code) || (upper ? is_lower(c.code) : is_upper(c.code))) return Value::boolean(false);
    found |= is_cased(c.code);
    i += c.size;
  }
  return Value::boolean(found);
}

Value istitle(Runtime&, const Value& text, const Args& args) {
  const Bound<0> bound("istitle", args, {});
  bool found = false, inside = false;
  for (std::size_t i = 0; i < text.view().size();) {
    const Character c = decode_character(text.view(), i);
    const bool starts = is_upper(c.code) || is_title(c.code);
    if (starts ? inside : is_lower(c.code) && !inside) return Value::boolean(false);
    inside = is_cased(c.code);
    found |= inside;
    i += c.size;
  }
  return Value::boolean(found);
}

struct Entry {
  std::string_view name;
  Method method;
};

// Sorted by name.
constexpr std::array<Entry, 42> methods = {{
    {"capitalize", cased<Case::capitalize>},
    {"casefold", cased<Case::lower>},
    {"center", aligned<Align::center>},
    {"count", searched<Search::count>},
    {"endswith", has_affix<false>},
    {"expandtabs", expandtabs},
    {"find", searched<Search::find>},
    {"format", format_braces},
    {"index", searched<Search::index>},
    {"isalnum", all_characters<alphanumeric>},
    {"isalpha", all_characters<is_alpha>},
    {"isascii", isascii},
    {"isdecimal", all_characters<is_decimal>},
    {"isdigit", all_characters<is_digit>},
    {"islower", is_cased_as<false>},
    {"isnumeric", all_characters<is_numeric>},
    {"isprintable", isprintable},
    {"isspace", all_characters<is_space>},
    {"istitle", istitle},
    {"isupper", is_cased_as<true>},
    {"join", join_method},
    {"ljust", aligned<Align::left>},
    {"lower", cased<Case::lower>},
    {"lstrip", stripped<true, false>},
    {"partition", partition<false>},
    {"removeprefix", remove_affix<true>},
    {"removesuffix", remove_affix<false>},
    {"replace", replace_method},
    {"rfind", searched<Search::rfind>},
    {"rindex", searched<Search::rindex>},
    {"rjust", aligned<Align::right>},
    {"rpartition", partition<true>},
    {"rsplit", split_method<true>},
    {"rstrip", stripped<false, true>},
    {"split", split_method<false>},
    {"splitlines", splitlines},
    {"startswith", has_affix<true>},
    {"strip", stripped<true, true>},
    {"swapcase", cased<Case::swap>},
    {"title", cased<Case::title>},
    {"upper", cased<Case::upper>},
    {"zfill", zfill},
}};

const Entry* find_method(std::string_view name) noexcept {
  const auto found = std::lower_bound(methods.begin(), methods.end(), name,
                                      [](const Entry& entry, std::string_view wanted) { return entry.name < wanted; });
  return found != methods.end() && found->name == name ? &*found : nullptr;
}

}  // namespace

bool has_string_method(std::string_view name) noexcept { return find_method(name) != nullptr; }

Value call_string_method(Runtime& runtime, const Value& text, std::string_view name, const Args& args) {
  return find_method(name)->method(runtime, text, args);
}

}  // namespace llminfer::text::jinja
