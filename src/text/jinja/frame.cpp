#include "text/jinja/frame.h"

#include <algorithm>

#include "text/jinja/convert.h"

namespace llminfer::text::jinja {

Value Loop::call(Runtime&, const Args& args) {
  if (!node->recursive) {
    fail_type("The loop must have the 'recursive' marker to be called recursively.");
  }
  if (args.positional.size() != 1 || !args.named.empty()) fail_type("loop() takes one argument");
  return owner->call_loop(*this, args.positional[0]);
}

const Value* Loop::attribute(Runtime& runtime, std::string_view name) {
  const auto size = static_cast<std::int64_t>(items.items().size());
  const auto item = [&](std::int64_t at, const char* missing) {
    return at >= 0 && at < size ? items.items()[static_cast<std::size_t>(at)] : make_undefined(missing, &runtime.meter);
  };
  if (name == "index") {
    answer_ = Value::integer(index + 1);
  } else if (name == "index0") {
    answer_ = Value::integer(index);
  } else if (name == "revindex") {
    answer_ = Value::integer(size - index);
  } else if (name == "revindex0") {
    answer_ = Value::integer(size - index - 1);
  } else if (name == "first") {
    answer_ = Value::boolean(index == 0);
  } else if (name == "last") {
    answer_ = Value::boolean(index + 1 == size);
  } else if (name == "length") {
    answer_ = Value::integer(size);
  } else if (name == "depth") {
    answer_ = Value::integer(depth0 + 1);
  } else if (name == "depth0") {
    answer_ = Value::integer(depth0);
  } else if (name == "previtem") {
    answer_ = item(index - 1, "there is no previous item");
  } else if (name == "nextitem") {
    answer_ = item(index + 1, "there is no next item");
  } else {
    return nullptr;
  }
  return &answer_;
}

bool Loop::invoke(std::string_view name, const Args& args, Value& result) {
  if (name == "cycle") {
    if (args.positional.empty()) fail_type("no items for cycling given");
    result = args.positional[static_cast<std::size_t>(index) % args.positional.size()];
    return true;
  }
  if (name != "changed") return false;
  const bool same = asked_changed_ && changed_.size() == args.positional.size() &&
                    std::equal(changed_.begin(), changed_.end(), args.positional.begin(), equal);
  asked_changed_ = true;
  if (!same) {
    for (const Value& value : args.positional) nest(*this, value);
    changed_ = args.positional;
  }
  result = Value::boolean(!same);
  return true;
}

}  // namespace llminfer::text::jinja
