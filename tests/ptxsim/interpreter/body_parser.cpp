#include "interpreter/body_parser.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "interpreter/decoder.h"
#include "interpreter/parser.h"
#include "interpreter/symbols.h"
#include "interpreter/text.h"

namespace ptxsim {
namespace {

struct NamedType {
  std::string_view name;
  Type type;
};
constexpr NamedType types[] = {
    {"pred", Type::pred}, {"b8", Type::b8},         {"b16", Type::b16}, {"b32", Type::b32}, {"b64", Type::b64},
    {"u8", Type::u8},     {"u16", Type::u16},       {"u32", Type::u32}, {"u64", Type::u64}, {"s8", Type::s8},
    {"s16", Type::s16},   {"s32", Type::s32},       {"s64", Type::s64}, {"f16", Type::f16}, {"f16x2", Type::f16x2},
    {"bf16", Type::bf16}, {"bf16x2", Type::bf16x2}, {"f32", Type::f32}, {"f64", Type::f64},
};

bool is_label_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%';
}

class BodyParser {
 public:
  BodyParser(Kernel& kernel, const Module& module, const std::vector<Declaration>& shared)
      : kernel_(kernel), symbols_(kernel, module), decoder_(kernel, symbols_) {
    for (const Declaration& d : shared) symbols_.add_shared(d);
  }

  void parse(std::string_view body) {
    // Shared arrays first: dynamic shared memory lies behind the static one.
    for (std::size_t i = 0; i < body.size();) i = statement(body, i);
    kernel_.code.push_back(end_of_kernel());
    symbols_.finish();
    resolve();
  }

 private:
  Instruction end_of_kernel() {
    Instruction i;
    i.flow = Flow::exit;
    i.op_class = OpClass::control;
    i.text = static_cast<std::uint32_t>(kernel_.texts.size());
    kernel_.texts.emplace_back("(end)");
    return i;
  }

  /// Reads what starts at `i`, returns where the next thing starts.
  std::size_t statement(std::string_view s, std::size_t i) {
    const char c = s[i];
    if (std::isspace(static_cast<unsigned char>(c)) != 0 || c == ';') return i + 1;
    if (c == '{') {
      symbols_.open_scope();
      return i + 1;
    }
    if (c == '}') {
      symbols_.close_scope();
      return i + 1;
    }
    if (s.compare(i, 4, ".loc") == 0 && s.compare(i, 6, ".local") != 0) {
      const std::size_t end = std::min(s.find('\n', i), s.size());
      const std::vector<std::string_view> w = words(s.substr(i, end - i));
      const auto number = [&](std::size_t n) {
        return n < w.size() ? static_cast<std::uint32_t>(std::strtoul(std::string(w[n]).c_str(), nullptr, 10)) : 0U;
      };
      here_.file = number(1);
      here_.line = number(2);
      here_.call_file = here_.call_line = 0;
      // Of an inlined function also the place where it was called.
      for (std::size_t n = 3; n < w.size(); ++n) {
        if (w[n] != "inlined_at") continue;
        here_.call_file = number(n + 1);
        here_.call_line = number(n + 2);
      }
      return end;
    }
    std::size_t end = i;
    while (end < s.size() && is_label_char(s[end])) ++end;
    std::size_t colon = end;
    while (colon < s.size() && (s[colon] == ' ' || s[colon] == '\t')) ++colon;
    if (end > i && colon < s.size() && s[colon] == ':' && s.compare(colon, 2, "::") != 0) {
      last_label_ = std::string(s.substr(i, end - i));
      labels_[last_label_] = static_cast<std::int32_t>(kernel_.code.size());
      return colon + 1;
    }
    const std::size_t semicolon = s.find(';', i);
    if (semicolon == std::string_view::npos) throw ParseError("statement without end: " + std::string(s.substr(i, 60)));
    line_of_code(trim(s.substr(i, semicolon - i)));
    return semicolon + 1;
  }

  void line_of_code(std::string_view s) {
    if (s.front() != '.') {
      instruction(s);
      return;
    }
    const auto starts = [&](std::string_view word) { return s.substr(0, word.size()) == word; };
    if (starts(".reg")) symbols_.add_registers(s);
    if (starts(".shared")) symbols_.add_shared(parse_declaration(s));
    if (starts(".local")) symbols_.add_local(parse_declaration(s));
    if (starts(".branchtargets")) {
      tables_[last_label_] = {};
      for (std::string_view l : split_operands(s.substr(14))) tables_[last_label_].emplace_back(l);
    }
  }

  void instruction(std::string_view s) {
    Instruction i;
    i.at = here_;
    i.text = static_cast<std::uint32_t>(kernel_.texts.size());
    kernel_.texts.emplace_back(s);
    std::string label;
    decoder_.decode(s, i, label);
    if (i.flow == Flow::branch || i.flow == Flow::table) fixes_.push_back({kernel_.code.size(), label});
    kernel_.code.push_back(i);
  }

  std::int32_t label(const std::string& name) const {
    const auto it = labels_.find(name);
    if (it == labels_.end()) throw ParseError("unknown label " + name);
    return it->second;
  }

  void resolve() {
    for (const auto& [index, name] : fixes_) {
      Instruction& i = kernel_.code[index];
      if (i.flow == Flow::branch) {
        i.target = label(name);
        continue;
      }
      const auto table = tables_.find(name);
      if (table == tables_.end()) throw ParseError("unknown branch table " + name);
      i.target = static_cast<std::int32_t>(kernel_.tables.size());
      kernel_.tables.emplace_back();
      for (const std::string& l : table->second) kernel_.tables.back().push_back(label(l));
    }
  }

  Kernel& kernel_;
  Symbols symbols_;
  Decoder decoder_;
  std::map<std::string, std::int32_t> labels_;
  std::map<std::string, std::vector<std::string>> tables_;
  std::vector<std::pair<std::size_t, std::string>> fixes_;
  std::string last_label_;
  SourcePlace here_{};
};

}  // namespace

Type type_named(std::string_view word) noexcept {
  for (const NamedType& t : types) {
    if (t.name == word) return t.type;
  }
  return Type::none;
}

Declaration parse_declaration(std::string_view text) {
  Declaration d;
  const std::size_t bracket = text.find('[');
  if (bracket != std::string_view::npos) {
    const std::string_view inside = trim(text.substr(bracket + 1, text.find(']', bracket) - bracket - 1));
    d.open = inside.empty();
    d.count = d.open ? 0 : static_cast<std::uint32_t>(std::strtoul(std::string(inside).c_str(), nullptr, 0));
    text = text.substr(0, bracket);
  }
  const std::vector<std::string_view> w = words(text);
  bool typed = false;
  for (std::size_t i = 0; i < w.size(); ++i) {
    if (w[i] == ".align" && i + 1 < w.size()) {
      const auto value = static_cast<std::uint32_t>(std::strtoul(std::string(w[++i]).c_str(), nullptr, 0));
      if (!typed) d.align = value;  // behind the type it is the alignment of what a pointer points to
    } else if (w[i].front() == '.') {
      const Type t = type_named(w[i].substr(1));
      if (t == Type::none) continue;
      d.type = t;
      typed = true;
    } else {
      d.name = std::string(w[i]);
    }
  }
  if (d.name.empty()) throw ParseError("declaration without a name: " + std::string(text));
  return d;
}

void parse_body(Kernel& kernel, const Module& module, const std::vector<Declaration>& shared, std::string_view body) {
  BodyParser(kernel, module, shared).parse(body);
}

}  // namespace ptxsim
