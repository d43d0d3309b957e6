// Small templates against what Python's Jinja2 makes of them (snippets.jsonl, written by make_snippets.py).
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "catch.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/json.h"
#include "text/jinja/parser.h"

namespace jinja = llminfer::text::jinja;

namespace {

// The output, or "error: " and the message.
std::string render(const std::string& source, const nlohmann::ordered_json& variables) {
  try {
    const jinja::Program program = jinja::parse(source);
    jinja::Runtime runtime({}, {2026, 3, 4, 5, 6, 7});
    jinja::Variables values;
    for (const auto& [name, value] : variables.items()) {
      values.emplace_back(name, jinja::parse_json(runtime.meter, value.dump(), jinja::Origin::content, name));
    }
    return jinja::render(program, runtime, values).bytes();
  } catch (const llminfer::Exception& failure) {
    return std::string("error: ") + failure.what();
  }
}

std::string render(const std::string& source) { return render(source, nlohmann::ordered_json::object()); }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("snippets give what Jinja2 gives") {
  std::ifstream in(LLMINFER_TEST_DIR "/snippets.jsonl");
  std::string line;
  REQUIRE(std::getline(in, line));
  const nlohmann::ordered_json variables = nlohmann::ordered_json::parse(line).at("variables");
  int rows = 0;
  while (std::getline(in, line)) {
    const nlohmann::json row = nlohmann::json::parse(line);
    const std::string source = row.at("source"), output = render(source, variables);
    INFO(source);
    if (row.contains("output")) {
      CHECK(output == row.at("output").get<std::string>());
    } else {
      INFO(row.at("error").get<std::string>());
      INFO(output);
      CHECK(output.compare(0, 7, "error: ") == 0);
    }
    ++rows;
  }
  CHECK(rows > 300);
}

TEST_CASE("errors name line and column and carry the template's words") {
  CHECK(render("a\n  {{ raise_exception('roles é must alternate') }}") ==
        "error: chat template, line 2, column 21: roles é must alternate");
  CHECK(render("ab {{ missing.x }}") == "error: chat template, line 1, column 14: 'missing' is undefined");
  CHECK(contains(render("{% if true %}\n\n{{ 1 + }}"), "line 3, column 8"));
  CHECK(contains(render("é{% bogus %}"), "line 1, column 5: Encountered unknown tag 'bogus'"));
  CHECK(contains(render("{{ 'a' + [] }}"), "can only concatenate str (not \"list\") to str"));
  CHECK(contains(render("{{ 9223372036854775807 + 1 }}"), "does not fit in 64 bits"));
  CHECK(contains(render("{{ 9223372036854775808 }}"), "does not fit in 64 bits"));
  CHECK(contains(render("{{ -9223372036854775807 - 2 }}"), "does not fit in 64 bits"));
  CHECK(contains(render("{{ {}.a.b }}"), "'dict object' has no attribute 'a'"));
}

TEST_CASE("a broken template is corrupt, a failing run an invalid argument") {
  const auto code = [](const char* source) {
    try {
      const jinja::Program program = jinja::parse(source);
      jinja::Runtime runtime({}, {});
      (void)jinja::render(program, runtime, {});
    } catch (const llminfer::Exception& failure) {
      return failure.error().code;
    }
    return llminfer::ErrorCode::unavailable;
  };
  CHECK(code("{{ 1 ") == llminfer::ErrorCode::corrupt);
  CHECK(code("{{ 1 / 0 }}") == llminfer::ErrorCode::invalid_argument);
}

TEST_CASE("strftime covers years, weeks and flags") {
  CHECK(render("{{ strftime_now('%d/%m/%y %-I%p %_d %^b %C %j') }}") == "04/03/26 5AM  4 MAR 20 063");
  CHECK(render("{{ strftime_now('%q %') }}") == "%q %");
}

TEST_CASE("bytes that are no UTF-8 pass through") {
  CHECK(render("a\xFF{{ '\xC3' ~ 'b' }}") ==
        "a\xFF\xC3"
        "b");
  CHECK(render("{{ '\xC3\x28\xFF' | length }}") == "3");
}
