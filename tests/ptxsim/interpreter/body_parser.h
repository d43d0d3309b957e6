// The body of one kernel: declarations, labels, source lines and instructions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "interpreter/module.h"

namespace ptxsim {

/// ".shared .align 16 .b8 name[8192]" and its like.
struct Declaration {
  Type type = Type::b8;
  std::uint32_t align = 0;  ///< 0: not stated
  std::uint32_t count = 1;
  bool open = false;  ///< "name[]": dynamic shared memory
  std::string name{};
};

Declaration parse_declaration(std::string_view text);

/// Type::none for any other word. Without the dot.
Type type_named(std::string_view word) noexcept;

/// `shared`: variables of the module's scope. Throws ParseError.
void parse_body(Kernel& kernel, const Module& module, const std::vector<Declaration>& shared, std::string_view body);

}  // namespace ptxsim
