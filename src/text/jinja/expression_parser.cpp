#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace llminfer::text::jinja {
namespace {

constexpr int tree_depth = 250;  // chains such as a + b + c ... nest to the left without nesting in the source

std::optional<Operator> comparison(const Token& token) {
  if (token.kind != TokenKind::symbol) return std::nullopt;
  if (token.text == "==") return Operator::equal;
  if (token.text == "!=") return Operator::not_equal;
  if (token.text == "<") return Operator::less;
  if (token.text == "<=") return Operator::less_equal;
  if (token.text == ">") return Operator::greater;
  if (token.text == ">=") return Operator::greater_equal;
  return std::nullopt;
}

}  // namespace

ExpressionParser::Level::Level(ExpressionParser& parser) : parser_(parser) {
  if (parser.depth_ >= parser.limits_.parse_depth) {
    parser.fail("nesting deeper than " + std::to_string(parser.limits_.parse_depth) + " levels");
  }
  ++parser.depth_;
}

void ExpressionParser::fail_at(std::uint32_t position, const std::string& message) const {
  jinja::fail_at(ErrorCode::corrupt, source_, position, message);
}

void ExpressionParser::fail_unexpected(std::string_view wanted) const {
  const Token& token = current();
  const std::string got = token.kind == TokenKind::end    ? "end of template"
                          : token.kind == TokenKind::data ? "text"
                                                          : "'" + token.text + "'";
  fail("expected " + std::string(wanted) + ", got " + got);
}

bool ExpressionParser::skip_symbol(std::string_view symbol) {
  if (!is_symbol(symbol)) return false;
  take();
  return true;
}

bool ExpressionParser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  take();
  return true;
}

void ExpressionParser::expect_symbol(std::string_view symbol) {
  if (!skip_symbol(symbol)) fail_unexpected("'" + std::string(symbol) + "'");
}

std::string ExpressionParser::expect_identifier() {
  if (current().kind != TokenKind::name) fail_unexpected("a name");
  return take().text;
}

ExprPtr ExpressionParser::make(ExprKind kind, std::uint32_t position) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->position = position;
  return node;
}

ExprPtr ExpressionParser::finish(ExprPtr node) const {
  int depth = 0;
  const auto visit = [&](const ExprPtr& part) {
    if (part) depth = std::max(depth, part->depth);
  };
  std::for_each(node->parts.begin(), node->parts.end(), visit);
  std::for_each(node->arguments.positional.begin(), node->arguments.positional.end(), visit);
  for (const auto& [name, value] : node->arguments.named) visit(value);
  visit(node->arguments.star);
  visit(node->arguments.double_star);
  node->depth = depth + 1;
  if (node->depth > tree_depth) {
    fail_at(node->position, "an expression nests deeper than " + std::to_string(tree_depth) + " operations");
  }
  return node;
}

ExprPtr ExpressionParser::binary(Operator op, std::uint32_t position, ExprPtr left, ExprPtr right) const {
  ExprPtr node = make(ExprKind::binary, position);
  node->operators.push_back(op);
  node->parts.push_back(std::move(left));
  node->parts.push_back(std::move(right));
  return finish(std::move(node));
}

ExprPtr ExpressionParser::expression() {
  const Level level(*this);
  ExprPtr value = logical_or();
  while (is_name("if")) {
    ExprPtr node = make(ExprKind::conditional, take().position);
    node->parts.push_back(std::move(value));
    node->parts.push_back(logical_or());
    node->parts.push_back(skip_name("else") ? expression() : nullptr);
    value = finish(std::move(node));
  }
  return value;
}

ExprPtr ExpressionParser::logical_or() {
  ExprPtr left = logical_and();
  while (is_name("or")) {
    ExprPtr node = make(ExprKind::logical_or, take().position);
    node->parts.push_back(std::move(left));
    node->parts.push_back(logical_and());
    left = finish(std::move(node));
  }
  return left;
}

