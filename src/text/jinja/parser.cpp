#include "text/jinja/parser.h"

#include <algorithm>
#include <initializer_list>

#include "text/jinja/expression_parser.h"

namespace llminfer::text::jinja {
namespace {

class StatementParser : ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Body run() {
    Body body = statements({});
    if (current().kind != TokenKind::end) fail_unexpected("the end of the template");
    return body;
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  StmtPtr make_statement(StmtKind kind, std::uint32_t position) const {
    auto node = std::make_unique<Stmt>();
    node->kind = kind;
    node->position = position;
    return node;
  }

  bool at_end_tag(Names ends) const {
    return current().kind == TokenKind::block_begin && look().kind == TokenKind::name &&
           std::find(ends.begin(), ends.end(), look().text) != ends.end();
  }

  // Statements up to a tag whose name is in `ends`, which is left; up to the end of the template if there are none.
  Body statements(Names ends) {
    const Level level(*this);
    Body body;
    while (current().kind != TokenKind::end && !at_end_tag(ends)) {
      if (current().kind == TokenKind::data) {
        StmtPtr node = make_statement(StmtKind::data, current().position);
        node->text = make_string(nullptr, take().text);
        body.push_back(std::move(node));
      } else if (current().kind == TokenKind::variable_begin) {
        StmtPtr node = make_statement(StmtKind::output, take().position);
        node->expression = tuple();
        expect(TokenKind::variable_end, "'}}'");
        body.push_back(std::move(node));
      } else {
        body.push_back(statement());
      }
    }
    if (current().kind == TokenKind::end && ends.size() != 0) {
      fail("unexpected end of template, looking for '" + std::string(*std::prev(ends.end())) + "'");
    }
    return body;
  }

  // The body of a tag, and then its end tag.
  Body body_until(Names ends) {
    expect(TokenKind::block_end, "'%}'");
    return statements(ends);
  }
  void end_tag() {
    take();
    take();
    expect(TokenKind::block_end, "'%}'");
  }
  Body whole_body(std::string_view end) {
    Body body = body_until({end});
    end_tag();
    return body;
  }

  void expect(TokenKind kind, std::string_view wanted) {
    if (current().kind != kind) fail_unexpected(wanted);
    take();
  }

  StmtPtr statement() {
    take();
    const std::uint32_t position = current().position;
    if (current().kind != TokenKind::name) fail_unexpected("a tag name");
    const std::string tag = take().text;
    if (tag == "if") return if_statement(position);
    if (tag == "for") return for_statement(position);
    if (tag == "set") return set_statement(position);
    if (tag == "macro") return macro_statement(position);
    if (tag == "call") return call_statement(position);
    if (tag == "filter") return filter_statement(position);
    if (tag == "with") return with_statement(position);
    if (tag == "generation") {
      StmtPtr node = make_statement(StmtKind::generation, position);
      node->body = whole_body("endgeneration");
      return node;
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) fail_at(position, "'" + tag + "' outside of a loop");
      StmtPtr node = make_statement(tag == "break" ? StmtKind::break_ : StmtKind::continue_, position);
      expect(TokenKind::block_end, "'%}'");
      return node;
    }
    fail_at(position, "Encountered unknown tag '" + tag + "'");
  }

  StmtPtr if_statement(std::uint32_t position) {
    StmtPtr node = make_statement(StmtKind::if_, position);
    for (;;) {
      Branch branch;
      branch.condition = tuple(false);
      branch.body = body_until({"elif", "else", "endif"});
      node->branches.push_back(std::move(branch));
      take();
      const Token tag = take();
      if (tag.text == "elif") continue;
      if (tag.text == "else") {
        node->body = whole_body("endif");
      } else {
        expect(TokenKind::block_end, "'%}'");
      }
      return node;
    }
  }

  StmtPtr for_statement(std::uint32_t position) {
    StmtPtr node = make_statement(StmtKind::for_, position);
    node->target = target(false, "in");
    if (!skip_name("in")) fail_unexpected("'in'");
    node->expression = tuple(false, "recursive");
    if (skip_name("if")) node->condition = expression();
    node->recursive = skip_name("recursive");
    ++loops_;
    node->body = body_until({"else", "endfor"});
    --loops_;
    take();
    if (take().text == "else") {
      node->otherwise = whole_body("endfor");
    } else {
      expect(TokenKind::block_end, "'%}'");
    }
    return node;
  }

