// Filters that make strings of strings.
#include <algorithm>
#include <array>

#include "text/jinja/arguments.h"
#include "text/jinja/characters.h"
#include "text/jinja/format.h"
#include "text/jinja/library.h"
#include "text/jinja/string_ops.h"

namespace llminfer::text::jinja {
namespace {

template <Case how>
Value cased(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<0> bound("filter", args, {});
  return change_case(runtime.meter, to_string(runtime.meter, input), how);
}

// Jinja's own title: words start after white space and - ( { [ <.
Value title(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<0> bound("title", args, {});
  const Value text = to_string(runtime.meter, input);
  const std::string_view bytes = text.view();
  Builder out(runtime.meter);
  std::string mapped;
  bool first = true;
  for (std::size_t i = 0; i < bytes.size();) {
    const Character c = decode_character(bytes, i);
    mapped.clear();
    first ? append_upper(mapped, c.code) : append_lower(mapped, c.code);
    out.add(mapped, text.text().origin_at(i));
    first = is_space(c.code) || c.code == '-' || c.code == '(' || c.code == '{' || c.code == '[' || c.code == '<';
    i += c.size;
  }
  return out.string();
}

Value trim(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<1> bound("trim", args, {"chars"});
  return strip(runtime.meter, to_string(runtime.meter, input), bound.string(0), true, true);
}

Value replace_filter(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<3> bound("replace", args, {"old", "new", "count"});
  Meter& meter = runtime.meter;
  const bool all = bound.get(2) == nullptr || bound.get(2)->is_none();
  return replace(meter, to_string(meter, input), to_string(meter, bound.require(0)), to_string(meter, bound.require(1)),
                 all ? -1 : bound.integer(2, -1));
}

Value center(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<1> bound("center", args, {"width"});
  return align(runtime.meter, to_string(runtime.meter, input), bound.integer(0, 80), nullptr, Align::center);
}

Value format_filter(Runtime& runtime, const Value& input, const Args& args) {
  if (!args.positional.empty() && !args.named.empty()) {
    fail_type("can't handle positional and keyword arguments at the same time");
  }
  const Value text = to_string(runtime.meter, input);
  if (args.named.empty()) {
    return format_percent(runtime.meter, text, make_sequence(&runtime.meter, Kind::tuple, args.positional));
  }
  std::shared_ptr<DictPayload> named = new_dict(&runtime.meter);
  for (const auto& [name, value] : args.named) named->set(make_string(&runtime.meter, name), value);
  return format_percent(runtime.meter, text, Value(Kind::dict, std::move(named)));
}

Value indent(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<3> bound("indent", args, {"width", "first", "blank"});
  if (input.is_undefined()) fail_undefined(input);
  if (!input.is_string()) {
    fail_type("unsupported operand type(s) for +=: '" + std::string(type_name(input)) + "' and 'str'");
  }
  const Value text = to_string(runtime.meter, input);
  Builder by(runtime.meter);
  if (bound.get(0) != nullptr && bound.get(0)->is_string()) {
    by.add(bound.get(0)->text());
  } else {
    const std::int64_t width = bound.integer(0, 4);
    for (std::int64_t i = 0; i < width; ++i) by.add(" ");
  }
  const bool first = bound.flag(1, false), blank = bound.flag(2, false);
  // The newline added at the end keeps one that is there from being swallowed by splitting into lines.
  Builder closed(runtime.meter);
  closed.add(text.text());
  closed.add("\n");
  const std::vector<Value> lines = split_lines(runtime.meter, closed.string(), false);
  Builder out(runtime.meter);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i != 0) out.add("\n");
    if (i == 0 ? first : blank || !lines[i].text().empty()) out.add(by.text());
    out.add(lines[i].text());
  }
  return out.string();
}

Value string_filter(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<0> bound("string", args, {});
  return to_string(runtime.meter, input);
}

Value safe(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<0> bound("safe", args, {});
  return make_string(&runtime.meter, to_string(runtime.meter, input).text(), true);
}

Value escape(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<0> bound("escape", args, {});
  return escape_html(runtime.meter, input);
}