ExprPtr ExpressionParser::logical_and() {
  ExprPtr left = logical_not();
  while (is_name("and")) {
    ExprPtr node = make(ExprKind::logical_and, take().position);
    node->parts.push_back(std::move(left));
    node->parts.push_back(logical_not());
    left = finish(std::move(node));
  }
  return left;
}

ExprPtr ExpressionParser::logical_not() {
  if (!is_name("not")) return compare();
  const Level level(*this);
  ExprPtr node = make(ExprKind::logical_not, take().position);
  node->parts.push_back(logical_not());
  return finish(std::move(node));
}

ExprPtr ExpressionParser::compare() {
  const std::uint32_t position = current().position;
  ExprPtr first = sum();
  ExprPtr node;
  for (;;) {
    std::optional<Operator> op = comparison(current());
    if (op) {
      take();
    } else if (skip_name("in")) {
      op = Operator::in;
    } else if (is_name("not") && look().kind == TokenKind::name && look().text == "in") {
      take();
      take();
      op = Operator::not_in;
    } else {
      break;
    }
    if (!node) {
      node = make(ExprKind::compare, position);
      node->parts.push_back(std::move(first));
    }
    node->operators.push_back(*op);
    node->parts.push_back(sum());
  }
  return node ? finish(std::move(node)) : std::move(first);
}

ExprPtr ExpressionParser::sum() {
  ExprPtr left = concat();
  while (is_symbol("+") || is_symbol("-")) {
    const Token token = take();
    left = binary(token.text == "+" ? Operator::add : Operator::subtract, token.position, std::move(left), concat());
  }
  return left;
}

ExprPtr ExpressionParser::concat() {
  const std::uint32_t position = current().position;
  ExprPtr first = product();
  if (!is_symbol("~")) return first;
  ExprPtr node = make(ExprKind::concat, position);
  node->parts.push_back(std::move(first));
  while (skip_symbol("~")) node->parts.push_back(product());
  return finish(std::move(node));
}

ExprPtr ExpressionParser::product() {
  ExprPtr left = power();
  while (is_symbol("*") || is_symbol("/") || is_symbol("//") || is_symbol("%")) {
    const Token token = take();
    const Operator op = token.text == "*"    ? Operator::multiply
                        : token.text == "/"  ? Operator::divide
                        : token.text == "//" ? Operator::floor_divide
                                             : Operator::modulo;
    left = binary(op, token.position, std::move(left), power());
  }
  return left;
}

ExprPtr ExpressionParser::power() {
  ExprPtr left = unary();
  while (is_symbol("**")) {
    const std::uint32_t position = take().position;
    left = binary(Operator::power, position, std::move(left), unary());
  }
  return left;
}

ExprPtr ExpressionParser::unary(bool with_filter) {
  const Level level(*this);
  ExprPtr node;
  if (is_symbol("-") || is_symbol("+")) {
    const Token token = take();
    node = make(token.text == "-" ? ExprKind::negate : ExprKind::plus, token.position);
    node->parts.push_back(unary(false));
    node = finish(std::move(node));
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filter ? filter_expression(std::move(node)) : std::move(node);
}

ExprPtr ExpressionParser::primary() {
  const Token& token = current();
  switch (token.kind) {
    case TokenKind::name:
      return name_or_constant();
    case TokenKind::integer:
    case TokenKind::real:
      return number();
    case TokenKind::string: {
      ExprPtr node = make(ExprKind::constant, token.position);
      std::string text = take().text;
      while (current().kind == TokenKind::string) text += take().text;
      node->value = make_string(nullptr, text);
      return node;
    }
    case TokenKind::symbol:
      if (token.text == "(") {
        take();
        ExprPtr node = tuple(true, {}, true);
        expect_symbol(")");
        return node;
      }
      if (token.text == "[") return list();
      if (token.text == "{") return dict();
      break;
    default:
      break;
  }
  fail_unexpected("an expression");
}

ExprPtr ExpressionParser::name_or_constant() {
  Token token = take();
  ExprPtr node = make(ExprKind::constant, token.position);
  if (token.text == "true" || token.text == "True") {
    node->value = Value::boolean(true);
  } else if (token.text == "false" || token.text == "False") {
    node->value = Value::boolean(false);
  } else if (token.text == "none" || token.text == "None") {
    node->value = Value::none();
  } else {
    read_varargs_ |= token.text == "varargs";
    read_kwargs_ |= token.text == "kwargs";
    read_caller_ |= token.text == "caller";
    node->kind = ExprKind::name;
    node->text = std::move(token.text);
  }
  return node;
}

ExprPtr ExpressionParser::number() {
  const Token token = take();
  ExprPtr node = make(ExprKind::constant, token.position);
  std::string_view digits = token.text;
  if (token.kind == TokenKind::real) {
    double value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) fail_at(token.position, "number out of range");
    node->value = Value::real(value);
    return node;
  }
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0' && digits[1] > '9') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    base = letter == 'x' ? 16 : letter == 'o' ? 8 : 2;
    digits.remove_prefix(2);
  }
  std::string plain(digits);
  plain.erase(std::remove(plain.begin(), plain.end(), '_'), plain.end());
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value, base);
  if (error != std::errc() || end != plain.data() + plain.size()) {
    fail_at(token.position, "the integer " + token.text + " does not fit in 64 bits");
  }
  node->value = Value::integer(value);
  return node;
}

