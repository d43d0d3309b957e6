#include "text/jinja/interpreter.h"

#include <algorithm>

#include "text/jinja/convert.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/frame.h"
#include "text/jinja/lexer.h"
#include "text/jinja/library.h"

namespace llminfer::text::jinja {
namespace {

enum class Flow { normal, break_, continue_ };

class Interpreter final : public Evaluator {
 public:
  using Evaluator::Evaluator;

  SpannedText run(const Program& program, const Variables& variables) {
    auto context = std::make_shared<Frame>();
    for (const auto& [name, value] : variables) context->set(name, value);
    frame_ = std::make_shared<Frame>();
    frame_->parent = std::move(context);
    Builder out(runtime_.meter);
    const Restore restore(*this, std::exchange(out_, &out));
    execute(program.body);
    return out.take();
  }

  Value call_macro(const Macro& macro, const Args& args) override {
    const Meter::Level level(runtime_.meter);
    const Scope scope(*this, macro.frame);
    bind_arguments(macro, args);
    return captured(macro.node->body);
  }

  Value call_loop(const Loop& loop, const Value& items) override {
    const Meter::Level level(runtime_.meter);
    const std::shared_ptr<Frame> around = loop.frame;
    const Stmt* node = loop.node;
    const std::int64_t depth0 = loop.depth0 + 1;
    const Scope scope(*this, around);
    Builder out(runtime_.meter);
    Builder* const before = std::exchange(out_, &out);
    const Restore restore(*this, before);
    run_loop(*node, items, depth0);
    return out.string();
  }

