#include "text/utf8.h"

#include "catch.h"

using llminfer::text::utf8_append;
using llminfer::text::utf8_repaired;
using llminfer::text::utf8_step;
using llminfer::text::utf8_valid;

TEST_CASE("every code point comes back") {
  for (std::uint32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text;
    utf8_append(text, code);
    const auto step = utf8_step(text, 0);
    if (!step.valid || step.code != code || step.length != text.size()) FAIL("code point " << code);
  }
}

TEST_CASE("what is no character is replaced by maximal subparts") {
  const std::string r = "\xEF\xBF\xBD";
  CHECK(utf8_repaired("a\x80z") == "a" + r + "z");
  CHECK(utf8_repaired("\xC0\xAF") == r + r);             // overlong
  CHECK(utf8_repaired("\xED\xA0\x80") == r + r + r);     // surrogate
  CHECK(utf8_repaired("\xF0\x9F\x98") == r);             // cut
  CHECK(utf8_repaired("\xF0\x9F\x98\x5C") == r + "\\");  // broken off
  CHECK(utf8_repaired("\xE2\x82\xF0\x9F\x98\x80") == r + "\xF0\x9F\x98\x80");
  CHECK(utf8_repaired("\xF4\x90\x80\x80") == r + r + r + r);  // above U+10FFFF
  CHECK(utf8_repaired(std::string("\0x", 2)) == std::string("\0x", 2));
  CHECK(utf8_step("\xF0\x9F", 0).cut);
  CHECK_FALSE(utf8_step("\xF0\x9F\x5C", 0).cut);
  CHECK(utf8_valid("plain ASCII longer than eight bytes, \xC3\xA9\xE2\x82\xAC"));
  CHECK_FALSE(utf8_valid("plain ASCII longer than eight bytes, \xE2\x82"));
}