bool ExpressionParser::ends_tuple(std::string_view stop) const noexcept {
  const Token& token = current();
  return token.kind == TokenKind::variable_end || token.kind == TokenKind::block_end || is_symbol(")") ||
         (!stop.empty() && is_name(stop));
}

ExprPtr ExpressionParser::tuple(bool conditional, std::string_view stop, bool parenthesised, bool names) {
  const std::uint32_t position = current().position;
  ExprPtr node = make(ExprKind::tuple, position);
  bool comma = false;
  while (!ends_tuple(stop)) {
    node->parts.push_back(names ? primary() : conditional ? expression() : logical_or());
    if (!skip_symbol(",")) break;
    comma = true;
  }
  if (!comma && node->parts.size() == 1) return std::move(node->parts[0]);
  if (node->parts.empty() && !parenthesised) fail_unexpected("an expression");
  return finish(std::move(node));
}

ExprPtr ExpressionParser::list() {
  ExprPtr node = make(ExprKind::list, take().position);
  while (!is_symbol("]")) {
    node->parts.push_back(expression());
    if (!skip_symbol(",")) break;
  }
  expect_symbol("]");
  return finish(std::move(node));
}

ExprPtr ExpressionParser::dict() {
  ExprPtr node = make(ExprKind::dict, take().position);
  while (!is_symbol("}")) {
    node->parts.push_back(expression());
    expect_symbol(":");
    node->parts.push_back(expression());
    if (!skip_symbol(",")) break;
  }
  expect_symbol("}");
  return finish(std::move(node));
}

