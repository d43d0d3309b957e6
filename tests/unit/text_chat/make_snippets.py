#!/usr/bin/env python3
"""Writes snippets.jsonl: what Python's Jinja2 (set up as Hugging Face transformers does) makes of many small templates.

Needs jinja2; run it again after adding a snippet. One object a line: {"source", "output"} or {"source", "error"}. The
variables are those of VARIABLES, written as the first line.
"""
import datetime
import json
import os
import sys

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 3, 4, 5, 6, 7)

VARIABLES = {
    "s": "Hello World", "u": "é 你好 🚀 ß ǆ", "empty": "", "n": 7, "neg": -3, "f": 2.5, "t": True, "no": None,
    "xs": [3, 1, 2], "words": ["b", "A", "c", "a"], "d": {"b": 1, "a": {"x": [1, 2, None, True, 1.5, "é\"\\\n"]}, "items": 5},
    "users": [{"name": "Bo", "age": 3, "on": True}, {"name": "al", "age": 1, "on": False}, {"name": "Cy", "age": 2}],
    "tree": [{"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4, "kids": []}]}]}],
    "html": "<b>&\"'", "multi": "one\ntwo\n\nthree\n", "big": 12345678901234, "nested": [[1, [2, 3]], [], {}],
}

EXPRESSIONS = r"""
1 + 2 * 3 - 4 / 2
7 // 2, -7 // 2, 7 % 3, -7 % 3, 7.5 // 2, -7.5 % 2
2 ** 10, 2 ** -1, 2 ** 3 ** 2, 2.0 ** 0.5
-2 ** 2
1 / 3, 1e16, 1e15, 123456789.123, 1e-5, 0.0001, 1.0, 1e100, 2.5e-8
10 / 5
0x1f, 0o17, 0b101, 1_000
1.5e3, 1_0.2_5
true, True, false, none, None
1 == 1.0, 1 == True, "1" == 1, none == false
1 < 2 < 3, 1 < 3 < 2, 3 > 2 >= 2, 1 != 2, "a" < "b", [1, 2] < [1, 3]
not 1 == 2, not true and false, true or undefined_thing.x
1 and 2, 0 and 2, 0 or "x", "" or none or []
1 in [1, 2], 3 not in [1], "el" in s, "b" in d, 5 in {}, "x" in undefined_thing
s ~ 1 ~ none ~ true ~ 1.5 ~ [1, "a"]
"a" "b" 'c'
"a" + "b", [1] + [2], (1,) + (2,)
"ab" * 3, 2 * "ab", [0] * 3, "x" * -1
'\n\t\\\'\"\x41\u00e9\U0001F680\101\q'
"%s is %d years, %05.2f %x %r %5s|%-5s|%%" % ("Bo", 3, 2.345, 255, "q", "r", "l")
"%(a)s %(b)03d" % {"a": 1, "b": 2}
"%s" % none, "%s" % [1], "%c%c" % (65, "z"), "%e %g %g %g" % (12345.678, 0.0001, 1e20, 100000.0)
"{} {} {}".format(1, "a", none), "{0}{1}{0}".format("x", "y"), "{a}-{b}".format(a=1, b=2)
"{:>8}|{:<8}|{:^8}|{:*^9}|{:08.3f}|{:+d}|{:,}|{:x}|{:#x}|{:.2%}|{!r}".format("r", "l", "c", "m", 3.14159, 5, 1234567, 255, 255, 0.256, "q")
"{0[0]} {1[b]} {2:5d}|{3:<5}|".format([9], {"b": 8}, 42, 42)
"{{}} {}".format(1)
1 if true else 2, 1 if false else 2, (1 if false) is defined, "a" if 0 else "b" if 0 else "c"
[1, 2, 3][0], [1, 2, 3][-1], [1, 2, 3][5] is defined, (1, 2)[1], "abc"[1], "abc"[-1], "é你"[1]
xs[1:], xs[:-1], xs[::-1], xs[::2], s[2:5], s[::-1], u[2:4], xs[5:], xs[-2:], s[:0], s[-3:-1], xs[2:0:-1]
d.b, d["b"], d.a.x[0], d["a"]["x"][1], d.nothing is defined, d["nothing"] is undefined
d.items() | list, d["items"], d.keys() | list, d.values() | list | length
d.get("b"), d.get("zz"), d.get("zz", 9)
{"a": 1, "b": [1, 2], 3: none}, {}, [], (), (1,), (1, 2), {"a": {"b": {}}}
[1, "it's", 'say "x"', "both ' and \"", "new\nline", "tab\t", "é", "\u200b", "\x7f", "\x00"]
s.upper(), s.lower(), s.title(), s.capitalize(), s.swapcase()
u.upper(), u.lower(), u.title(), "ŉa ﬁ".upper(), "ΑΣ ΟΔΟΣ Σ".lower(), "they're bill's".title()
" x ".strip(), " x ".lstrip(), " x ".rstrip(), "xxaxx".strip("x"), "abcba".strip("ab"), "\u00a0\u3000x\u2003".strip()
"a,b,,c".split(","), " a  b ".split(), "a,b,c".split(",", 1), " a b c ".split(none, 1), "abc".split("x"), "".split(), "".split(",")
"a,b,c".rsplit(",", 1), " a  b c ".rsplit(none, 1), "a<t>b<t>c".split("<t>")[-1], "x".rsplit("y")
"a\nb\r\nc\rd".splitlines(), "a\nb\n".splitlines(true), "".splitlines()
"a=b=c".partition("="), "a=b=c".rpartition("="), "abc".partition("-"), "abc".rpartition("-")
"hello".startswith("he"), "hello".endswith(("x", "lo")), "hello".startswith("l", 2), "hello".endswith("l", 0, 4), "x".startswith("")
"hello".find("l"), "hello".rfind("l"), "hello".find("z"), "hello".index("e"), "hello".count("l"), "é你é".find("你"), "aaa".count("")
"hello".replace("l", "L"), "hello".replace("l", "L", 1), "abc".replace("", "-"), "aaa".replace("aa", "b")
",".join(["a", "b"]), "".join([]), "-".join("abc"), "prefix-x".removeprefix("prefix-"), "x.txt".removesuffix(".txt")
"x".center(5), "x".ljust(3, "."), "x".rjust(3, "."), "5".zfill(3), "-5".zfill(4), "ab".center(5, "*"), "a\tb".expandtabs(4)
"abc".isalpha(), "12".isdigit(), "a1".isalnum(), " ".isspace(), "AB".isupper(), "ab".islower(), "Ab Cd".istitle(), "²".isdigit(), "½".isnumeric(), "١".isdecimal(), "a".isascii(), "".isalpha()
[1, 2, 1].count(1), [1, 2].index(2), (1, 2).index(2)
undefined_thing, undefined_thing | default("x"), none | default("x"), "" | default("x", true), undefined_thing | d, d.zz | default([])
s | length, xs | count, d | length, u | length, "" | length, undefined_thing | length
s | upper, s | lower, "hello wORLD-foo (bar) [baz]" | title, "hELLO" | capitalize, u | upper
"  x " | trim, "xxaxx" | trim("x"), 5 | trim
xs | join, xs | join("-"), words | join(", "), users | join("|", attribute="name"), "abc" | join("."), undefined_thing | join
s | replace("l", "L"), s | replace("l", "L", 2), 12321 | replace(2, "x")
d | tojson, u | tojson, xs | tojson, none | tojson, 1.0 | tojson, "é\"\\/\n\t\b\f\u0001\x7f" | tojson, 1e22 | tojson, true | tojson
d | tojson(indent=2), [] | tojson(indent=2), {"a": [], "b": {}} | tojson(indent=4), [1, [2]] | tojson(indent=0)
u | tojson(ensure_ascii=true), d | tojson(sort_keys=true), d | tojson(separators=(",", ":")), d | tojson(indent=1, separators=(",", ": "))
{1: 2, none: 3, true: 4, 1.5: 5} | tojson, (1, 2) | tojson, html | tojson
users | selectattr("on") | map(attribute="name") | list, users | rejectattr("on") | map(attribute="name") | list
users | selectattr("age", "gt", 1) | map(attribute="name") | join(","), users | selectattr("name", "equalto", "Bo") | list | length, users | selectattr("on", "defined") | list | length
users | rejectattr("age", "in", [1, 2]) | map(attribute="age") | list
xs | select("odd") | list, xs | reject("odd") | list, [0, 1, "", "a", none] | select | list, xs | select("gt", 1) | list
none | map("upper") | list, none | selectattr("x") | list, 0 | select | list
words | map("upper") | list, words | map("replace", "a", "z") | join, users | map(attribute="zz", default="-") | list, [[1, 2]] | map("first") | list
nested | map(attribute=0) | list | length
xs | first, xs | last, "abc" | first, "abc" | last, [] | first is defined, xs | reverse | list, "abc" | reverse, d | first
xs | sort, xs | sort(reverse=true), words | sort, words | sort(case_sensitive=true), users | sort(attribute="age") | map(attribute="name") | list, users | sort(attribute="name") | map(attribute="name") | list
d | dictsort | map("first") | list, {"B": 1, "a": 2, "C": 0} | dictsort, {"B": 1, "a": 2} | dictsort(true), {"a": 2, "b": 1} | dictsort(false, "value"), {"a": 1, "b": 2} | dictsort(reverse=true)
xs | sum, users | sum(attribute="age"), [1.5, 2] | sum(start=1), xs | min, xs | max, words | min, users | max(attribute="age"), [] | max is defined
["a", "A", "b", "a"] | unique | list, [1, 2, 1.0] | unique | list, users | unique(attribute="age") | list | length
range(5) | batch(2) | list, range(5) | batch(2, "x") | list, range(7) | slice(3) | list, range(7) | slice(3, "x") | list
users | groupby("age") | map("first") | list
"3" | int, "3.7" | int, "x" | int, "x" | int(5), 2.9 | int, -2.9 | int, " 42 " | int, "0x1f" | int(0, 16), "1_000" | int, none | int, true | int, "" | int, [] | int(3)
"3.5" | float, "x" | float, "x" | float(1.5), 3 | float, "1e3" | float, none | float, "inf" | float, "nan" | float
2.5 | round, 3.5 | round, 2.675 | round(2), 42.55 | round(1), 42.55 | round(1, "floor"), 42.51 | round(1, "ceil"), 5 | round, -0.4 | round, 1234.5 | round(-2)
-5 | abs, 5.5 | abs, -0.0 | abs
"abc" | list, d | list, (1, 2) | list, range(3) | list, 5 | string | length, none | string, [1] | string, d.items() | list | first
html | escape, html | e, html | safe, html | escape | escape, html | forceescape, (html | safe) + "<", "<" + (html | safe), (html | safe) ~ "<"
multi | indent, multi | indent(2), multi | indent(2, true), multi | indent(2, blank=true), multi | indent("> "), "a\nb" | indent(width=1, first=true)
"foo bar baz" | truncate(7), "foo bar baz" | truncate(8, true, "..", 0), "foo bar baz qux" | truncate(9, leeway=0), "short" | truncate(10)
"foo bar, baz" | wordcount, "x" | center(5), "%s-%s" | format(1, "a"), "%(x)s" | format(x=3)
"a b&c/é" | urlencode, {"a": "x y", "b": 1} | urlencode, [("q", "ü")] | urlencode
d | items | list, undefined_thing | items | list, users[0] | attr("name") is defined, "x" | attr("upper") is callable
s is string, 1 is string, none is none, undefined_thing is none, xs is iterable, 1 is iterable, d is mapping, xs is mapping, xs is sequence, d is sequence, s is sequence, 1 is sequence, undefined_thing is sequence
1 is number, 1.5 is number, true is number, "1" is number, 1 is integer, true is integer, 1.0 is integer, 1.0 is float, true is boolean, 1 is boolean, true is true, 1 is true, false is false, 0 is false
3 is odd, 3 is even, 6 is divisibleby 3, 6 is divisibleby(4), 1 is eq 1, 1 is equalto(2), 1 is ne 2, 1 is lt 2, 2 is ge 2, 1 is in [1, 2], "a" is in "abc", 3 is not in [1], 1 is sameas 1, s is sameas s
"abc" is lower, "ABC" is upper, "Abc" is lower, "upper" is filter, "zzz" is filter, "odd" is test, range is callable, s.upper is callable, s is callable, (html | safe) is escaped, html is escaped
1 is defined and 2 is odd or false, not 1 is odd, n is not none and n > 5, (n is odd) ~ "x"
s is string and s is not none, xs is iterable and (xs is not string and xs is not mapping), 5 is not string
range(3) | list, range(1, 4) | list, range(10, 0, -3) | list, range(0), range(3), range(1, 9, 2), range(3)[1]
dict(a=1, b=2), dict({"x": 1}, y=2), dict([("k", "v")]), namespace(a=1).a, namespace({"q": 2}).q, namespace().zz is defined
strftime_now("%Y-%m-%d %H:%M:%S"), strftime_now("%d %b %Y"), strftime_now("%A, %B %d, %Y"), strftime_now("%a %j %y %I %p %e %-d %-m %%"), strftime_now("%F %T %D %R"), strftime_now("%U %W %V %u %w %G"), strftime_now("%c | %x | %X")
joiner("|")(), namespace(j=joiner()).j() ~ "x"
[1, 2, 3] | map("string") | map("length") | sum
(1, 2, 3) | length, (), ((1, 2), 3), 1, 2
"a".join([1 | string, "b"])
n | string ~ f, n / 2, n // 2 * 2.0, n % 2 == 1, neg | abs, big * 2, f * 2, n - f
xs == [3, 1, 2], {"a": 1} == {"a": 1.0}, (1, 2) == [1, 2], "a" != "b", undefined_a == undefined_b
d.a.x | tojson, nested | tojson, nested, users[0], users | length, users[0].name[0], users[-1]["name"] | lower
s.split(" ")[0].lower().replace("h", "j").upper(), s.split()[-1][::-1], (s ~ "!").endswith("!"), s.split(" ") | map("lower") | join("_")
"abc"[0:2] + "d", "abc"[-1:] , "abc"[3:], xs[none:2], xs[:none]
t, no, empty, f, neg, -n, +n, -f, - -3, not t, not no
1 if xs else 2, "y" if empty else "n", "y" if "0" else "n", "y" if 0.0 else "n", "y" if {} else "n", "y" if undefined_thing else "n"
"\u0041", 'it\'s'
{"a": 1}.a, {"a": 1}["a"], [[1, 2], [3]][0][1], "x,y".split(",")[1], (1, (2, 3))[1][0], [1,2,].0, {"k": 1,}
1.0 == 1, 0.1 + 0.2, 1e3, 100.0, 1.10, 3.0 * 2, 7.0 // 2, 1e22 + 1, 123456789012345680.0, -0.0
5 // 0.3, -5 % 3.5, 5 % -3, -5 // 3, 0 ** 0, 0.5 ** 2
"Ǆungla ǆ".title(), "ﬂoß".title(), "ﬂoß".capitalize(), "İ".lower(), "ÀÉ".swapcase(), "ｆｕｌｌ".upper()
"x" in ["x", 1], none in [none], [] in [[]], "" in "abc", "b" in "abc" and "z" not in "abc", 1.0 in [1]
""".strip("\n")

TEMPLATES = [
    "{% if n > 5 %}big{% elif n > 2 %}mid{% else %}small{% endif %}",
    "{% if n > 9 %}a{% elif n > 6 %}b{% elif n > 5 %}c{% endif %}",
    "{% for x in xs %}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}",
    "{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in xs %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}",
    "{% for x in xs if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% else %}none{% endfor %}",
    "{% for x in [] %}{{ x }}{% else %}empty{% endfor %}",
    "{% for x in undefined_thing %}{{ x }}{% else %}undefined{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}",
    "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for c in 'héy' %}[{{ c }}]{% endfor %}",
    "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in xs %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }} {% endfor %}",
    "{% for n in tree recursive %}({{ n.v }}@{{ loop.depth }}{{ loop(n.kids) }}){% endfor %}",
    "{% for x in xs %}{% for y in xs %}{{ x * y }}{{ loop.index }} {% endfor %}|{{ loop.index }} {% endfor %}",
    "{% set x = 1 %}{% for i in xs %}{% set x = i %}{{ x }}{% endfor %}{{ x }}",
    "{% for i in xs %}{% if i == 3 %}{% set q = i %}{% endif %}{{ q is defined }}{% endfor %}",
    "{% set ns = namespace(found=false, c=0) %}{% for i in xs %}{% set ns.c = ns.c + i %}{% if i == 1 %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.found }}{{ ns.c }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set a = b, a %}{{ a }}",
    "{% set x %}block {{ n }}{% endset %}[{{ x }}]{{ x | length }}",
    "{% set x | upper | trim %} block {{ n }} {% endset %}[{{ x }}]",
    "{% if true %}{% set z = 5 %}{% endif %}{{ z }}",
    "{% macro m(a, b=2, c='x') %}{{ a }}-{{ b }}-{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, c=3) }}{{ m(1, 2, 3) }}{{ m(b=1, a=0) }}{{ m() }}",
    "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}{{ m(a=1) }}",
    "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}body {{ n }}{% endcall %}",
    "{% macro m(xs) %}{% for x in xs %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(x, i) m(xs) %}<{{ x }}{{ i }}>{% endcall %}",
    "{% macro m() %}{% if caller %}c{% else %}n{% endif %}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}",
    "{% macro fact(k) %}{% if k <= 1 %}1{% else %}{{ k * (fact(k - 1) | int) }}{% endif %}{% endmacro %}{{ fact(6) }}",
    "{% macro m() %}{{ later }}{% endmacro %}{% set later = 3 %}{{ m() }}",
    "{% set x = 1 %}{% macro m() %}{% set x = 2 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}",
    "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(4) }}",
    "{% macro a() %}A{% endmacro %}{% macro b() %}{{ a() }}B{% endmacro %}{{ b() | lower }}{{ b() + '!' }}",
    "{% for i in xs %}{% macro inner() %}{{ i }}{% endmacro %}{{ inner() }}{% endfor %}",
    "{% filter upper %}abc {{ s }}{% endfilter %}{% filter replace('a', 'b') | trim %} aXa {% endfilter %}",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% set a = 9 %}{{ a }}{% endwith %}{{ a is defined }}",
    "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}",
    "{% generation %}x{{ n }}{% set g = 1 %}{% endgeneration %}{{ g is defined }}",
    "{% raw %}{{ not }} {% this %} {# that #}{% endraw %}!",
    "a {%- raw -%}  x  {%- endraw -%}  b",
    "  {% raw %}\n  x\n  {% endraw %}\nb",
    "a{# comment #}b{#- c -#} c {#- d #} e",
    "  {# comment line #}\nnext",
    "line\n    {% if true %}\n  indented\n    {% endif %}\nend\n",
    "line\n    {%+ if true %}\n  indented\n    {%+ endif +%}\nend\n",
    "x {%- if true -%} y {%- endif -%} z",
    "x\n\n{{- 1 -}}\n\ny",
    "{{ 1 }}\n{{ 2 }}\n",
    "{% if true %}\n\nx{% endif %}\n\n",
    "{% if true -%}\n\n  x{% endif %}",
    "  {{ 1 }}  {% if true %}  a  {% endif %}  ",
    "\t{% set x = 1 %}\n\t{{ x }}\n",
    "a\r\nb\r{% if true %}\r\nc{% endif %}\n",
    "tail newline\n\n",
    "{{ '}}' }}{{ \"{%\" }}{{ '%}' }}",
    "{{ {'a': {'b': 1}}['a']['b'] }}{{ {'x': '}}'} }}",
    "{{-1}}{{ -1 }}{{- 1}}",
    "{ {% if true %} { }} }{% endif %} %} #}",
    "{{ [\n1,\n2\n] }}",
    "{%if true%}x{%endif%}{%for i in xs%}{{i}}{%endfor%}",
    "{% for x in xs -%}\n  {{ x }}\n{%- endfor %}",
    "{% set ns = namespace(x=1) %}{% set ns.y = ns %}{{ ns.y.y.x }}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set q = c.reset() %}{{ c.current }}",
    "{% set j = joiner(', ') %}{% for x in xs %}{{ j() }}{{ x }}{% endfor %}",
    "{% set f = s.upper %}{{ f() }}{% set g = d.get %}{{ g('b') }}",
    "{{ s.upper is defined }}",
    "{% set g = xs | map('string') %}{{ g | list }}{{ g | list }}",
    "{% set x = 5 if false %}{{ x }}{{ x is defined }}",
    "{% for x in xs | sort %}{{ x }}{% endfor %}{% for x in xs[1:] %}{{ x }}{% endfor %}{% for x in (1, 2) %}{{ x }}{% endfor %}",
    "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}",
    "{% for a in [1, 2] %}{% for b in [a] %}{{ loop.index }}{% else %}{% endfor %}{{ loop.index }}{% endfor %}",
    "{{ users | map(attribute='name') | map('lower') | sort | join(' ') }}",
    "{% set ns = namespace(s='') %}{% for w in words %}{% set ns.s = ns.s + w %}{% endfor %}{{ ns.s }}{{ ns.s | length }}",
    "{% macro f(x) -%}\n  {{ x }}\n{%- endmacro %}{{ f(1) }}|{{ f(none) }}",
    "{% for k, v in d | dictsort %}{{ k }}{% endfor %}{% for k, v in {'x': 1} | items %}{{ k }}{{ v }}{% endfor %}",
    "{{ m(*[1, 2]) if false else 'ok' }}{% macro p(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ p(*[1, 2]) }}{{ p(**{'a': 3, 'b': 4}) }}",
    "{% if s is string and 'World' in s %}{{ s.split('W')[0].strip() }}{% endif %}",
    "{% set content %}{% for p in users %}{{ p.name }}{% endfor %}{% endset %}{{ content.replace('B', 'b') }}",
    "{{ 'x' if n is odd and n is not divisibleby 2 else 'y' }}{{ 'a' if d.a is mapping else 'b' }}",
    "{% for m in users %}{% if loop.index0 % 2 == 0 %}{{ m['name'] }}{% else %}{{ m.name | upper }}{% endif %}{% endfor %}",
    "{{ users[0]['age'] + users[1].age * 2 }}x{{ (1 + 2) ~ 'x' }}", "{{ 'a\\\nb' }}",
    "{{ '%s' % s }}{{ '%d%%' | format(5) }}",
    "{% for x in xs %}{% set ns = namespace(v=x) %}{{ ns.v }}{% endfor %}",
    "{% for x in [1,2,3] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% else %}E{% endfor %}",
    "{{ none }}{{ true }}{{ 1.0 }}{{ [none, true] }}{{ undefined_thing }}",
    "{{ d.items is callable }}{{ d['items'] }}{{ d.get('items') }}",
]

ERRORS = [
    "{{ undefined_thing.x }}", "{{ undefined_thing['x'] }}", "{{ undefined_thing() }}", "{{ undefined_thing + 1 }}", "{{ 1 + undefined_thing }}",
    "{{ 'a' + 1 }}", "{{ 'a' + none }}", "{{ 1 + 'a' }}", "{{ [1] + 'a' }}", "{{ 1 / 0 }}", "{{ 1 // 0 }}", "{{ 1 % 0 }}", "{{ none + 1 }}",
    "{{ 1 < 'a' }}", "{{ none < 1 }}", "{{ 1 in 'abc' }}", "{{ 1 in 5 }}", "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}",
    "{% for a, b in [1] %}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% set a, b = 1, 2, 3 %}",
    "{{ raise_exception('stop here') }}", "{{ xs.append(1) }}", "{{ d.update({}) }}", "{{ d.pop('b') }}", "{{ xs.sort() }}",
    "{{ d.nothing() }}", "{{ s.nothing() }}", "{{ no.x.y }}", "{{ 5() }}", "{{ 'x'() }}", "{{ s | nofilter }}", "{{ s is notest }}",
    "{% set s.x = 1 %}", "{% set zz.x = 1 %}", "{{ range(1000000) }}", "{{ range() }}", "{{ range(1, 2, 0) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "{{ 5 | length }}", "{{ none | length }}",
    "{{ undefined_thing | tojson }}", "{{ range(3) | tojson }}", "{{ {(1, 2): 3} | tojson }}", "{{ {[1]: 2} }}", "{{ 'a'.split('') }}",
    "{{ 'a'.index('z') }}", "{{ [1].index(2) }}", "{{ [1, 'a'] | sort }}", "{{ xs | map('nofilter') | list }}", "{{ s | replace('x') }}",
    "{{ xs[::0] }}", "{{ '%d' % 'x' }}", "{{ '%s %s' % 'x' }}", "{{ '%s' % (1, 2) }}", "{{ '{} {}'.format(1) }}", "{{ '{a}'.format(1) }}",
    "{{ ','.join([1]) }}", "{{ 'a'.startswith(1) }}", "{{ {} | first | upper ~ 1 / 0 }}", "{{ -'a' }}", "{{ -none }}", "{{ 'a' * 'b' }}", "{{ 'a' - 'b' }}",
    "{{ 1 | abs(2) }}", "{{ 'x' | abs }}", "{{ 'x' | round }}", "{{ xs | join(',', foo=1) }}", "{{ 5 | join }}", "{{ 5 | first }}", "{{ none | list }}",
    "{{ s.upper(1) }}", "{{ d.get() }}", "{{ strftime_now() }}", "{{ xs | last(1) }}", "{{ [] | sum(attribute='a') + 'x' }}",
    # grammar
    "{{ }}", "{{ 1 + }}", "{{ 1 1 }}", "{{ (1 }}", "{{ [1 }}", "{{ {1} }}", "{{ 'abc }}", "{{ a b }}", "{{ 1 is }}", "{{ x | }}", "{{ x. }}", "{{ f(a=1, 2) }}",
    "{% if %}{% endif %}", "{% if true %}", "{% endif %}", "{% for x %}{% endfor %}", "{% for x in %}{% endfor %}", "{% for x in xs %}", "{% else %}",
    "{% set %}", "{% set 1 = 2 %}", "{% set true = 1 %}", "{% set x = %}", "{% macro %}{% endmacro %}", "{% macro m %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}",
    "{% unknown %}", "{# never closed", "{{ never closed", "{% never closed", "{% raw %} never closed", "{% break %}", "{% continue %}", "{{ 1 ? 2 }}", "{{ $x }}",
    "{% call 5 %}{% endcall %}", "{% filter %}{% endfilter %}", "{% if true %}{% endfor %}", "{{ ) }}", "{{ a is b is c }}", "{% import 'x' as y %}", "{% include 'x' %}", "{% extends 'x' %}",
    "{{ '\\xZZ' }}", "{{ x['a' }}", "{{ not }}", "{{ * 2 }}", "{% with a %}{% endwith %}", "{% for in xs %}{% endfor %}",
]


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def main():
    env = environment()
    here = os.path.dirname(os.path.abspath(__file__))
    sources = []
    for line in EXPRESSIONS.split("\n"):
        sources.append("{{ " + line + " }}")
    sources += TEMPLATES
    rows, wrong = [], 0
    for source in sources + ERRORS:
        row = {"source": source}
        try:
            row["output"] = env.from_string(source).render(**json.loads(json.dumps(VARIABLES)))
        except Exception as error:  # noqa: BLE001: whatever Python raises
            row["error"] = f"{type(error).__name__}: {error}"
        if ("error" in row) != (source in ERRORS):
            print("unexpected:", row, file=sys.stderr)
            wrong += 1
        if "error" in row and source not in ERRORS:
            continue
        rows.append(row)
    with open(os.path.join(here, "snippets.jsonl"), "w", encoding="utf-8") as out:
        out.write(json.dumps({"variables": VARIABLES}, ensure_ascii=False) + "\n")
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(len(rows), "rows,", wrong, "unexpected")


if __name__ == "__main__":
    main()
