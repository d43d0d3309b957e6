// Writes JSON into a string, two spaces an indentation. Commas and quotes are its business, nesting the caller's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace llminfer::profile {

class JsonWriter {
 public:
  void begin_object(std::string_view key = {}) { open('{', key); }
  void end_object() { close('}'); }
  void begin_array(std::string_view key = {}) { open('[', key); }
  void end_array() { close(']'); }
  /// In an array the key is empty.
  void text(std::string_view key, std::string_view value);
  void number(std::string_view key, double value);  ///< six digits; null for what is no number
  void integer(std::string_view key, std::int64_t value);
  void count(std::string_view key, std::uint64_t value);
  void boolean(std::string_view key, bool value);

  std::string take() && { return std::move(out_); }

 private:
  void open(char bracket, std::string_view key);
  void close(char bracket);
  void begin(std::string_view key);
  void quoted(std::string_view text);

  std::string out_;
  int depth_ = 0;
  bool first_ = true;  // nothing stands yet in the innermost brackets
};

}  // namespace llminfer::profile