ExprPtr ExpressionParser::postfix(ExprPtr node) {
  for (;;) {
    const std::uint32_t position = current().position;
    if (is_symbol(".") || is_symbol("[")) {
      node = subscripts(std::move(node));
    } else if (is_symbol("(")) {
      ExprPtr call = make(ExprKind::call, position);
      call->parts.push_back(std::move(node));
      call_arguments(call->arguments);
      node = finish(std::move(call));
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::subscripts(ExprPtr node) {
  const Token token = take();
  if (token.text == ".") {
    if (current().kind == TokenKind::integer) {
      ExprPtr access = make(ExprKind::subscript, token.position);
      access->parts.push_back(std::move(node));
      access->parts.push_back(number());
      return finish(std::move(access));
    }
    ExprPtr access = make(ExprKind::attribute, token.position);
    access->parts.push_back(std::move(node));
    access->text = expect_identifier();
    return finish(std::move(access));
  }
  ExprPtr access = make(ExprKind::subscript, token.position);
  access->parts.push_back(std::move(node));
  ExprPtr index = subscript();
  if (is_symbol(",")) {
    ExprPtr several = make(ExprKind::tuple, token.position);
    several->parts.push_back(std::move(index));
    while (skip_symbol(",")) several->parts.push_back(subscript());
    index = finish(std::move(several));
  }
  expect_symbol("]");
  access->parts.push_back(std::move(index));
  return finish(std::move(access));
}

ExprPtr ExpressionParser::subscript() {
  const std::uint32_t position = current().position;
  ExprPtr start;
  if (!is_symbol(":")) {
    start = expression();
    if (!is_symbol(":")) return start;
  }
  ExprPtr node = make(ExprKind::slice, position);
  node->parts.push_back(std::move(start));
  for (int part = 0; part < 2; ++part) {
    const bool there = skip_symbol(":") && !is_symbol(":") && !is_symbol("]") && !is_symbol(",");
    node->parts.push_back(there ? expression() : nullptr);
  }
  return finish(std::move(node));
}

void ExpressionParser::call_arguments(CallArguments& arguments) {
  const Level level(*this);
  expect_symbol("(");
  while (!is_symbol(")")) {
    if (skip_symbol("*")) {
      if (arguments.star || arguments.double_star) fail("invalid syntax for function call expression");
      arguments.star = expression();
    } else if (skip_symbol("**")) {
      if (arguments.double_star) fail("invalid syntax for function call expression");
      arguments.double_star = expression();
    } else if (current().kind == TokenKind::name && look().kind == TokenKind::symbol && look().text == "=") {
      if (arguments.double_star) fail("invalid syntax for function call expression");
      std::string name = take().text;
      take();
      arguments.named.emplace_back(std::move(name), expression());
    } else {
      if (!arguments.named.empty() || arguments.star || arguments.double_star) {
        fail("invalid syntax for function call expression");
      }
      arguments.positional.push_back(expression());
    }
    if (!skip_symbol(",")) break;
  }
  expect_symbol(")");
}

std::string ExpressionParser::dotted_name() {
  std::string name = expect_identifier();
  while (skip_symbol(".")) name += "." + expect_identifier();
  return name;
}

ExprPtr ExpressionParser::filters(ExprPtr node, bool first) {
  while (first || is_symbol("|")) {
    if (!first) take();
    first = false;
    ExprPtr filter = make(ExprKind::filter, current().position);
    filter->text = dotted_name();
    filter->parts.push_back(std::move(node));
    if (is_symbol("(")) call_arguments(filter->arguments);
    node = finish(std::move(filter));
  }
  return node;
}

ExprPtr ExpressionParser::filter_expression(ExprPtr node) {
  for (;;) {
    if (is_symbol("|")) {
      node = filters(std::move(node));
    } else if (is_name("is")) {
      node = test(std::move(node));
    } else if (is_symbol("(")) {
      node = postfix(std::move(node));
    } else {
      return node;
    }
  }
}

bool ExpressionParser::starts_test_argument() const noexcept {
  switch (current().kind) {
    case TokenKind::string:
    case TokenKind::integer:
    case TokenKind::real:
      return true;
    case TokenKind::name:
      return !is_name("else") && !is_name("or") && !is_name("and");
    default:
      return is_symbol("[") || is_symbol("{");
  }
}

ExprPtr ExpressionParser::test(ExprPtr node) {
  const std::uint32_t position = take().position;
  const bool negated = skip_name("not");
  ExprPtr test = make(ExprKind::test, position);
  test->text = dotted_name();
  test->parts.push_back(std::move(node));
  if (is_symbol("(")) {
    call_arguments(test->arguments);
  } else if (starts_test_argument()) {
    if (is_name("is")) fail("You cannot chain multiple tests with is");
    test->arguments.positional.push_back(postfix(primary()));
  }
  test = finish(std::move(test));
  if (!negated) return test;
  ExprPtr negation = make(ExprKind::logical_not, position);
  negation->parts.push_back(std::move(test));
  return finish(std::move(negation));
}

}  // namespace llminfer::text::jinja
