// Values of a template run: Python's None, bool, int (64 bits), float, str, list, tuple, range, dict, generators, and
// Jinja's Undefined, namespaces, macros and functions. Immutable but for namespaces, iterators and loop objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/meter.h"
#include "text/jinja/spanned_text.h"

namespace llminfer::text::jinja {

enum class Kind : std::uint8_t {
  undefined,
  none,
  boolean,
  integer,
  real,
  string,
  list,
  tuple,
  range,
  view,      ///< what dict.keys(), values() and items() give: iterable, no subscripts
  iterator,  ///< what map, select, ... give: iterable once
  dict,
  object,  ///< namespace, macro, function, loop
};

/// What values share. Gives the memory it was charged back to its meter, which outlives it (null: a constant of a
/// parsed template, charged to nobody).
struct Payload {
  explicit Payload(Meter* owner) noexcept : meter(owner) {}
  Payload(const Payload&) = delete;
  Payload& operator=(const Payload&) = delete;
  virtual ~Payload() {
    if (meter != nullptr) meter->give(charged);
  }
  void charge(std::size_t bytes) {
    if (meter == nullptr) return;
    meter->take(bytes);
    charged += bytes;
  }

  Meter* meter;
  std::size_t charged = 0;
  int depth = 1;  ///< nesting of containers, bounded when they are made, so that walks and destructors may recurse
};

struct StringPayload;
struct SequencePayload;
struct DictPayload;
struct Object;
struct UndefinedPayload;

class Value {
 public:
  Value() noexcept = default;  ///< undefined, without a name
  static Value none() noexcept { return Value(Kind::none); }
  static Value boolean(bool value) noexcept {
    Value made(Kind::boolean);
    made.integer_ = value ? 1 : 0;
    return made;
  }
  static Value integer(std::int64_t value) noexcept {
    Value made(Kind::integer);
    made.integer_ = value;
    return made;
  }
  static Value real(double value) noexcept {
    Value made(Kind::real);
    made.real_ = value;
    return made;
  }
  Value(Kind kind, std::shared_ptr<Payload> payload) noexcept : kind_(kind), payload_(std::move(payload)) {}

  Kind kind() const noexcept { return kind_; }
  bool is(Kind kind) const noexcept { return kind_ == kind; }
  bool is_undefined() const noexcept { return kind_ == Kind::undefined; }
  bool is_none() const noexcept { return kind_ == Kind::none; }
  bool is_string() const noexcept { return kind_ == Kind::string; }
  bool is_number() const noexcept { return kind_ >= Kind::boolean && kind_ <= Kind::real; }
  bool is_integral() const noexcept { return kind_ == Kind::boolean || kind_ == Kind::integer; }
  bool is_sequence() const noexcept { return kind_ >= Kind::list && kind_ <= Kind::iterator; }

  // Each needs the kind to be right.
  bool as_boolean() const noexcept { return integer_ != 0; }
  std::int64_t as_integer() const noexcept { return integer_; }  ///< boolean or integer
  double as_real() const noexcept { return kind_ == Kind::real ? real_ : static_cast<double>(integer_); }
  const StringPayload& string() const noexcept;
  const SpannedText& text() const noexcept;
  std::string_view view() const noexcept;      ///< bytes of a string
  SequencePayload& sequence() const noexcept;  ///< list, tuple, range, view, iterator
  const std::vector<Value>& items() const noexcept;
  DictPayload& dict() const noexcept;
  Object& object() const noexcept;
  const UndefinedPayload* undefined() const noexcept;  ///< null for one without a name
  Payload* payload() const noexcept { return payload_.get(); }
  int depth() const noexcept { return payload_ ? payload_->depth : 0; }

 private:
  explicit Value(Kind kind) noexcept : kind_(kind) {}

  Kind kind_ = Kind::undefined;
  union {
    std::int64_t integer_ = 0;
    double real_;
  };
  std::shared_ptr<Payload> payload_;
};

struct UndefinedPayload final : Payload {
  using Payload::Payload;
  std::string message;  ///< what an operation on it reports
};

struct StringPayload final : Payload {
  using Payload::Payload;
  SpannedText text;
  std::size_t characters = 0;
  bool html = false;  ///< markupsafe's Markup, made by the filters safe and escape
};

struct SequencePayload final : Payload {
  using Payload::Payload;
  std::vector<Value> items;
  std::size_t next = 0;  ///< iterator: how many were taken
  std::string name;      ///< range, view, iterator: how it prints, "generator" or "range(0, 3)"
};

/// Keys in order of insertion.
struct DictPayload final : Payload {
  using Payload::Payload;
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;
  /// Adds or replaces; checks that the key is one that Python can hash.
  void set(Value key, Value value);

  std::vector<std::pair<Value, Value>> entries;

 private:
  std::map<std::string_view, std::size_t> index_;  ///< of string keys, once there are more than a few
  std::size_t find_index(const Value& key) const;
};

/// Arguments of a call.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Runtime;

/// A thing with behaviour. Attributes that it does not have are undefined.
struct Object : Payload {
  using Payload::Payload;
  virtual std::string_view type_name() const noexcept = 0;
  virtual bool callable() const noexcept { return false; }
  virtual Value call(Runtime&, const Args&);
  virtual const Value* attribute(Runtime&, std::string_view) { return nullptr; }
  /// Drops references that may lead back to this object; called for Runtime::circular at the end of a run.
  virtual void release() noexcept {}
};

/// Makes `child` part of `parent`: checks the nesting and updates it.
void nest(Payload& parent, const Value& child);
/// A Python float's and int's equality, so 1 == 1.0 == True.
bool equal(const Value& a, const Value& b);
/// "str", "NoneType", ... as Python names it in messages.
std::string_view type_name(const Value& value) noexcept;

Value make_undefined(std::string message, Meter* meter = nullptr);
Value make_string(Meter* meter, SpannedText text, bool html = false);
inline Value make_string(Meter* meter, std::string_view text, Origin origin = Origin::markup) {
  return make_string(meter, SpannedText(text, origin));
}
/// `kind` is list, tuple, range, view or iterator. Checks the nesting.
Value make_sequence(Meter* meter, Kind kind, std::vector<Value> items, std::string name = {});
inline Value make_list(Meter& meter, std::vector<Value> items) {
  return make_sequence(&meter, Kind::list, std::move(items));
}
std::shared_ptr<DictPayload> new_dict(Meter* meter);

inline const StringPayload& Value::string() const noexcept { return static_cast<const StringPayload&>(*payload_); }
inline const SpannedText& Value::text() const noexcept { return string().text; }
inline std::string_view Value::view() const noexcept { return string().text.view(); }
inline SequencePayload& Value::sequence() const noexcept { return static_cast<SequencePayload&>(*payload_); }
inline const std::vector<Value>& Value::items() const noexcept { return sequence().items; }
inline DictPayload& Value::dict() const noexcept { return static_cast<DictPayload&>(*payload_); }
inline Object& Value::object() const noexcept { return static_cast<Object&>(*payload_); }
inline const UndefinedPayload* Value::undefined() const noexcept {
  return static_cast<const UndefinedPayload*>(payload_.get());
}

}  // namespace llminfer::text::jinja
