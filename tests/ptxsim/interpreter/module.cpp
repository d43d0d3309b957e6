#include "interpreter/module.h"

namespace ptxsim {

int bytes_of(Type type) noexcept {
  switch (type) {
    case Type::none:
    case Type::pred:
      return 0;
    case Type::b8:
    case Type::u8:
    case Type::s8:
      return 1;
    case Type::b16:
    case Type::u16:
    case Type::s16:
    case Type::f16:
    case Type::bf16:
      return 2;
    case Type::b64:
    case Type::u64:
    case Type::s64:
    case Type::f64:
      return 8;
    default:
      return 4;
  }
}

bool is_signed(Type type) noexcept {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}

bool is_float(Type type) noexcept { return type == Type::f32 || type == Type::f64; }

const char* name_of(OpClass c) noexcept {
  constexpr const char* names[op_classes] = {"integer", "floating", "half",   "convert", "move",
                                             "control", "global",   "shared", "local",   "collective",
                                             "matrix",  "async",    "atomic"};
  return names[static_cast<int>(c)];
}

}  // namespace ptxsim
