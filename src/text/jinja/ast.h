// A parsed template: a tree of expressions and statements. Immutable after parsing, shared between threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace llminfer::text::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;
struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

enum class ExprKind : std::uint8_t {
  constant,     ///< value
  name,         ///< text
  list,         ///< parts
  tuple,        ///< parts
  dict,         ///< parts: key, value, key, value, ...
  attribute,    ///< parts[0] . text
  subscript,    ///< parts[0] [ parts[1] ]
  slice,        ///< parts: start, stop, step; each may be null. Only as a subscript
  call,         ///< parts[0] ( args )
  filter,       ///< parts[0] | text ( args ); parts[0] null: the body of a filter block
  test,         ///< parts[0] is text ( args )
  negate,       ///< - parts[0]
  plus,         ///< + parts[0]
  logical_not,  ///< not parts[0]
  logical_and,
  logical_or,
  conditional,  ///< parts: value, condition, otherwise (null: undefined)
  compare,      ///< parts: operands, operators: one between each two
  concat,       ///< parts joined by ~
  binary,       ///< parts[0] operators[0] parts[1]
};

enum class Operator : std::uint8_t {
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in,
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
};

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star, double_star;  ///< *args, **kwargs
};

struct Expr {
  ExprKind kind;
  std::uint32_t position;  ///< byte offset in the normalised source
  int depth = 1;           ///< of the tree below
  std::string text;
  Value value;
  std::vector<ExprPtr> parts;
  std::vector<Operator> operators;
  CallArguments arguments;
};

enum class StmtKind : std::uint8_t {
  data,          ///< text
  output,        ///< {{ expression }}
  if_,           ///< branches, body: else
  for_,          ///< target in expression if condition: body, else otherwise
  set,           ///< target = expression
  set_block,     ///< target = body through condition (a filter, or null)
  macro,         ///< name, signature, body
  call_block,    ///< expression (a call), signature of caller, body
  filter_block,  ///< expression (a filter chain whose innermost part is null), body
  with,          ///< assignments, body
  generation,    ///< body: what the assistant wrote
  break_,
  continue_,
};

struct Signature {
  std::vector<std::string> names;
  std::vector<ExprPtr> defaults;  ///< of the last names
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};

struct Branch {
  ExprPtr condition;
  Body body;
};

struct Stmt {
  StmtKind kind;
  std::uint32_t position;
  std::string name;
  Value text;
  ExprPtr target, expression, condition;
  Signature signature;
  std::vector<Branch> branches;
  std::vector<std::pair<ExprPtr, ExprPtr>> assignments;
  Body body, otherwise;
  bool recursive = false;
};

/// The source that positions count in, and the tree.
struct Program {
  std::string source;
  Body body;
};

}  // namespace llminfer::text::jinja
