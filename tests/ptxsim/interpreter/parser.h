// PTX text to a Module.
#pragma once

#include <stdexcept>
#include <string_view>

#include "interpreter/module.h"

namespace ptxsim {

/// What is not PTX of the kind that nvcc writes. An instruction that the interpreter does not know is no error here: it
/// is reported when it runs.
class ParseError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

Module parse_module(std::string_view text);

}  // namespace ptxsim