 private:
  // A frame inside `parent` while it lives.
  class Scope {
   public:
    Scope(Interpreter& owner, std::shared_ptr<Frame> parent) : owner_(owner), saved_(owner.frame_) {
      auto frame = std::make_shared<Frame>();
      frame->parent = std::move(parent);
      owner_.frame_ = std::move(frame);
    }
    explicit Scope(Interpreter& owner) : Scope(owner, owner.frame_) {}
    ~Scope() { owner_.frame_ = std::move(saved_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Interpreter& owner_;
    std::shared_ptr<Frame> saved_;
  };

  class Restore {
   public:
    Restore(Interpreter& owner, Builder* out) : owner_(owner), out_(out) {}
    ~Restore() { owner_.out_ = out_; }
    Restore(const Restore&) = delete;
    Restore& operator=(const Restore&) = delete;

   private:
    Interpreter& owner_;
    Builder* out_;
  };

  // What a body writes, as a string.
  Value captured(const Body& body) {
    Builder out(runtime_.meter);
    const Restore restore(*this, std::exchange(out_, &out));
    execute(body);
    return out.string();
  }

  void check_output() const {
    if (out_->size() > runtime_.meter.limits().output_bytes) {
      core::fail(ErrorCode::invalid_argument, "the template writes more than {} bytes",
                 runtime_.meter.limits().output_bytes);
    }
  }

  Flow execute(const Body& body) {
    for (const StmtPtr& statement : body) {
      const Flow flow = execute(*statement);
      if (flow != Flow::normal) return flow;
    }
    return Flow::normal;
  }

  Flow execute(const Stmt& node) {
    const Meter::Level level(runtime_.meter);
    runtime_.meter.step();
    position_ = node.position;
    switch (node.kind) {
      case StmtKind::data:
        out_->add(node.text.text());
        check_output();
        return Flow::normal;
      case StmtKind::output:
        add_text(*out_, evaluate(*node.expression));
        check_output();
        return Flow::normal;
      case StmtKind::if_:
        return execute_if(node);
      case StmtKind::for_:
        run_loop(node, evaluate(*node.expression), 0);
        return Flow::normal;
      case StmtKind::set:
        assign(*node.target, evaluate(*node.expression));
        return Flow::normal;
      case StmtKind::set_block:
        execute_set_block(node);
        return Flow::normal;
      case StmtKind::macro:
        frame_->set(node.name, make_macro(node));
        return Flow::normal;
      case StmtKind::call_block: {
        const Value caller = make_macro(node);
        add_text(*out_, call(*node.expression, &caller));
        check_output();
        return Flow::normal;
      }
      case StmtKind::filter_block:
        execute_filter_block(node);
        return Flow::normal;
      case StmtKind::with:
        return execute_with(node);
      case StmtKind::generation: {
        const Scope scope(*this);
        return execute(node.body);
      }
      case StmtKind::break_:
        return Flow::break_;
      case StmtKind::continue_:
        return Flow::continue_;
    }
    return Flow::normal;
  }

  Flow execute_if(const Stmt& node) {
    for (const Branch& branch : node.branches) {
      if (truthy(evaluate(*branch.condition))) return execute(branch.body);
    }
    return execute(node.body);
  }

  Flow execute_with(const Stmt& node) {
    std::vector<Value> values;
    for (const auto& [target, expression] : node.assignments) values.push_back(evaluate(*expression));
    const Scope scope(*this);
    for (std::size_t i = 0; i < values.size(); ++i) assign(*node.assignments[i].first, std::move(values[i]));
    return execute(node.body);
  }

  void execute_set_block(const Stmt& node) {
    Value value;
    {
      const Scope scope(*this);
      value = captured(node.body);
    }
    if (node.condition) value = filter_body(*node.condition, value);
    assign(*node.target, std::move(value));
  }

  void execute_filter_block(const Stmt& node) {
    Value value;
    {
      const Scope scope(*this);
      value = captured(node.body);
    }
    add_text(*out_, filter_body(*node.expression, value));
    check_output();
  }

  void assign(const Expr& target, Value value) {
    if (target.kind == ExprKind::name) {
      frame_->set(target.text, std::move(value));
      return;
    }
    position_ = target.position;
    if (target.kind == ExprKind::attribute) {
      const Value* owner = frame_->find(target.parts[0]->text);
      auto* space = owner != nullptr && owner->is(Kind::object) ? dynamic_cast<Namespace*>(owner->payload()) : nullptr;
      if (space == nullptr) fail_type("cannot assign attribute on non-namespace object");
      space->values->set(make_string(&runtime_.meter, target.text), std::move(value));
      return;
    }
    const std::vector<Value> items = iterate(runtime_.meter, value);
    if (items.size() < target.parts.size()) {
      fail_type("not enough values to unpack (expected " + std::to_string(target.parts.size()) + ", got " +
                std::to_string(items.size()) + ")");
    }
    if (items.size() > target.parts.size()) {
      fail_type("too many values to unpack (expected " + std::to_string(target.parts.size()) + ")");
    }
    for (std::size_t i = 0; i < items.size(); ++i) assign(*target.parts[i], items[i]);
  }

  // The items that a loop visits: all, or those that its condition keeps.
  Value loop_items(const Stmt& node, const Value& iterable) {
    std::vector<Value> items = iterate(runtime_.meter, iterable);
    if (!node.condition) return make_list(runtime_.meter, std::move(items));
    std::vector<Value> kept;
    for (Value& item : items) {
      const Scope scope(*this);
      assign(*node.target, item);
      if (truthy(evaluate(*node.condition))) kept.push_back(std::move(item));
    }
    return make_list(runtime_.meter, std::move(kept));
  }

  // frame_ is the one around the loop.
  void run_loop(const Stmt& node, const Value& iterable, std::int64_t depth0) {
    auto loop = std::make_shared<Loop>(&runtime_.meter);
    loop->charge(sizeof(Loop));
    loop->owner = this;
    loop->node = &node;
    loop->frame = frame_;
    loop->items = loop_items(node, iterable);
    loop->depth0 = depth0;
    nest(*loop, loop->items);
    const std::size_t count = loop->items.items().size();
    const Value loop_value(Kind::object, loop);
    for (std::size_t i = 0; i < count; ++i) {
      runtime_.meter.step();
      loop->index = static_cast<std::int64_t>(i);
      const Scope scope(*this);
      assign(*node.target, loop->items.items()[i]);
      frame_->set("loop", loop_value);
      if (execute(node.body) == Flow::break_) break;
    }
    if (count == 0) {
      const Scope scope(*this);
      execute(node.otherwise);
    }
  }

  Value make_macro(const Stmt& node) {
    auto macro = std::make_shared<Macro>(&runtime_.meter);
    macro->charge(sizeof(Macro) + sizeof(Frame));
    macro->owner = this;
    macro->node = &node;
    macro->frame = frame_;
    runtime_.circular.push_back(macro);
    return {Kind::object, std::move(macro)};
  }

  [[noreturn]] static void fail_macro(const Macro& macro, const std::string& message) {
    fail_type("macro '" + macro.node->name + "' " + message);
  }

  // Sets the parameters in frame_, as Jinja's Macro.__call__ does.
  void bind_arguments(const Macro& macro, const Args& args) {
    const Signature& signature = macro.node->signature;
    std::vector<bool> used(args.named.size(), false);
    const auto take_named = [&](std::string_view name) -> const Value* {
      for (std::size_t i = 0; i < args.named.size(); ++i) {
        if (args.named[i].first != name || used[i]) continue;
        used[i] = true;
        return &args.named[i].second;
      }
      return nullptr;
    };
    const std::size_t count = signature.names.size(), first_default = count - signature.defaults.size();
    bool explicit_caller = false;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string& name = signature.names[i];
      explicit_caller |= name == "caller";
      const Value* given = i < args.positional.size() ? &args.positional[i] : take_named(name);
      if (given != nullptr) {
        frame_->set(name, *given);
      } else if (i >= first_default) {
        frame_->set(name, evaluate(*signature.defaults[i - first_default]));
      } else {
        frame_->set(name, make_undefined("parameter '" + name + "' was not provided", &runtime_.meter));
      }
    }
    if (signature.uses_caller && !explicit_caller) {
      const Value* caller = take_named("caller");
      frame_->set("caller", caller != nullptr ? *caller : make_undefined("No caller defined", &runtime_.meter));
    }
    bind_rest(macro, args, used);
  }

