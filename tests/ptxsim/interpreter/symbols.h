// Names of a kernel: registers by scope, variables, and the constants that instructions use.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interpreter/body_parser.h"
#include "interpreter/module.h"

namespace ptxsim {

class Symbols {
 public:
  Symbols(Kernel& kernel, const Module& module);

  void open_scope() { scopes_.emplace_back(); }
  void close_scope();
  /// ".reg .b32 %r<279>" or ".reg .f16 low, high".
  void add_registers(std::string_view statement);
  void add_shared(const Declaration& d);
  void add_local(const Declaration& d);

  /// A register, special register, variable's address or number, as wide as `bytes` where it is a constant. Throws
  /// ParseError.
  Operand operand(std::string_view text, int bytes);
  /// A register that nothing else uses, for results that are thrown away.
  Operand scratch(int bytes);
  Operand constant(std::uint64_t value, int bytes);
  /// Offset of a parameter in the parameter buffer.
  std::optional<std::int64_t> parameter(std::string_view name) const;

  /// Lays out the constants: dynamic shared memory's address is known now.
  void finish();

 private:
  struct Family {  // %r<279>
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    Type type = Type::b32;
  };
  struct Scope {
    std::map<std::string, Operand, std::less<>> names{};
    std::map<std::string, Family, std::less<>> families{};
  };
  Operand allocate(Type type);
  std::optional<Operand> find_register(std::string_view name);
  std::optional<Operand> find_special(std::string_view name);
  static std::optional<Operand> in_family(const Family& f, std::string_view digits);
  std::optional<std::uint64_t> variable(std::string_view name);

  Kernel& kernel_;
  const Module& module_;
  std::vector<Scope> scopes_;
  std::map<std::string, std::uint64_t, std::less<>> shared_;
  std::map<std::string, std::uint64_t, std::less<>> local_;
  std::map<std::string, bool, std::less<>> dynamic_;
  std::map<std::pair<std::uint64_t, int>, Operand> constants_;
  std::vector<Operand> dynamic_uses_;
  std::map<int, Operand> scratch_;
};

}  // namespace ptxsim
