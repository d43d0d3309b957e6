// The expression half of the parser; the statement half derives from it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace llminfer::text::jinja {

class ExpressionParser {
 public:
  ExpressionParser(std::string_view source, std::vector<Token> tokens, const Limits& limits)
      : source_(source), tokens_(std::move(tokens)), limits_(limits) {}

 protected:
  // One level of nesting while it lives.
  class Level {
   public:
    explicit Level(ExpressionParser& parser);
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ExpressionParser& parser_;
  };

  const Token& current() const noexcept { return tokens_[at_]; }
  const Token& look() const noexcept { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  /// Moves past the current token (the last one, of kind end, stays).
  Token take() {
    Token token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool is_symbol(std::string_view symbol) const noexcept {
    return current().kind == TokenKind::symbol && current().text == symbol;
  }
  bool is_name(std::string_view name) const noexcept {
    return current().kind == TokenKind::name && current().text == name;
  }
  bool skip_symbol(std::string_view symbol);
  bool skip_name(std::string_view name);
  void expect_symbol(std::string_view symbol);
  std::string expect_identifier();
  [[noreturn]] void fail(const std::string& message) const { fail_at(current().position, message); }
  [[noreturn]] void fail_at(std::uint32_t position, const std::string& message) const;
  [[noreturn]] void fail_unexpected(std::string_view wanted) const;

  ExprPtr expression();
  ExprPtr logical_or();
  ExprPtr primary();
  /// One expression, or a tuple without parentheses. `stop`: a name that ends it. `conditional`: x if y else z allowed.
  ExprPtr tuple(bool conditional = true, std::string_view stop = {}, bool parenthesised = false, bool names = false);
  ExprPtr postfix(ExprPtr node);
  /// The filters behind `node` (null: a filter block). `first`: the first one has no '|' before it.
  ExprPtr filters(ExprPtr node, bool first = false);
  ExprPtr make(ExprKind kind, std::uint32_t position) const;
  ExprPtr finish(ExprPtr node) const;  // computes and checks the depth

  // Special names that a macro's body has read since they were last reset.
  bool read_varargs_ = false, read_kwargs_ = false, read_caller_ = false;
  const Limits& limits() const noexcept { return limits_; }

 private:
  ExprPtr logical_and();
  ExprPtr logical_not();
  ExprPtr compare();
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filter = true);
  ExprPtr filter_expression(ExprPtr node);
  ExprPtr test(ExprPtr node);
  ExprPtr list();
  ExprPtr dict();
  ExprPtr subscripts(ExprPtr node);
  ExprPtr subscript();
  ExprPtr name_or_constant();
  ExprPtr number();
  std::string dotted_name();
  bool starts_test_argument() const noexcept;
  bool ends_tuple(std::string_view stop) const noexcept;
  void call_arguments(CallArguments& arguments);
  ExprPtr binary(Operator op, std::uint32_t position, ExprPtr left, ExprPtr right) const;

  std::string_view source_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  Limits limits_;
};

}  // namespace llminfer::text::jinja