  // Names, a tuple of them, or attributes of namespaces.
  ExprPtr target(bool attributes, std::string_view stop) {
    ExprPtr node;
    if (attributes && current().kind == TokenKind::name && look().kind == TokenKind::symbol && look().text == ".") {
      Token name = take();
      take();
      node = make(ExprKind::attribute, name.position);
      node->parts.push_back(make(ExprKind::name, name.position));
      node->parts[0]->text = std::move(name.text);
      node->text = expect_identifier();
      return node;
    }
    node = tuple(false, stop, false, true);
    check_target(*node);
    return node;
  }

  void check_target(const Expr& node) const {
    if (node.kind == ExprKind::name) return;
    if (node.kind != ExprKind::tuple) fail_at(node.position, "can't assign to this expression");
    for (const ExprPtr& part : node.parts) check_target(*part);
  }

  StmtPtr set_statement(std::uint32_t position) {
    ExprPtr where = target(true, {});
    if (skip_symbol("=")) {
      StmtPtr node = make_statement(StmtKind::set, position);
      node->target = std::move(where);
      node->expression = tuple();
      expect(TokenKind::block_end, "'%}'");
      return node;
    }
    StmtPtr node = make_statement(StmtKind::set_block, position);
    node->target = std::move(where);
    node->condition = filters(nullptr);
    node->body = isolated_body("endset");
    return node;
  }

  // A body that is no part of the loop around it.
  Body isolated_body(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    Body body = whole_body(end);
    loops_ = loops;
    return body;
  }

  void signature(Signature& out) {
    expect_symbol("(");
    while (!is_symbol(")")) {
      if (!out.names.empty()) expect_symbol(",");
      if (is_symbol(")")) break;
      std::string name = expect_identifier();
      if (skip_symbol("=")) {
        out.defaults.push_back(expression());
      } else if (!out.defaults.empty()) {
        fail("non-default argument follows default argument");
      }
      out.names.push_back(std::move(name));
    }
    expect_symbol(")");
  }

  void macro_body(Stmt& node, std::string_view end) {
    const bool varargs = std::exchange(read_varargs_, false), kwargs = std::exchange(read_kwargs_, false),
               caller = std::exchange(read_caller_, false);
    node.body = isolated_body(end);
    node.signature.uses_varargs = read_varargs_;
    node.signature.uses_kwargs = read_kwargs_;
    node.signature.uses_caller = read_caller_;
    read_varargs_ |= varargs;
    read_kwargs_ |= kwargs;
    read_caller_ |= caller;
  }

  StmtPtr macro_statement(std::uint32_t position) {
    StmtPtr node = make_statement(StmtKind::macro, position);
    node->name = expect_identifier();
    signature(node->signature);
    macro_body(*node, "endmacro");
    return node;
  }

  StmtPtr call_statement(std::uint32_t position) {
    StmtPtr node = make_statement(StmtKind::call_block, position);
    node->name = "caller";
    if (is_symbol("(")) signature(node->signature);
    node->expression = expression();
    if (node->expression->kind != ExprKind::call) fail_at(position, "expected call");
    macro_body(*node, "endcall");
    return node;
  }

  StmtPtr filter_statement(std::uint32_t position) {
    StmtPtr node = make_statement(StmtKind::filter_block, position);
    node->expression = filters(nullptr, true);
    node->body = isolated_body("endfilter");
    return node;
  }

  StmtPtr with_statement(std::uint32_t position) {
    StmtPtr node = make_statement(StmtKind::with, position);
    while (current().kind != TokenKind::block_end) {
      if (!node->assignments.empty()) expect_symbol(",");
      ExprPtr where = target(false, {});
      expect_symbol("=");
      node->assignments.emplace_back(std::move(where), expression());
    }
    node->body = whole_body("endwith");
    return node;
  }

  int loops_ = 0;
};

}  // namespace

Program parse(std::string_view source, const Limits& limits) {
  if (source.size() > limits.source_bytes) {
    core::fail(ErrorCode::corrupt, "chat template of {} bytes: at most {} are allowed", source.size(),
               limits.source_bytes);
  }
  Program program;
  program.source = normalise_source(source);
  program.body = StatementParser(program.source, tokenize(program.source), limits).run();
  return program;
}

}  // namespace llminfer::text::jinja
