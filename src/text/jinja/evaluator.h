// The expression half of the interpreter; the statement half derives from it.
#pragma once

#include <cstdint>
#include <memory>

#include "text/jinja/frame.h"

namespace llminfer::text::jinja {

class Evaluator : public Caller {
 public:
  explicit Evaluator(Runtime& runtime) noexcept : runtime_(runtime) {}
  /// Where in the source the run is, or where it failed.
  std::uint32_t position() const noexcept { return position_; }

 protected:
  ~Evaluator() = default;

  Value evaluate(const Expr& node);
  /// A call, with the caller of a call block or null.
  Value call(const Expr& node, const Value* caller);
  /// A chain of filters whose innermost input is `body`.
  Value filter_body(const Expr& chain, const Value& body);

  Runtime& runtime_;
  std::shared_ptr<Frame> frame_;
  std::uint32_t position_ = 0;

 private:
  Value name(const Expr& node);
  std::vector<Value> parts(const Expr& node);
  Value dict(const Expr& node);
  Value subscript(const Expr& node);
  Value conditional(const Expr& node);
  Value compare(const Expr& node);
  Value concat(const Expr& node);
  Value filter(const Expr& node);
  Args arguments(const CallArguments& given);

  const Value* filtered_body_ = nullptr;
};

}  // namespace llminfer::text::jinja
