#include <llminfer/error.hpp>

#include <array>

namespace llminfer {
inline namespace v0 {

const char* to_string(ErrorCode code) noexcept {
  static constexpr std::array<const char*, 17> names = {
      "invalid_argument",         "not_found",     "not_gguf",         "truncated",    "corrupt",    "unsupported_type",
      "unsupported_architecture", "out_of_memory", "context_overflow", "out_of_pages", "queue_full", "invalid_logits",
      "callback_failed",          "mismatch",      "cancelled",        "device_lost",  "unavailable"};
  const auto index = static_cast<std::size_t>(code);
  return index < names.size() ? names[index] : "unknown";
}

Exception::Exception(Error error) noexcept : error_(std::move(error)) {}
Exception::Exception(const Exception&) = default;
Exception::Exception(Exception&&) noexcept = default;
Exception& Exception::operator=(const Exception&) = default;
Exception& Exception::operator=(Exception&&) noexcept = default;
Exception::~Exception() = default;
const char* Exception::what() const noexcept { return error_.message.c_str(); }

void throw_error(const Error& error) { throw Exception(error); }

}  // namespace v0
}  // namespace llminfer
