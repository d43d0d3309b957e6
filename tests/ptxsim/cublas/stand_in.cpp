#include "cublas/stand_in.h"

#include "runtime/state.h"

namespace ptxsim {

SimulatedCublas& simulated_cublas() {
  static SimulatedCublas s;
  // The library refers to these; a linker takes from archives what somebody names.
  static_cast<void>(&runtime::enqueue);
  static_cast<void>(&runtime::state);
  return s;
}

const char* stand_in_cublas() { return PTXSIM_CUBLAS; }
const char* incomplete_cublas() { return PTXSIM_CUBLAS_INCOMPLETE; }

}  // namespace ptxsim
