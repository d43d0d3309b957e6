#include "interpreter/decoder.h"

#include <cstdlib>

#include "interpreter/block.h"
#include "interpreter/parser.h"
#include "interpreter/text.h"

namespace ptxsim {
namespace {

void unsupported(Warp& warp, const Instruction& i, std::uint32_t) {
  warp.block().launch().abort(Check::unsupported, i, "an instruction that the interpreter does not know");
}

using Decode = bool (*)(const OpText&, Instruction&);
constexpr Decode subjects[] = {decode_control, decode_move,     decode_memory,  decode_integer,    decode_bits,
                               decode_float,   decode_half,     decode_convert, decode_compare,    decode_async,
                               decode_bulk,    decode_mbarrier, decode_atomic,  decode_collective, decode_matrix};

void push(Instruction& i, Operand o) {
  if (i.count >= i.operands.size()) throw ParseError("too many operands");
  i.operands[i.count++] = o;
}

}  // namespace

bool OpText::has(std::string_view part) const noexcept {
  for (std::string_view p : parts) {
    if (p == part) return true;
  }
  return false;
}

void OpText::add(Instruction& i, std::size_t n, int bytes) const {
  if (n >= operands.size()) throw ParseError("an operand is missing");
  push(i, symbols.operand(operands[n], bytes));
}

void OpText::add_all(Instruction& i, std::size_t n, int bytes) const {
  for (; n < operands.size(); ++n) add(i, n, bytes);
}

int OpText::add_list(Instruction& i, std::size_t n, int bytes) const {
  if (n >= operands.size()) throw ParseError("an operand is missing");
  std::string_view s = operands[n];
  if (s.front() != '{') {
    add(i, n, bytes);
    return 1;
  }
  const std::vector<std::string_view> list = split_operands(s.substr(1, s.size() - 2));
  for (std::string_view e : list) push(i, symbols.operand(e, bytes));
  return static_cast<int>(list.size());
}

void OpText::add_address(Instruction& i, std::size_t n, std::int64_t& offset) const {
  if (n >= operands.size() || operands[n].front() != '[') throw ParseError("an address is missing");
  const std::string_view inside = trim(operands[n].substr(1, operands[n].size() - 2));
  const std::size_t plus = inside.find('+', 1);
  if (plus != std::string_view::npos)
    offset = std::strtoll(std::string(trim(inside.substr(plus + 1))).c_str(), nullptr, 0);
  const std::string_view base = trim(inside.substr(0, plus));
  if (i.space == Space::param) {
    if (const auto p = symbols.parameter(base)) {
      offset += *p;
      push(i, symbols.constant(0, 8));
      return;
    }
  }
  push(i, symbols.operand(base, 8));
}

bool OpText::add_predicate(Instruction& i, std::size_t n) const {
  if (n >= operands.size()) throw ParseError("a predicate is missing");
  std::string_view s = operands[n];
  const bool negated = s.front() == '!';
  if (negated) s.remove_prefix(1);
  push(i, symbols.operand(trim(s), 0));
  return negated;
}

bool OpText::add_pair(Instruction& i, std::size_t n, int bytes) const {
  if (n >= operands.size()) throw ParseError("an operand is missing");
  const std::size_t bar = operands[n].find('|');
  push(i, symbols.operand(trim(operands[n].substr(0, bar)), bytes));
  const bool two = bar != std::string_view::npos;
  push(i, two ? symbols.operand(trim(operands[n].substr(bar + 1)), 0) : symbols.scratch(0));
  return two;
}

std::int64_t OpText::number(std::size_t n) const {
  if (n >= operands.size()) throw ParseError("a number is missing");
  const std::string s(operands[n]);
  char* end = nullptr;
  const long long v = std::strtoll(s.c_str(), &end, 0);
  if (end == s.c_str()) throw ParseError("a number is expected: " + s);
  return v;
}

void Decoder::decode(std::string_view text, Instruction& i, std::string& label) {
  if (text.front() == '@') {
    const std::size_t end = text.find_first_of(" \t");
    std::string_view guard = text.substr(1, end - 1);
    i.guard_negated = guard.front() == '!';
    if (i.guard_negated) guard.remove_prefix(1);
    i.guard = static_cast<std::int32_t>(symbols_.operand(guard, 0).at);
    text = trim(text.substr(end));
  }
  const std::size_t end = std::min(text.find_first_of(" \t\n"), text.size());
  OpText t{symbols_};
  t.parts = split(text.substr(0, end), '.');
  t.name = t.parts.front();
  t.parts.erase(t.parts.begin());
  t.operands = split_operands(text.substr(end));
  for (std::string_view p : t.parts) {
    const Type type = type_named(p);
    if (type == Type::none) continue;
    if (t.first == Type::none) t.first = type;
    t.last = type;
  }
  i.type = t.first;
  try {
    for (const Decode decode : subjects) {
      Instruction attempt = i;
      if (!decode(t, attempt)) continue;
      i = attempt;
      if (i.flow == Flow::branch) label = std::string(t.operands.back());
      if (i.flow == Flow::table) label = std::string(t.operands.back());
      return;
    }
  } catch (const ParseError&) {
    // as if unknown
  }
  i.flow = Flow::next;
  i.run = &unsupported;
}

}  // namespace ptxsim
