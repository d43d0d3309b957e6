// Variables of one scope of a run, and what closes over them: macros and loop objects.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace llminfer::text::jinja {

/// Names are views into the program or into the variables of the run, which outlive every frame.
struct Frame {
  std::shared_ptr<Frame> parent;
  std::vector<std::pair<std::string_view, Value>> variables;

  const Value* find(std::string_view name) const noexcept {
    for (const Frame* frame = this; frame != nullptr; frame = frame->parent.get()) {
      for (const auto& [known, value] : frame->variables) {
        if (known == name) return &value;
      }
    }
    return nullptr;
  }
  void set(std::string_view name, Value value) {
    for (auto& [known, old] : variables) {
      if (known == name) {
        old = std::move(value);
        return;
      }
    }
    variables.emplace_back(name, std::move(value));
  }
};

/// What calls back into the interpreter.
class Caller {
 public:
  virtual Value call_macro(const struct Macro& macro, const Args& args) = 0;
  virtual Value call_loop(const struct Loop& loop, const Value& items) = 0;

 protected:
  ~Caller() = default;
};

/// A macro, or the caller of a call block.
struct Macro final : Object {
  using Object::Object;
  std::string_view type_name() const noexcept override { return "Macro"; }
  bool callable() const noexcept override { return true; }
  Value call(Runtime&, const Args& args) override { return owner->call_macro(*this, args); }
  void release() noexcept override { frame.reset(); }

  Caller* owner = nullptr;
  const Stmt* node = nullptr;
  std::shared_ptr<Frame> frame;
};

/// The variable `loop`.
struct Loop final : Object {
  using Object::Object;
  std::string_view type_name() const noexcept override { return "LoopContext"; }
  bool callable() const noexcept override { return node->recursive; }
  Value call(Runtime& runtime, const Args& args) override;
  const Value* attribute(Runtime& runtime, std::string_view name) override;
  /// loop.cycle(...) and loop.changed(...); false if `name` is another one.
  bool invoke(std::string_view name, const Args& args, Value& result);

  Caller* owner = nullptr;
  const Stmt* node = nullptr;
  std::shared_ptr<Frame> frame;  ///< around the loop
  Value items;                   ///< a list
  std::int64_t index = 0, depth0 = 0;

 private:
  Value answer_;
  std::vector<Value> changed_;
  bool asked_changed_ = false;
};

}  // namespace llminfer::text::jinja
