#include <array>
#include <llminfer/kv_type.hpp>

namespace llminfer {
inline namespace v0 {

const char* to_string(KvType type) noexcept {
  static constexpr std::array<const char*, 6> names = {"automatic", "f32", "f16", "bf16", "q8_0", "q4_0"};
  const auto index = static_cast<std::size_t>(type);
  return index < names.size() ? names[index] : "unknown";
}

}  // namespace v0
}  // namespace llminfer