Value force_escape(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<0> bound("forceescape", args, {});
  const Value text = to_string(runtime.meter, input);
  return escape_html(runtime.meter, make_string(&runtime.meter, text.text()));
}

Value truncate(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<4> bound("truncate", args, {"length", "killwords", "end", "leeway"});
  if (!input.is_string() && length(input) <= bound.integer(0, 255)) return input;
  Value text = to_string(runtime.meter, input);
  const Value* const given_end = bound.string(2);
  const Value end = given_end != nullptr ? *given_end : make_string(&runtime.meter, "...");
  const std::int64_t size = bound.integer(0, 255), leeway = bound.integer(3, 5);
  const auto end_size = static_cast<std::int64_t>(end.string().characters);
  if (size < end_size) fail_type("truncate: length must be at least that of the end");
  if (leeway < 0) fail_type("truncate: leeway must not be negative");
  const auto characters = static_cast<std::int64_t>(text.string().characters);
  if (characters <= size || characters - size <= leeway) return text;
  std::size_t cut = offset_of_character(text.view(), static_cast<std::size_t>(size - end_size));
  if (!bound.flag(1, false)) {
    const std::size_t space = text.view().substr(0, cut).rfind(' ');
    if (space != std::string_view::npos) cut = space;
  }
  Builder out(runtime.meter);
  out.add(text.text(), 0, cut);
  out.add(end.text());
  return out.string();
}

Value word_count(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<0> bound("wordcount", args, {});
  const Value text = to_string(runtime.meter, input);
  std::int64_t count = 0;
  bool inside = false;
  for (std::size_t i = 0; i < text.view().size();) {
    const Character c = decode_character(text.view(), i);
    const bool word = c.code == '_' || is_alpha(c.code) || is_numeric(c.code);
    if (word && !inside) ++count;
    inside = word;
    i += c.size;
  }
  return Value::integer(count);
}

void add_quoted_url(Builder& out, const SpannedText& text, bool query) {
  static constexpr std::string_view digits = "0123456789ABCDEF";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text.view()[i];
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
                       c == '.' || c == '-' || c == '~' || (c == '/' && !query);
    if (plain) {
      out.add(text, i, i + 1);
    } else if (c == ' ' && query) {
      out.add("+", text.origin_at(i));
    } else {
      const char escape[3] = {'%', digits[byte >> 4], digits[byte & 15]};
      out.add(std::string_view(escape, 3), text.origin_at(i));
    }
  }
}

Value url_encode(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<0> bound("urlencode", args, {});
  Builder out(runtime.meter);
  if (input.is_string() || !is_iterable(input)) {
    add_quoted_url(out, to_string(runtime.meter, input).text(), false);
    return out.string();
  }
  std::vector<std::vector<Value>> pairs;
  if (input.is(Kind::dict)) {
    for (const auto& [key, value] : input.dict().entries) pairs.push_back({key, value});
  } else {
    for (const Value& pair : iterate(runtime.meter, input)) pairs.push_back(iterate(runtime.meter, pair));
  }
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (pairs[i].size() != 2) fail_type("urlencode: expected pairs");
    if (i != 0) out.add("&");
    add_quoted_url(out, to_string(runtime.meter, pairs[i][0]).text(), true);
    out.add("=");
    add_quoted_url(out, to_string(runtime.meter, pairs[i][1]).text(), true);
  }
  return out.string();
}

struct Entry {
  std::string_view name;
  Filter filter;
};

constexpr std::array<Entry, 17> filters = {{
    {"capitalize", cased<Case::capitalize>},
    {"center", center},
    {"e", escape},
    {"escape", escape},
    {"forceescape", force_escape},
    {"format", format_filter},
    {"indent", indent},
    {"lower", cased<Case::lower>},
    {"replace", replace_filter},
    {"safe", safe},
    {"string", string_filter},
    {"title", title},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", cased<Case::upper>},
    {"urlencode", url_encode},
    {"wordcount", word_count},
}};

}  // namespace

Filter find_string_filter(std::string_view name) noexcept {
  const auto found =
      std::find_if(filters.begin(), filters.end(), [&](const Entry& entry) { return entry.name == name; });
  return found != filters.end() ? found->filter : nullptr;
}

}  // namespace llminfer::text::jinja
