// Kernels that the operating system has to grant. A program of its own: what a process was granted, it keeps.
#include <llminfer/error.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "catch.h"
#include "core/cpu_info.h"
#include "device/cpu/kernels.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_X86 && defined(__linux__)
#include <signal.h>

namespace llminfer::cpu::test {
namespace {

/// While it lives, signals of this thread have a stack that is too small for the tiles: Linux grants none then.
class SmallSignalStack {
 public:
  SmallSignalStack() {
    stack_t stack = {};
    stack.ss_sp = room_.data();
    stack.ss_size = room_.size();
    there_ = ::sigaltstack(&stack, &before_) == 0;
  }
  ~SmallSignalStack() { ::sigaltstack(&before_, nullptr); }
  SmallSignalStack(const SmallSignalStack&) = delete;
  SmallSignalStack& operator=(const SmallSignalStack&) = delete;
  bool there() const { return there_; }

 private:
  std::vector<char> room_ = std::vector<char>(8192);
  stack_t before_ = {};
  bool there_ = false;
};

TEST_CASE("tiles that Linux refuses are not chosen, and asked for by name say so") {
  const core::CpuFeatures features = core::detect_cpu().features;
  if (!features.amx_tile || !features.amx_bf16 || !features.avx512_bf16) {
    REQUIRE(std::string_view(choose_kernels("auto").name) != "amx");
    REQUIRE_THROWS_AS(choose_kernels("amx"), Exception);
    return;
  }
  {
    const SmallSignalStack stack;
    REQUIRE(stack.there());
    REQUIRE(std::string_view(choose_kernels("auto").name) == "avx512bf16");
    try {
      choose_kernels("amx");
      FAIL("chosen");
    } catch (const Exception& e) {
      REQUIRE(e.error().code == ErrorCode::unavailable);
      REQUIRE(e.error().message.find("grant") != std::string::npos);
    }
  }
  const bool granted = core::request_tiles();
  REQUIRE((std::string_view(choose_kernels("auto").name) == "amx") == granted);
  REQUIRE(choose_kernels("auto").default_kv == KvType::bf16);
}

}  // namespace
}  // namespace llminfer::cpu::test
#endif
