// What the checks report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "interpreter/module.h"

namespace ptxsim {

enum class Check : std::uint8_t {
  bounds,         ///< a global or shared access outside of live memory
  alignment,      ///< an address that is no multiple of the access width
  uninitialised,  ///< a read of shared memory that nobody wrote
  shared_race,    ///< two threads touch one place, one writes, nothing orders them; a copy still under way included
  global_race,    ///< the same between blocks of one launch
  barrier,        ///< divergent or mismatched
  sync_mask,      ///< a .sync mask that does not name the lanes that are there; a lane that is read but absent
  deadlock,
  cluster,      ///< shared memory of a block that may not have begun, has ended or is none; or it ends too early
  mbarrier,     ///< one that was not made or is misused
  grid_order,   ///< an early launch touches what the one ahead of it may still work on
  unsupported,  ///< an instruction that the interpreter does not know
  launch,       ///< configuration beyond what the chip or kernel allows
};
const char* name_of(Check check) noexcept;

struct Finding {
  Check check = Check::bounds;
  std::string kernel{};
  std::string source{};  ///< "file.cu:12", empty where nvcc gave no lines
  std::string text{};    ///< what happened, with the instruction
};

/// Thrown when a launch cannot go on.
struct Abort {};

/// Findings of one launch: each check reports an instruction once.
class Findings {
 public:
  explicit Findings(const Kernel& kernel) : kernel_(kernel) {}
  void add(Check check, const Instruction& at, std::string text);
  void add_plain(Check check, std::string text);
  std::vector<Finding> take() { return std::move(list_); }
  bool empty() const noexcept { return list_.empty(); }

 private:
  const Kernel& kernel_;
  std::vector<Finding> list_{};
  std::set<std::pair<Check, const Instruction*>> seen_{};
};

/// "file.cu:12", or empty.
std::string source_of(const Kernel& kernel, const Instruction& i);

}  // namespace ptxsim
