#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes goldens.jsonl beside this file: templates rendered by Python's jinja2 3.1 in the environment
that the transformers library builds for chat templates. Run it again after adding a line; needs the
package jinja2. One object a line: {"template", "vars", "output"} or {"template", "vars", "error"} with
error "raise" (raise_exception, message beside it) or "runtime"."""
import datetime
import json
import os

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    """The transformers library's {% generation %}: renders its body."""

    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_body")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(lineno)

    def _body(self, caller):
        return caller()


class Raised(Exception):
    pass


def raise_exception(message):
    raise Raised(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


NOW = datetime.datetime(2025, 7, 10, 12, 0, 0)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: NOW.strftime(f)
    return env


SMOLLM2 = """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}"""
CHATML = """{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

USER = {"role": "user", "content": "Hi <|im_end|> \u00e9\U0001f600"}
SYSTEM = {"role": "system", "content": "Be brief."}
ANSWER = {"role": "assistant", "content": "Hello."}
DATA = {
    "x": 5, "r": 1.5, "s": " Hello World ", "l": [3, 1, 2], "d": {"b": 1, "a": [1, None, True]},
    "u": "h\u00e9llo \U0001f600 \u4e2d", "n": None, "t": True, "e": "", "words": ["b", "A", "c", "a"],
    "q": "it's \"q\"\n\t\\ \u00a0\u200b", "msgs": [SYSTEM, USER, ANSWER],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"z": 1, "a": {}}}}],
    "nested": {"k": {"deep": [1, {"v": "x"}]}}, "lines": "a\nb\r\nc\n\nd", "html": "<a href='x'>&\"",
}

chat = [{"messages": m, "add_generation_prompt": g}
        for m in ([USER], [SYSTEM, USER], [USER, ANSWER, USER], []) for g in (True, False)]

EXPRESSIONS = r"""
1 + 2 * 3 - 4 // 3 % 2
-7 // 2 ~ ' ' ~ -7 % 2 ~ ' ' ~ 7 // -2 ~ ' ' ~ 7 % -2
-7.5 // 2 ~ ' ' ~ -7.5 % 2 ~ ' ' ~ 7.5 % -2
7 / 2 ~ ' ' ~ 6 / 2 ~ ' ' ~ 2 ** 10 ~ ' ' ~ 2 ** -1 ~ ' ' ~ 2 ** 3 ** 2
-2 ** 2
-x|abs
(-x)|abs
- 5|abs
1 < 2 < 3
1 < 3 < 2
1 == 1.0 == true
'a' < 'b', 'B' < 'a', [1, 2] < [1, 3], (1,) < (1, 2)
not x == 5 or n
x and r
n or e or 'last'
e and x
not e and not n
'ell' in s, 'zz' not in s, 1 in l, 9 in l, 'b' in d
'a' in undefined_thing
x if t else n
x if n
(x if n) is defined
1 if n else 2 if e else 3
l[0], l[-1], l[1:], l[:-1], l[::-1], l[5:], l[-2:2]
u[0], u[1], u[-1], u[2:8], u[::-1], u[::2]
l[10] is defined, d['zz'] is defined, d.zz is defined
d.a[0], d['b'], d.items()|list, d.keys()|list, d.values()|list
d.get('b'), d.get('zz'), d.get('zz', 7)
nested.k.deep[1].v
nested['k']['deep'][1]['v']
msgs[0].role ~ msgs[-1]['content']
s.strip() ~ '|' ~ s.lstrip() ~ '|' ~ s.rstrip() ~ '|'
'xxaxx'.strip('x') ~ 'abc'.lstrip('ba') ~ 'abc'.rstrip('cb')
'a,b,,c'.split(','), 'a,b,c'.split(',', 1), ' a  b '.split(), 'a b c'.rsplit(' ', 1)
'a b c'.split(None, 1), 'a b c'.rsplit(None, 1), ''.split(), ''.split(',')
lines.splitlines(), lines.split('\n')
'abc'.startswith('ab'), 'abc'.endswith('bc'), 'abc'.startswith(('x', 'a'))
'aXbX'.replace('X', '-'), 'aXbX'.replace('X', '-', 1), 'ab'.replace('', '.')
u.upper(), u.title(), 'ABC'.lower(), "they're bill's".title(), 'hELLO wORLD'.capitalize()
'abcabc'.find('c'), 'abcabc'.rfind('c'), 'abc'.find('z'), u.find('o'), 'aaaa'.count('aa')
'-'.join(['a', 'b']), '12'.isdigit(), 'ab'.isalpha(), 'a1'.isalnum(), ' '.isspace()
'prefix-x'.removeprefix('prefix-'), 'x.py'.removesuffix('.py')
[1, 'a', none, true, 1.0, {'k': [1]}, (1,), ()]
(1, 2), (1,), [], {}
{'a': 1, 2: 'b', none: 1.5, true: 'x'}
q
[q, u, html]
["'", '"', "'\"", '\\', '\x00\x1f\x7f\x80\xad', '\u2028', '\U0001f600', '\ud7ff']
1e3, 1.5e-7, 1e16, 1e22, 123456789.123, 0.1 + 0.2, 3.0, -0.0, 1_000
0x1f, 0o17, 0b101
1.5 * 2, 10 / 4, 3 * 1.0, true + 1, true * 3
'a' * 3, 3 * 'ab', [1] * 2, 'a' * -1
'%s is %d and %.2f' % ('x', 3, 1.5)
'%s' % x, '%5d|%-5d|%05d' % (1, 2, 3), '%r' % 'a', '%%' % ()
'%s-%s' | format('a', 1)
'a' 'b' "c"
'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1] ~ undefined_thing
'tab\tnew\nline\\ \'q\' \x41\u00e9\101\q'
x is defined, zz is defined, zz is undefined, n is none, x is none
s is string, x is string, l is iterable, x is iterable, d is mapping, l is mapping
l is sequence, s is sequence, d is sequence, x is sequence, zz is sequence, zz is iterable
t is boolean, x is boolean, t is true, t is false, x is true, x is number, t is number
x is integer, t is integer, r is float, x is odd, x is even, 9 is divisibleby 3, 9 is divisibleby(2)
x is eq 5, x is equalto(5), x is ne 4, x is gt 4, x is ge 5, x is lt 5, x is le 5, 3 is in l
x is not none, x is not string and t
n is sameas none, x is sameas 5, 'abc' is lower, 'ABC' is upper, 'Ab' is lower
not x is defined
not (x is defined)
l|length, s|length, d|length, u|length, ''|length, zz|length
l|first, l|last, 'abc'|first, ''|first is defined, []|last is defined
l|sort, l|sort(reverse=true), words|sort, words|sort(case_sensitive=true)
msgs|sort(attribute='role')|map(attribute='role')|list
d|dictsort, {'b': 1, 'A': 2}|dictsort, {'b': 1, 'A': 2}|dictsort(true), {'a': 2, 'b': 1}|dictsort(by='value')
l|join, l|join(', '), words|join('-'), msgs|join(',', attribute='role'), []|join('x')
words|map('upper')|list, l|map('string')|join('+'), msgs|map(attribute='zz', default='?')|list
msgs|selectattr('role', 'equalto', 'user')|list|length, msgs|selectattr('role')|list|length
msgs|rejectattr('role', 'in', ['user', 'system'])|map(attribute='role')|join
msgs|selectattr('content', 'defined')|list|length, l|select('odd')|list, l|reject('odd')|list
l|select('gt', 1)|list, [0, 1, '', 'a']|select|list, n|select|list, n|map('upper')|list
[1, 2, 1, 'a', 'A']|unique|list
l|max, l|min, l|sum, words|max, []|max is defined
s|trim, 'xxaxx'|trim('x'), l|trim, n|trim, zz|trim
s|upper, s|lower, 'hello world-foo (bar)'|title, 'hELLO'|capitalize
x|string ~ r|string, l|string, n|string, zz|string
zz|default('d'), e|default('d'), e|default('d', true), n|default('d'), zz|default, x|d('y')
'3'|int, ' 42 '|int, '3.7'|int, 'x'|int, 'x'|int(7), 3.9|int, '0x1f'|int(0, 16), n|int, true|int
'3.5'|float, 'x'|float, 2|float
2.5|round, 3.5|round, 2.567|round(2), 2.1|round(method='ceil'), 2.9|round(0, 'floor'), 5|round
'a-b'|replace('-', '+'), 'aaa'|replace('a', 'b', 2), x|replace('5', 'five')
lines|indent, lines|indent(2, true), lines|indent(2, true, true), lines|indent('> '), ''|indent
x|abs, (-3)|abs, (-2.5)|abs
'abc'|reverse, l|reverse|list, 'abc'|list, d|list, l|batch(2)|list, l|batch(2, 0)|list
d|items|list, zz|items|list
html|e, html|escape, html|safe, ('<b>'|safe) + html, html + ('<b>'|safe), ('<b>'|safe) ~ html
'x'|center(5) ~ '|', 'xy'|center(5) ~ '|'
d|tojson, d|tojson(indent=2), l|tojson, s|tojson, q|tojson, u|tojson, u|tojson(ensure_ascii=true)
tools|tojson, tools|tojson(indent=4), {}|tojson(indent=2), []|tojson(indent=2), tools|tojson(sort_keys=true)
{'a': 1}|tojson(separators=(',', ':')), {1: 2, none: 3, true: 4, 1.5: 5}|tojson, (1, 2)|tojson
[1.0, 1e22, 1.5e-9, -0.0, true, none]|tojson, html|tojson, '/'|tojson
range(3), range(3)|list, range(1, 7, 2)|list, range(3, 0, -1)|list, range(5)[1:3], range(0)|list
range(5)|length, 3 in range(5), range(5)[-1]
dict(a=1, b='x'), dict({'a': 1}, b=2), dict([('a', 1)])
namespace(a=1).a
strftime_now('%Y-%m-%d %H:%M:%S'), strftime_now('%d %b %Y'), strftime_now('%A, %B %d, %j %y %p %I')
s[1:6]|upper ~ s.strip()[0]
(s|trim).split(' ')[0]
msgs[1]['content'].split('<|im_end|>')[-1].lstrip()
s['zz'], n['a'], l['a'], x['y']
d[['a']], s['strip']()
zz.a
zz['a']
n + 'a'
'a' + n
'a' + 1
1 + 'a'
[1] + (2,)
'a' - 'b'
1 < 'a'
n < 1
zz < 1
zz + 1
n|length
x|list
1 in 2
1 in 'a1'
1 // 0
1 % 0
1 / 0
{'a': 1}.b.c
l.append(1)
d.pop('a')
d.update({})
l.index(9)
'abc'.index('z')
{[1]: 2}
{{}: 1}
d|sort, {'b': 1, 'a': 2}|list|sort
[1, 'a']|sort
zz|tojson
l|map('upper')|tojson
d.items()|tojson
l|map('upper')|length
l|map('upper')|list|length
d.items()|length
range(200000)
'abc'[::0]
raise_exception('No: ' ~ x)
raise_exception('')
n|items|list
l|dictsort
'%d' % 'a'
'%s %s' % 'a'
'%s' % ('a', 'b')
zz|int
zz is divisibleby 2
not zz, zz == zz2, zz == none, zz == ''
[zz]|string|replace('Undefined', 'U'), [zz] == [zz2]
none == false, 0 == false, '' == false, 1 == true, '1' == 1
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}, [1, 2] == (1, 2), (1, 2) == (1, 2)
l == [3, 1, 2], l != [3, 1], l is eq [3, 1, 2]
loop is defined
caller is defined
true and 'x' or 'y', false or none, true and []
[1, 2, 3][1] ~ (1, 2, 3)[2] ~ {'a': 'b'}['a'] ~ 'xyz'[1]
[[1, 2], [3]]|map('length')|list, [[1, 2], [3]]|map('first')|list
'x'.foo is defined, l.foo is defined
x == 5 and s|trim == 'Hello World' and not n
'a' if x is string else 'b' if x is number else 'c'
(l|length > 2) and (l[0] if l else 0) == 3
u|upper|lower|title
'ß'.upper(), 'ǆ'.title(), 'ÀÉ'.lower(), 'straße'|title, 'ÿ'|upper
'\u3000 a\u2003\x1c'.strip() ~ '|', 'a\u00a0b'.split()
"a'b\"c"|string|length, 'a\\nb', "multi
line"
9223372036854775807, -9223372036854775807 - 1
x.__class__ is defined
''.__class__.__mro__
"""

STATEMENTS = [
    "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}",
    "{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }}|{{ loop.previtem is defined }},{% endfor %}",
    "{% for i in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(i > 1) }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}{% for c in 'ab' %}{{ c }}{% endfor %}{% for z in zz %}x{% else %}none{% endfor %}",
    "{% for i in l if i > 1 %}{{ i }}{{ loop.last }}{% else %}empty{% endfor %}{% for i in l if i > 9 %}x{% else %}empty{% endfor %}",
    "{% for i in n %}{% endfor %}",
    "{% for i in 5 %}{% endfor %}",
    "{% for a, b in [1, 2] %}{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "{% for i in range(5) %}{% if i == 3 %}{% break %}{% endif %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in [1, 2] %}{% for j in [3, 4] %}{% if j == 4 %}{% break %}{% endif %}{{ i }}{{ j }}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% set a = 1 %}{% for i in l %}{% set a = a + 1 %}{{ a }}{% endfor %}{{ a }}",
    "{% set a = 1 %}{% if t %}{% set a = 2 %}{% endif %}{{ a }}",
    "{% if n %}{% set x = 9 %}{% endif %}{{ x }}",
    "{% set ns = namespace(c=0, f=false) %}{% for i in l %}{% set ns.c = ns.c + i %}{% set ns.new = i %}{% endfor %}{{ ns.c }}{{ ns.f }}{{ ns.new }}{{ ns.zz is defined }}",
    "{% set d.b = 1 %}",
    "{% set zz.b = 1 %}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, e) = [3, 4] %}{{ c }}{{ e }}",
    "{% set a, b = [1] %}",
    "{% set a %}x{{ x }}{% endset %}[{{ a }}]{% set b | upper | trim %} abc {% endset %}[{{ b }}]",
    "{% macro m(a, b=2, c='z') %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(1, c='q') }} {{ m() }}{{ m(b=5, a=4) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, z=3) }}",
    "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "{% set g = 1 %}{% macro m() %}{{ g }}{% endmacro %}{% set g = 2 %}{{ m() }}{% for i in [1] %}{% set g = 3 %}{{ m() }}{% endfor %}",
    "{% macro m() %}{% set inner = 5 %}{% endmacro %}{{ m() }}{{ inner is defined }}",
    "{% macro m(x) %}{{ x|upper }}{% endmacro %}{{ m('a') + m('b') }}{{ m('c')|lower|length }}",
    "{% macro w(a) %}<{{ caller(a) }}>{% endmacro %}{% call(p) w('v') %}[{{ p }}{{ x }}]{% endcall %}",
    "{% macro w() %}<{{ caller() }}>{% endmacro %}{% call w() %}body{% endcall %}",
    "{% with a = 1, b = x %}{{ a }}{{ b }}{% set c = 2 %}{% endwith %}{{ a is defined }}{{ c is defined }}",
    "{% filter upper %}abc{{ s }}{% endfilter %}{% filter replace('a', 'b') | trim %} aaa {% endfilter %}",
    "{% generation %}gen{{ x }}{% set y = 1 %}{% endgeneration %}{{ y is defined }}",
    "{% for m in msgs %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% endif %}{% endfor %}",
    "{% if x == 4 %}a{% elif x == 5 %}b{% else %}c{% endif %}{% if n %}a{% elif e %}b{% else %}c{% endif %}{% if zz %}x{% endif %}",
    "a {% if t %} b {% endif %} c\n  {% if t %}\n  d\n  {% endif %}\ne\n",
    "a\n  {%- if t -%}  \n b \n {%- endif -%} \n c",
    "a\n  {{- x -}}  \n b  {{ x }}  \n",
    "  {%+ if t %}x{% endif +%}\n y {% if t +%}\nz{% endif %}",
    "a  {# comment #}\n  b {#- strip -#}  \n c\n   {# line #}\nd {#+ x +#}\ne",
    "{% raw %}{{ x }}{% if %}{% endraw %}{{ x }}",
    "a {%- raw -%}  {{ y }}  {%- endraw -%} b",
    "  {% raw %}\n  x\n  {% endraw %}\ny",
    "line\r\nother\rthird\n{{ x }}\r\n",
    "{{ '\n' }}x\n\n",
    "\n\n{{ x }}\n",
    "{{ x }}\n\n",
    "{{ {'a': {'b': 1}} }}{{ {'a': 1}['a'] }}{{{'a': 1}}}",
    "{{ '}}' }}{{ \"{%\" }}{% if '%}' %}y{% endif %}",
    "{{\n  x\n  +\n  1\n}}",
    "{% if x is defined and x is not none and x > 3 %}ok{% endif %}",
    "{%- for m in msgs %}\n    {%- if loop.first %}\n        {{- '[' + m.role + ']' }}\n    {%- else %}\n        {{- m.content | trim }}\n    {%- endif %}\n{%- endfor %}\n",
    "{% set l2 = l + [4] %}{{ l2 }}{{ l }}{% set l2 = l2 + [msgs[0]] %}{{ l2[-1].role }}",
    "{% for t in tools %}{{ t.function.name }}{% for k, v in t.function.parameters | items %}{{ k }}{{ v }}{% endfor %}{% endfor %}",
    "{% set gen = l | map('string') %}{{ gen | join(',') }}{{ gen | join(',') }}",
    "{% for m in msgs[::-1] %}{{ m.role[0] }}{% endfor %}{% for m in msgs | reverse %}{{ m.role }}{% endfor %}",
    "{% set ns = namespace() %}{% set ns.a = 'x' %}{{ ns.a }}{{ ns.b }}{{ ns['a'] }}",
    "{% if 'a' in d and d['a'] is iterable and d['a'] is not string %}{{ d.a | length }}{% endif %}",
    "{{ raise_exception('first') if n else 'fine' }}{{ raise_exception('second: ' + s) }}",
    "{% set x = x %}{{ x }}{% for x in l %}{{ x }}{% endfor %}{{ x }}",
    "{% for i in l %}{% if loop.first %}{% set seen = i %}{% endif %}{{ seen }}{% endfor %}{{ seen is defined }}",
    "{% set f = 'abc'.upper %}{{ f() }}{% set g = d.get %}{{ g('b') }}",
    "{% for i in [] %}{% else %}{% set y = 1 %}{% endfor %}{{ y is defined }}",
    "{% set a = 1 if t %}{{ a }}{% set b = 1 if n %}{{ b }}{{ b is defined }}",
    "{%if x%}a{%endif%}{{x}}{%set y=3%}{{y}}{{-x}}{{-x-}} b",
    "{{ x -}}\n\n  y {{- ' z' }}{%- set q = 1 %}\n  w",
]


def main():
    env = environment()
    rows = [(t, v) for t in (SMOLLM2, CHATML) for v in chat]
    lines, block = [], EXPRESSIONS.strip("\n").split("\n")
    for line in block:
        # A string with a newline in it spans two lines.
        if lines and lines[-1].endswith('"multi'):
            lines[-1] += "\n" + line
        else:
            lines.append(line)
    rows += [("{{ " + e + " }}", DATA) for e in lines]
    rows += [(t, DATA) for t in STATEMENTS]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "goldens.jsonl")
    with open(path, "w", encoding="utf-8") as out:
        out.write(json.dumps({"data": DATA}, ensure_ascii=False) + "\n")
        for template, variables in rows:
            row = {"template": template}
            if variables is not DATA:
                row["vars"] = variables
            try:
                row["output"] = env.from_string(template).render(**variables)
            except Raised as error:
                row["error"], row["message"] = "raise", str(error)
            except jinja2.TemplateSyntaxError as error:
                raise SystemExit(f"{template!r}: {error}")
            except Exception:
                row["error"] = "runtime"
            out.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
