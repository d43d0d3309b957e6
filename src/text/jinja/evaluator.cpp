#include "text/jinja/evaluator.h"

#include <utility>

#include "text/jinja/access.h"
#include "text/jinja/convert.h"
#include "text/jinja/library.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"

namespace llminfer::text::jinja {

Value Evaluator::evaluate(const Expr& node) {
  const Meter::Level level(runtime_.meter);
  runtime_.meter.step();
  position_ = node.position;
  switch (node.kind) {
    case ExprKind::constant:
      return node.value;
    case ExprKind::name:
      return name(node);
    case ExprKind::list:
      return make_list(runtime_.meter, parts(node));
    case ExprKind::tuple:
      return make_sequence(&runtime_.meter, Kind::tuple, parts(node));
    case ExprKind::dict:
      return dict(node);
    case ExprKind::attribute: {
      const Value owner = evaluate(*node.parts[0]);
      position_ = node.position;
      return get_attribute(runtime_, owner, node.text);
    }
    case ExprKind::subscript:
      return subscript(node);
    case ExprKind::slice:
      fail_type("a slice is only allowed as a subscript");
    case ExprKind::call:
      return call(node, nullptr);
    case ExprKind::filter:
      return filter(node);
    case ExprKind::test: {
      const Value value = evaluate(*node.parts[0]);
      const Args args = arguments(node.arguments);
      position_ = node.position;
      return Value::boolean(apply_test(runtime_, node.text, value, args));
    }
    case ExprKind::negate:
    case ExprKind::plus: {
      const Value value = evaluate(*node.parts[0]);
      position_ = node.position;
      return negate(value, node.kind == ExprKind::negate);
    }
    case ExprKind::logical_not:
      return Value::boolean(!truthy(evaluate(*node.parts[0])));
    case ExprKind::logical_and: {
      Value left = evaluate(*node.parts[0]);
      return truthy(left) ? evaluate(*node.parts[1]) : left;
    }
    case ExprKind::logical_or: {
      Value left = evaluate(*node.parts[0]);
      return truthy(left) ? left : evaluate(*node.parts[1]);
    }
    case ExprKind::conditional:
      return conditional(node);
    case ExprKind::compare:
      return compare(node);
    case ExprKind::concat:
      return concat(node);
    case ExprKind::binary: {
      const Value left = evaluate(*node.parts[0]), right = evaluate(*node.parts[1]);
      position_ = node.position;
      return arithmetic(runtime_.meter, node.operators[0], left, right);
    }
  }
  return {};
}

Value Evaluator::name(const Expr& node) {
  if (const Value* found = frame_->find(node.text)) return *found;
  Value global = find_global(node.text);
  return global.is_undefined() ? make_undefined("'" + node.text + "' is undefined", &runtime_.meter) : global;
}

std::vector<Value> Evaluator::parts(const Expr& node) {
  std::vector<Value> values;
  values.reserve(node.parts.size());
  for (const ExprPtr& part : node.parts) values.push_back(evaluate(*part));
  return values;
}

Value Evaluator::dict(const Expr& node) {
  std::shared_ptr<DictPayload> made = new_dict(&runtime_.meter);
  for (std::size_t i = 0; i + 1 < node.parts.size(); i += 2) {
    Value key = evaluate(*node.parts[i]);
    made->set(std::move(key), evaluate(*node.parts[i + 1]));
  }
  return {Kind::dict, std::move(made)};
}

Value Evaluator::subscript(const Expr& node) {
  const Value owner = evaluate(*node.parts[0]);
  const Expr& index = *node.parts[1];
  if (index.kind != ExprKind::slice) {
    const Value key = evaluate(index);
    position_ = node.position;
    return get_item(runtime_, owner, key);
  }
  Value bounds[3];
  for (std::size_t i = 0; i < 3; ++i) {
    if (index.parts[i]) bounds[i] = evaluate(*index.parts[i]);
  }
  position_ = node.position;
  const auto given = [&](std::size_t i) { return index.parts[i] ? &bounds[i] : nullptr; };
  return get_slice(runtime_, owner, given(0), given(1), given(2));
}

Value Evaluator::conditional(const Expr& node) {
  if (truthy(evaluate(*node.parts[1]))) return evaluate(*node.parts[0]);
  if (node.parts[2]) return evaluate(*node.parts[2]);
  return make_undefined("the inline if-expression evaluated to false and no else section was defined.",
                        &runtime_.meter);
}

Value Evaluator::compare(const Expr& node) {
  Value left = evaluate(*node.parts[0]);
  for (std::size_t i = 0; i < node.operators.size(); ++i) {
    Value right = evaluate(*node.parts[i + 1]);
    position_ = node.position;
    if (!jinja::compare(runtime_.meter, node.operators[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Evaluator::concat(const Expr& node) {
  Builder out(runtime_.meter);
  for (const ExprPtr& part : node.parts) add_text(out, evaluate(*part));
  return out.string();
}

Value Evaluator::filter(const Expr& node) {
  const Value input = node.parts[0] ? evaluate(*node.parts[0]) : *filtered_body_;
  const Args args = arguments(node.arguments);
  position_ = node.position;
  return apply_filter(runtime_, node.text, input, args);
}

Value Evaluator::filter_body(const Expr& chain, const Value& body) {
  const Value* before = std::exchange(filtered_body_, &body);
  Value result = evaluate(chain);
  filtered_body_ = before;
  return result;
}

Args Evaluator::arguments(const CallArguments& given) {
  Args args;
  for (const ExprPtr& part : given.positional) args.positional.push_back(evaluate(*part));
  for (const auto& [name, value] : given.named) args.named.emplace_back(name, evaluate(*value));
  if (given.star) {
    for (Value& value : iterate(runtime_.meter, evaluate(*given.star))) args.positional.push_back(std::move(value));
  }
  if (given.double_star) {
    const Value rest = evaluate(*given.double_star);
    if (!rest.is(Kind::dict)) fail_type("argument after ** must be a mapping, not " + std::string(type_name(rest)));
    for (const auto& [name, value] : rest.dict().entries) {
      if (!name.is_string()) fail_type("keywords must be strings");
      args.named.emplace_back(name.view(), value);
    }
  }
  return args;
}

Value Evaluator::call(const Expr& node, const Value* caller) {
  const Expr& callee = *node.parts[0];
  const bool method = callee.kind == ExprKind::attribute;
  const Value owner = evaluate(method ? *callee.parts[0] : callee);
  Args args = arguments(node.arguments);
  if (caller != nullptr) args.named.emplace_back("caller", *caller);
  position_ = node.position;
  if (!method) {
    if (owner.is_undefined()) fail_undefined(owner);
    if (!owner.is(Kind::object)) fail_type("'" + std::string(type_name(owner)) + "' object is not callable");
    return owner.object().call(runtime_, args);
  }
  position_ = callee.position;
  if (method_access(owner.kind(), callee.text) == MethodAccess::allowed) {
    return call_method(runtime_, owner, callee.text, args);
  }
  if (auto* loop = owner.is(Kind::object) ? dynamic_cast<Loop*>(owner.payload()) : nullptr) {
    Value result;
    if (loop->invoke(callee.text, args, result)) return result;
  }
  const Value function = get_attribute(runtime_, owner, callee.text);
  if (function.is_undefined()) fail_undefined(function);
  if (!function.is(Kind::object)) fail_type("'" + std::string(type_name(function)) + "' object is not callable");
  return function.object().call(runtime_, args);
}

}  // namespace llminfer::text::jinja
