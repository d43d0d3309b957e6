#include "profile/json_writer.h"

#include <fmt/format.h>

#include <cmath>

namespace llminfer::profile {
namespace {

/// Shortest forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text) noexcept {
  std::size_t i = 0;
  const auto byte = [&](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U; };
  while (i < text.size()) {
    const unsigned lead = byte(i);
    const std::size_t more = lead < 0x80 ? 0 : lead >= 0xC2 && lead < 0xE0 ? 1 : lead < 0xF0 && lead >= 0xE0 ? 2 : 3;
    if (more == 3 && (lead < 0xF0 || lead > 0xF4)) return false;
    for (std::size_t k = 1; k <= more; ++k) {
      if ((byte(i + k) & 0xC0U) != 0x80U) return false;
    }
    const unsigned second = byte(i + 1);
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second >= 0xA0)) return false;
    if ((lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second >= 0x90)) return false;
    i += more + 1;
  }
  return true;
}

}  // namespace

void JsonWriter::begin(std::string_view key) {
  if (!first_) out_ += ',';
  first_ = false;
  if (depth_ > 0) {
    out_ += '\n';
    out_.append(2 * static_cast<std::size_t>(depth_), ' ');
  }
  if (key.empty()) return;
  quoted(key);
  out_ += ": ";
}

void JsonWriter::open(char bracket, std::string_view key) {
  begin(key);
  out_ += bracket;
  ++depth_;
  first_ = true;
}

void JsonWriter::close(char bracket) {
  --depth_;
  if (!first_) {
    out_ += '\n';
    out_.append(2 * static_cast<std::size_t>(depth_), ' ');
  }
  out_ += bracket;
  first_ = false;
  if (depth_ == 0) out_ += '\n';
}

void JsonWriter::quoted(std::string_view text) {
  out_ += '"';
  const bool readable = is_utf8(text);
  for (const char c : text) {
    if (!readable && static_cast<unsigned char>(c) >= 0x80) {
      out_ += '?';
      continue;
    }
    if (c == '"' || c == '\\') {
      out_ += '\\';
      out_ += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out_ += c;
    }
  }
  out_ += '"';
}

void JsonWriter::text(std::string_view key, std::string_view value) {
  begin(key);
  quoted(value);
}

void JsonWriter::number(std::string_view key, double value) {
  begin(key);
  if (std::isfinite(value)) {
    out_ += fmt::format("{:.6g}", value);
  } else {
    out_ += "null";
  }
}

void JsonWriter::integer(std::string_view key, std::int64_t value) {
  begin(key);
  out_ += fmt::format("{}", value);
}

void JsonWriter::count(std::string_view key, std::uint64_t value) {
  begin(key);
  out_ += fmt::format("{}", value);
}

void JsonWriter::boolean(std::string_view key, bool value) {
  begin(key);
  out_ += value ? "true" : "false";
}

}  // namespace llminfer::profile
