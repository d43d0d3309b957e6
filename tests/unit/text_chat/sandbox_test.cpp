// Hostile templates end with an error, soon, and leave nothing behind.
#include <string>

#include "catch.h"
#include "support/cpu_time.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"

namespace jinja = llminfer::text::jinja;

namespace {

jinja::Limits small() {
  jinja::Limits limits;
  limits.steps = 200'000;
  limits.memory_bytes = 4 << 20;
  limits.output_bytes = 1 << 20;
  return limits;
}

std::string run(const std::string& source, const jinja::Limits& limits) {
  try {
    const jinja::Program program = jinja::parse(source, limits);
    jinja::Runtime runtime(limits, {});
    return jinja::render(program, runtime, {}).bytes();
  } catch (const llminfer::Exception& failure) {
    return std::string("error: ") + failure.what();
  }
}

bool refused(const std::string& source, const jinja::Limits& limits = small()) {
  const double start = llminfer::test::cpu_seconds();
  const std::string result = run(source, limits);
  const double seconds = llminfer::test::cpu_seconds() - start;
  INFO(result.substr(0, 200));
  CHECK(seconds < 30);
  return result.compare(0, 7, "error: ") == 0;
}

std::string times(int count, const std::string& text) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

}  // namespace

TEST_CASE("steps are limited") {
  CHECK(refused("{% for a in range(1000) %}{% for b in range(1000) %}{{ a }}{% endfor %}{% endfor %}"));
  CHECK(refused("{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}"));
}

TEST_CASE("memory is limited") {
  CHECK(refused("{{ 'a' * 1000000000 }}"));
  CHECK(refused("{{ ('a' * 1000000) * 1000000 }}"));
  CHECK(refused("{{ [1] * 1000000000 }}"));
  CHECK(refused("{{ range(10 ** 9) }}"));
  CHECK(refused("{% set ns = namespace(s='x') %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"));
  CHECK(refused("{% set ns = namespace(s=[1]) %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"));
  CHECK(refused("{{ '%1000000d' % 5 }}{{ '{:1000000000}'.format(1) }}"));
  CHECK(refused("{{ 'x'.center(1000000000) }}"));
  CHECK(refused("{{ 'x'.zfill(1000000000) }}"));
  CHECK(refused("{{ 'a\\n' | indent(1000000000) }}"));
  CHECK(refused("{{ ('ab' * 100000).replace('a', 'b' * 100000) }}"));
  CHECK(refused("{{ [1] | batch(1000000000, 2) | list }}"));
  CHECK(refused("{{ [1] | slice(1000000000) | list }}"));
}

TEST_CASE("output is limited") {
  jinja::Limits limits;
  limits.output_bytes = 1000;
  CHECK(refused("{% for i in range(1000) %}0123456789{% endfor %}", limits));
  CHECK(run("{% for i in range(10) %}0123456789{% endfor %}", limits).size() == 100);
}

TEST_CASE("nesting is limited while parsing") {
  CHECK(refused("{{ " + times(100000, "(") + "1" + times(100000, ")") + " }}"));
  CHECK(refused("{{ " + times(100000, "[") + "1" + times(100000, "]") + " }}"));
  CHECK(refused("{{ " + times(100000, "not ") + "1 }}"));
  CHECK(refused("{{ " + times(100000, "-") + "1 }}"));
  CHECK(refused("{{ 1" + times(100000, " + 1") + " }}"));
  CHECK(refused("{{ x" + times(100000, ".a") + " }}"));
  CHECK(refused("{{ x" + times(100000, "|upper") + " }}"));
  CHECK(refused("{{ x" + times(100000, "[0]") + " }}"));
  CHECK(refused("{{ 1" + times(100000, " if 1 else 1") + " }}"));
  CHECK(refused(times(100000, "{% if true %}")));
  CHECK(refused(times(50000, "{% for x in y %}") + times(50000, "{% endfor %}")));
  CHECK(run("{% if 0 %}" + times(20000, "{% elif 0 %}") + "{% endif %}x", {}) == "x");
  CHECK(refused(std::string(std::size_t{2} << 20, 'x')));
}

TEST_CASE("nesting is limited while running") {
  CHECK(refused("{% macro m(x) %}{{ m(x + 1) }}{% endmacro %}{{ m(0) }}", {}));
  CHECK(refused("{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}", {}));
  CHECK(refused("{% set ns = namespace(x={}) %}{% for i in range(100000) %}{% set ns.x = {'a': ns.x} %}{% endfor %}",
                {}));
  CHECK(refused("{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns }}", {}));
  CHECK(refused("{% for x in [[]] recursive %}{{ loop([x]) }}{% endfor %}", {}));
  CHECK(
      refused("{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
              "{{ ns.x == ns.x }}{{ ns.x }}"));
}

TEST_CASE("circles of macros and namespaces are freed") {
  // The address sanitizer's leak check is the judge; here only that they run.
  CHECK(run("{% set ns = namespace() %}{% set ns.me = ns %}{% macro m() %}{% endmacro %}{% set ns.m = m %}ok", {}) ==
        "ok");
  CHECK(run("{% set ns = namespace(c=none) %}{% macro m() %}{% set ns.c = caller %}{% endmacro %}"
            "{% for i in range(2000) %}{% set before = ns.c %}{% call m() %}{% endcall %}{% endfor %}ok",
            {}) == "ok");
  CHECK(run("{% set c = cycler(1, 2) %}{% set f = c.next %}{{ f() }}{{ f() }}", {}) == "12");
}

TEST_CASE("hostile numbers and formats") {
  CHECK(refused("{{ '%.1000000f' % 1.5 }}"));
  CHECK(refused("{{ '%*d' % (1000000000000, 1) }}"));
  CHECK(refused("{{ (-9223372036854775807 - 1) // -1 }}"));
  CHECK(run("{{ (-9223372036854775807 - 1) % -1 }}", {}) == "0");
  CHECK(run("{{ 'abc'[9223372036854775807:] }}{{ 'abc'[:: 9223372036854775807] }}", {}) == "a");
  CHECK(run("{{ range(9223372036854775806, 9223372036854775807, 5) | list }}", {}) == "[9223372036854775806]");
  CHECK(run("{{ 'abc'[-9223372036854775807 - 1:][:1] }}", {}) == "a");
}
