# SPDX-License-Identifier: MIT
"""Reads C sources as far as the lint needs: text without comments and strings (same lines, same
columns), functions with their extent and parameters, declarations of headers, waivers.

No parser: the sources are laid out by clang-format, so a function body is what stands between a
"{" and a "}" in the first column.
"""
import re

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
WAIVER = re.compile(r"lint: allow ([\w-]+):[ \t]*(\S[^\n]*)?")
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
NAME_BEFORE_PAREN = re.compile(r"\b([a-z_]\w*)\s*\(")
NO_FUNCTIONS = {"__attribute__", "_Static_assert", "static_assert", "_Alignas", "alignas",
                "__asm__", "asm", "sizeof", "if", "while", "for", "switch", "return"}


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def strip(text):
    """text with comments, and the insides of strings, replaced by blanks."""
    def replace(m):
        t = m.group(0)
        return blank(t) if t[0] == "/" else t[0] + blank(t[1:-1]) + t[-1]
    return TOKEN.sub(replace, text)


def waivers(text):
    """(line, rule, reason or None) of each waiver comment."""
    return [(text.count("\n", 0, m.start()) + 1, m.group(1), m.group(2))
            for m in WAIVER.finditer(text)]


def includes(text):
    """(line, name, quoted?) of each include; comments are skipped, names are kept."""
    no_comments = re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: blank(m.group(0)), text, flags=re.S)
    return [(no_comments.count("\n", 0, m.start()) + 1, m.group(2), m.group(1) == '"')
            for m in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]', no_comments, re.M)]


def parameters(signature):
    """(name, number of parameters) of a function's head, or None when it is none."""
    for m in NAME_BEFORE_PAREN.finditer(signature):
        if m.group(1) in NO_FUNCTIONS:
            continue
        depth, commas, inside = 1, 0, ""
        for c in signature[m.end():]:
            depth += (c in "([{") - (c in ")]}")
            if depth == 0:
                break
            commas += c == "," and depth == 1
            inside += c
        inside = inside.strip()
        return m.group(1), 0 if inside in ("", "void") else commas + 1
    return None


def functions(code):
    """(name, first line of the head, lines from head to end, parameters) of each definition."""
    text = DIRECTIVE.sub(lambda m: blank(m.group(0)), code)
    out = []
    for m in re.finditer(r"^\{.*?^\}", text, re.M | re.S):
        head_at = max(text.rfind(";", 0, m.start()), text.rfind("}", 0, m.start())) + 1
        head = text[head_at:m.start()]
        found = parameters(head)
        if not found:
            continue
        head_at += len(head) - len(head.lstrip())
        first = text.count("\n", 0, head_at) + 1
        last = text.count("\n", 0, m.end()) + 1
        out.append((found[0], first, last - first + 1, found[1]))
    return out


def declarations(code):
    """(name, line, parameters) of the functions that a header declares."""
    text = DIRECTIVE.sub(lambda m: blank(m.group(0)), code)
    while True:  # bodies and struct members, innermost first
        cut = re.sub(r"\{[^{}]*\}", lambda m: ";" + blank(m.group(0)[1:-1]) + " ", text)
        if cut == text:
            break
        text = cut
    out, at = [], 0
    for part in text.split(";"):
        line = text.count("\n", 0, at + len(part) - len(part.lstrip())) + 1
        at += len(part) + 1
        if re.match(r"\s*(typedef|struct|union|enum)\b[^()]*$|\s*typedef", part) or "=" in part:
            continue
        found = parameters(part)
        if found:
            out.append((found[0], line, found[1]))
    return out
