// One instruction's text to an Instruction.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "interpreter/module.h"
#include "interpreter/symbols.h"

namespace ptxsim {

/// An instruction taken apart, and the way from its operands' text to operands.
struct OpText {
  Symbols& symbols;
  std::string_view name{};                   ///< "mad" of "mad.lo.s32"
  std::vector<std::string_view> parts{};     ///< "lo", "s32"
  std::vector<std::string_view> operands{};  ///< text
  Type first = Type::none;                   ///< first and last part that is a type
  Type last = Type::none;

  bool has(std::string_view part) const noexcept;
  /// Adds operand `n` to the instruction; constants are `bytes` wide (0: predicate).
  void add(Instruction& i, std::size_t n, int bytes) const;
  /// All operands from `n` on.
  void add_all(Instruction& i, std::size_t n, int bytes) const;
  /// "{a, b}": each of them; anything else: itself. Returns how many.
  int add_list(Instruction& i, std::size_t n, int bytes) const;
  /// "[base+8]": base as an operand, the rest into `offset`. A parameter becomes offset alone, with base zero.
  void add_address(Instruction& i, std::size_t n, std::int64_t& offset) const;
  /// "!%p1" or "%p1" into an operand; returns whether negated.
  bool add_predicate(Instruction& i, std::size_t n) const;
  /// "%r1|%p2" into two operands; the second is a scratch predicate where absent. Returns whether there was one.
  bool add_pair(Instruction& i, std::size_t n, int bytes) const;
  /// An operand that is a number in the text. Throws ParseError.
  std::int64_t number(std::size_t n) const;
};

/// Each knows some opcodes: sets what `i` needs and returns true, or returns false. Throw ParseError.
bool decode_integer(const OpText& t, Instruction& i);
bool decode_bits(const OpText& t, Instruction& i);
bool decode_float(const OpText& t, Instruction& i);
bool decode_half(const OpText& t, Instruction& i);
bool decode_convert(const OpText& t, Instruction& i);
bool decode_compare(const OpText& t, Instruction& i);
bool decode_move(const OpText& t, Instruction& i);
bool decode_memory(const OpText& t, Instruction& i);
bool decode_async(const OpText& t, Instruction& i);
bool decode_bulk(const OpText& t, Instruction& i);
bool decode_mbarrier(const OpText& t, Instruction& i);
bool decode_atomic(const OpText& t, Instruction& i);
bool decode_collective(const OpText& t, Instruction& i);
bool decode_matrix(const OpText& t, Instruction& i);
bool decode_control(const OpText& t, Instruction& i);

class Decoder {
 public:
  Decoder(Kernel& kernel, Symbols& symbols) : kernel_(kernel), symbols_(symbols) {}
  /// An unknown instruction becomes one that reports itself when it runs. `label`: target of a branch.
  void decode(std::string_view text, Instruction& i, std::string& label);

 private:
  Kernel& kernel_;
  Symbols& symbols_;
};

}  // namespace ptxsim