  void bind_rest(const Macro& macro, const Args& args, const std::vector<bool>& used) {
    const Signature& signature = macro.node->signature;
    if (signature.uses_kwargs) {
      std::shared_ptr<DictPayload> rest = new_dict(&runtime_.meter);
      for (std::size_t i = 0; i < args.named.size(); ++i) {
        if (!used[i]) rest->set(make_string(&runtime_.meter, args.named[i].first), args.named[i].second);
      }
      frame_->set("kwargs", Value(Kind::dict, std::move(rest)));
    } else {
      for (std::size_t i = 0; i < args.named.size(); ++i) {
        if (!used[i]) fail_macro(macro, "takes no keyword argument '" + args.named[i].first + "'");
      }
    }
    const std::size_t count = signature.names.size();
    if (signature.uses_varargs) {
      std::vector<Value> rest;
      for (std::size_t i = count; i < args.positional.size(); ++i) rest.push_back(args.positional[i]);
      frame_->set("varargs", make_sequence(&runtime_.meter, Kind::tuple, std::move(rest)));
    } else if (args.positional.size() > count) {
      fail_macro(macro, "takes not more than " + std::to_string(count) + " argument(s)");
    }
  }

  Builder* out_ = nullptr;
};

}  // namespace

SpannedText render(const Program& program, Runtime& runtime, const Variables& variables) {
  Interpreter interpreter(runtime);
  try {
    return interpreter.run(program, variables);
  } catch (const Exception& failure) {
    fail_at(failure.error().code, program.source, interpreter.position(), failure.error().message);
  }
}

}  // namespace llminfer::text::jinja
