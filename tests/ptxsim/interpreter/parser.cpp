#include "interpreter/parser.h"

#include <cstdlib>
#include <cstring>

#include "interpreter/body_parser.h"
#include "interpreter/text.h"

namespace ptxsim {
namespace {

std::size_t closing(std::string_view s, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < s.size(); ++i) {
    if (s[i] == '{' || s[i] == '(') ++depth;
    if ((s[i] == '}' || s[i] == ')') && --depth == 0) return i;
  }
  throw ParseError("a bracket is not closed");
}

std::uint64_t number(std::string_view s) { return std::strtoull(std::string(s).c_str(), nullptr, 0); }

/// ".param .align 8 .b8 name[24]" or ".param .u64 .ptr .align 1 name".
Parameter parse_parameter(std::string_view text, std::uint32_t& end) {
  Declaration d = parse_declaration(text);
  const auto size = static_cast<std::uint32_t>(bytes_of(d.type));
  const std::uint32_t align = d.align != 0 && d.count > 1 ? d.align : size;
  Parameter p;
  p.name = d.name;
  p.offset = (end + align - 1) / align * align;
  p.bytes = size * d.count;
  end = p.offset + p.bytes;
  return p;
}

/// The bytes of a module-scope variable, with its initializer.
Variable parse_variable(std::string_view text) {
  const std::size_t equals = text.find('=');
  const Declaration d = parse_declaration(text.substr(0, equals));
  const auto element = static_cast<std::size_t>(bytes_of(d.type));
  Variable v;
  v.size = element * d.count;
  v.bytes = std::make_unique<std::byte[]>(v.size + 16);
  if (equals == std::string_view::npos) return v;
  std::string_view init = trim(text.substr(equals + 1));
  if (!init.empty() && init.front() == '{') init = init.substr(1, init.size() - 2);
  std::size_t at = 0;
  for (std::string_view part : split_operands(init)) {
    std::uint64_t value = 0;
    if (part.size() > 2 && part[0] == '0' && (part[1] == 'f' || part[1] == 'd')) {
      value = std::strtoull(std::string(part.substr(2)).c_str(), nullptr, 16);
    } else {
      value = static_cast<std::uint64_t>(std::strtoll(std::string(part).c_str(), nullptr, 0));
    }
    if (at + element > v.size) throw ParseError("an initializer has too many values: " + d.name);
    std::memcpy(v.bytes.get() + at, &value, element);
    at += element;
  }
  return v;
}

void add_file(Module& module, std::string_view line) {
  const std::size_t quote = line.find('"');
  const std::size_t end = line.find('"', quote + 1);
  const std::vector<std::string_view> w = words(line);
  if (quote == std::string_view::npos || w.size() < 3) return;
  const std::size_t index = number(w[1]);
  if (index >= 4096) return;
  if (module.files->size() <= index) module.files->resize(index + 1);
  (*module.files)[index] = std::string(line.substr(quote + 1, end - quote - 1));
}

class ModuleParser {
 public:
  explicit ModuleParser(std::string_view text) : text_(strip_comments(text)) {}

  Module parse() {
    // Source files are named at the end, variables before the kernels.
    std::string_view rest = text_;
    while (!rest.empty()) {
      const std::size_t start = rest.find_first_not_of(" \t\r\n");
      if (start == std::string_view::npos) break;
      rest.remove_prefix(start);
      rest.remove_prefix(item(rest));
    }
    return std::move(module_);
  }

 private:
  /// Reads one top-level item, returns its length.
  std::size_t item(std::string_view s) {
    const std::size_t line = std::min(s.find('\n'), s.size());
    const auto starts = [&](std::string_view word) { return s.substr(0, word.size()) == word; };
    if (starts(".file")) {
      add_file(module_, s.substr(0, line));
      return line;
    }
    if (starts(".version") || starts(".target") || starts(".address_size") || starts(".loc")) return line;
    if (starts(".section")) return closing(s, s.find('{')) + 1;
    const std::size_t semicolon = s.find(';');
    const std::size_t brace = s.find('{');
    const std::size_t entry = s.find(".entry");
    const std::size_t equals = s.find('=');
    if (entry != std::string_view::npos && entry < std::min(semicolon, brace)) return kernel(s, entry);
    if (s.find(".func") < std::min(semicolon, brace)) {
      return semicolon < brace ? semicolon + 1 : closing(s, brace) + 1;  // calls are reported when they run
    }
    if (semicolon == std::string_view::npos) throw ParseError("text behind the last item");
    if (equals < semicolon && brace < semicolon) {
      const std::size_t end = s.find(';', closing(s, brace));
      variable(s.substr(0, end));
      return end + 1;
    }
    variable(s.substr(0, semicolon));
    return semicolon + 1;
  }

  void variable(std::string_view s) {
    const Declaration d = parse_declaration(s.substr(0, s.find('=')));
    if (s.find(".shared") != std::string_view::npos) {
      shared_.push_back(d);
    } else if (s.find(".global") != std::string_view::npos || s.find(".const") != std::string_view::npos) {
      module_.variables.emplace(d.name, parse_variable(s));
    }
  }

  std::size_t kernel(std::string_view s, std::size_t entry) {
    const std::size_t open = s.find_first_of("({", entry);
    Kernel k;
    k.name = std::string(trim(s.substr(entry + 6, open - entry - 6)));
    k.files = module_.files.get();
    std::size_t after = open;
    if (s[open] == '(') {
      after = closing(s, open) + 1;
      for (std::string_view p : split_operands(s.substr(open + 1, after - open - 2))) {
        k.parameters.push_back(parse_parameter(p, k.parameter_bytes));
      }
    }
    const std::size_t body = s.find('{', after);
    const std::string_view directives = s.substr(after, body - after);
    for (const char* word : {".maxntid", ".reqntid"}) {
      const std::size_t at = directives.find(word);
      if (at == std::string_view::npos) continue;
      k.max_threads = 1;
      const std::size_t end = std::min(directives.find('\n', at), directives.size());
      for (std::string_view n : split_operands(directives.substr(at + 8, end - at - 8))) {
        k.max_threads *= static_cast<std::uint32_t>(number(n));
      }
    }
    const std::size_t end = closing(s, body);
    parse_body(k, module_, shared_, s.substr(body + 1, end - body - 1));
    module_.kernels.emplace(k.name, std::move(k));
    return end + 1;
  }

  std::string text_;
  Module module_;
  std::vector<Declaration> shared_;
};

}  // namespace

Module parse_module(std::string_view text) { return ModuleParser(text).parse(); }

}  // namespace ptxsim
