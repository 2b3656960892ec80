/* SPDX-License-Identifier: MIT
 *
 * lexer.c: the rules of Jinja2's documentation ("Whitespace Control", "Escaping") with trim_blocks
 * and lstrip_blocks: "{%-" and "-%}" strip all white space on their side, "{%" strips blanks back to
 * the start of its line, "%}" and "#}" swallow one newline, "+" switches either off. */
#include "jinja/lexer.h"

#include "jinja/literal.h"
#include "text/casemap.h"
#include "text/utf8.h"

#include <string.h>

enum { BRACKETS_MAX = 128 };

typedef struct lexer {
    bt_str src;
    size_t pos;
    int line;           /* of src[counted] */
    size_t counted;     /* lines are counted up to here */
    bool line_starting; /* nothing but blanks can precede pos on its line */
    bt_arena *arena;
    bt_jtokens out;
    size_t cap;
    char brackets[BRACKETS_MAX]; /* the closing ones that are due */
    size_t n_brackets;
    bt_err *err;
} lexer;

static bt_status no_memory(lexer *lx)
{
    return bt_fail(lx->err, BT_E_NO_MEMORY, "out of memory while compiling a chat template");
}

static int line_at(lexer *lx, size_t offset)
{
    for (; lx->counted < offset; lx->counted++) {
        lx->line += lx->src.p[lx->counted] == '\n';
    }
    return lx->line;
}

static bt_status fail_here(lexer *lx, const char *what)
{
    return bt_fail_at(lx->err, BT_E_FORMAT, (int64_t)lx->pos, "chat template, line %d: %s",
                      line_at(lx, lx->pos), what);
}

static bt_status emit(lexer *lx, bt_jtok tok)
{
    if (lx->out.n == lx->cap) {
        size_t cap = lx->cap == 0 ? 64 : lx->cap * 2;
        bt_jtok *items = bt_arena_calloc(lx->arena, cap, sizeof *items);
        if (items == NULL) {
            return no_memory(lx);
        }
        if (lx->out.n > 0) {
            memcpy(items, lx->out.items, lx->out.n * sizeof *items);
        }
        lx->out.items = items;
        lx->cap = cap;
    }
    tok.line = line_at(lx, tok.offset);
    lx->out.items[lx->out.n++] = tok;
    return BT_OK;
}

static bt_status emit_plain(lexer *lx, bt_jtok_kind kind, size_t n)
{
    bt_jtok tok = {.kind = kind, .offset = lx->pos, .text = {lx->src.p + lx->pos, n}};
    lx->pos += n;
    return emit(lx, tok);
}

/* A copy of the source with "\r\n" and "\r" as "\n" and without one final newline. */
static bt_status normalise(lexer *lx, bt_str source)
{
    char *copy = bt_arena_alloc(lx->arena, source.n + 1);
    if (copy == NULL) {
        return no_memory(lx);
    }
    size_t n = 0;
    for (size_t i = 0; i < source.n; i++) {
        char c = source.p[i];
        if (c == '\r') {
            if (i + 1 < source.n && source.p[i + 1] == '\n') {
                i++;
            }
            c = '\n';
        }
        copy[n++] = c;
    }
    if (n > 0 && copy[n - 1] == '\n') {
        n--;
    }
    copy[n] = '\0';
    lx->src = (bt_str){copy, n};
    return BT_OK;
}

static char at(const lexer *lx, size_t i)
{
    return i < lx->src.n ? lx->src.p[i] : '\0';
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Index of the next "{{", "{%" or "{#" at or after pos; src.n when there is none. */
static size_t find_tag(const lexer *lx)
{
    for (size_t i = lx->pos; i + 1 < lx->src.n; i++) {
        char c = lx->src.p[i + 1];
        if (lx->src.p[i] == '{' && (c == '{' || c == '%' || c == '#')) {
            return i;
        }
    }
    return lx->src.n;
}

/* How much of data [start, end) is printed, given the tag that follows it at `end`. */
static size_t data_end(const lexer *lx, size_t start, size_t end)
{
    char sign = at(lx, end + 2);
    if (sign == '-') {
        return start + bt_case_strip_end((bt_str){lx->src.p + start, end - start});
    }
    if (sign == '+' || at(lx, end + 1) == '{') {
        return end;
    }
    size_t i = end;
    while (i > start && is_blank(lx->src.p[i - 1]) && lx->src.p[i - 1] != '\n') {
        i--;
    }
    bool whole_line = i > start ? lx->src.p[i - 1] == '\n' : lx->line_starting;
    return whole_line ? i : end;
}

static bt_status lex_data(lexer *lx, size_t end, bool tag_follows)
{
    size_t stop = tag_follows ? data_end(lx, lx->pos, end) : end;
    if (stop > lx->pos) {
        bt_jtok tok = {
            .kind = BT_JTOK_DATA, .offset = lx->pos, .text = {lx->src.p + lx->pos, stop - lx->pos}};
        BT_TRY(emit(lx, tok));
    }
    lx->pos = end;
    return BT_OK;
}

/* At the sign or the closing pair of a tag that ends with `close` ('%', '}' or '#'): passes over it
 * and the white space that it swallows. False when no such end stands here. */
static bool pass_end(lexer *lx, char close)
{
    size_t i = lx->pos;
    char sign = at(lx, i);
    bool with_sign = sign == '-' || (sign == '+' && close != '}');
    i += with_sign;
    if (at(lx, i) != close || at(lx, i + 1) != '}') {
        return false;
    }
    i += 2;
    if (with_sign && sign == '-') {
        bt_str rest = {lx->src.p + i, lx->src.n - i};
        i += bt_case_strip_start(rest);
    } else if (!with_sign && close != '}' && at(lx, i) == '\n') {
        i++;
    }
    lx->pos = i;
    lx->line_starting = lx->src.p[i - 1] == '\n';
    return true;
}

static bt_status lex_comment(lexer *lx)
{
    size_t start = lx->pos;
    lx->pos += 2;
    while (lx->pos < lx->src.n) {
        if (pass_end(lx, '#')) {
            return BT_OK;
        }
        lx->pos++;
    }
    lx->pos = start;
    return fail_here(lx, "the comment is not closed");
}

/* Parses "{%[-+] name [-+]%}" at pos; true when it is that tag. *after: index of its end sign. */
static bool is_raw_tag(const lexer *lx, size_t pos, const char *name, size_t *after)
{
    if (at(lx, pos) != '{' || at(lx, pos + 1) != '%') {
        return false;
    }
    pos += 2;
    pos += at(lx, pos) == '-' || at(lx, pos) == '+';
    while (is_blank(at(lx, pos))) {
        pos++;
    }
    size_t n = strlen(name);
    if (lx->src.n - BT_MIN(pos, lx->src.n) < n || memcmp(lx->src.p + pos, name, n) != 0) {
        return false;
    }
    pos += n;
    while (is_blank(at(lx, pos))) {
        pos++;
    }
    *after = pos;
    char sign = at(lx, pos);
    pos += sign == '-' || sign == '+';
    return at(lx, pos) == '%' && at(lx, pos + 1) == '}';
}

/* After "{% raw %}": everything up to "{% endraw %}" is data. */
static bt_status lex_raw(lexer *lx, size_t after)
{
    size_t start = lx->pos;
    lx->pos = after;
    bool strips = at(lx, after) == '-';
    if (!pass_end(lx, '%')) {
        return fail_here(lx, "unexpected end of a raw tag");
    }
    if (!strips && lx->src.p[lx->pos - 1] == '\n') {
        lx->pos--; /* this one tag does not swallow its newline */
    }
    for (size_t i = lx->pos; i + 1 < lx->src.n; i++) {
        if (lx->src.p[i] == '{' && is_raw_tag(lx, i, "endraw", &after)) {
            BT_TRY(lex_data(lx, i, true));
            lx->pos = after;
            return pass_end(lx, '%') ? BT_OK : fail_here(lx, "unexpected end of a raw tag");
        }
    }
    lx->pos = start;
    return fail_here(lx, "raw without endraw");
}

static bt_status lex_name(lexer *lx)
{
    size_t i = lx->pos;
    while (i < lx->src.n) {
        uint32_t c;
        int n = bt_utf8_decode(lx->src.p + i, lx->src.n - i, &c);
        if (n == 0 || (c < 0x80 && !bt_literal_is_name((char)c)) ||
            (c >= 0x80 && !bt_case_is_alnum(c))) {
            break;
        }
        i += (size_t)n;
    }
    if (i == lx->pos) {
        return fail_here(lx, "unexpected character");
    }
    return emit_plain(lx, BT_JTOK_NAME, i - lx->pos);
}

static bt_status lex_string(lexer *lx)
{
    char quote = at(lx, lx->pos);
    size_t i = lx->pos + 1;
    while (i < lx->src.n && lx->src.p[i] != quote) {
        i += lx->src.p[i] == '\\' ? 2 : 1;
    }
    if (i >= lx->src.n) {
        return fail_here(lx, "the string is not closed");
    }
    bt_jtok tok = {.kind = BT_JTOK_STRING, .offset = lx->pos};
    bt_str inner = {lx->src.p + lx->pos + 1, i - lx->pos - 1};
    bt_status status = bt_literal_string(inner, lx->arena, &tok.text);
    if (status != BT_OK) {
        return status == BT_E_NO_MEMORY ? no_memory(lx) : fail_here(lx, "a bad escape in a string");
    }
    lx->pos = i + 1;
    return emit(lx, tok);
}

static bt_status lex_number(lexer *lx)
{
    bt_jtok tok = {.offset = lx->pos};
    bool is_real;
    bt_str rest = {lx->src.p + lx->pos, lx->src.n - lx->pos};
    bool after_dot = lx->pos > 0 && lx->src.p[lx->pos - 1] == '.';
    size_t n = bt_literal_number(rest, after_dot, &is_real, &tok.i, &tok.r);
    if (n == 0) {
        return fail_here(lx, "a number that does not fit 64 bits");
    }
    tok.kind = is_real ? BT_JTOK_REAL : BT_JTOK_INT;
    tok.text = (bt_str){rest.p, n};
    lx->pos += n;
    return emit(lx, tok);
}

static bt_status lex_operator(lexer *lx)
{
    static const char pairs[][3] = {"//", "**", "==", "!=", ">=", "<="};
    static const char singles[] = "+-/*%~[](){}<>=.:|,;";
    char c = at(lx, lx->pos);
    for (size_t i = 0; i < BT_COUNT(pairs); i++) {
        if (c == pairs[i][0] && at(lx, lx->pos + 1) == pairs[i][1]) {
            return emit_plain(lx, BT_JTOK_OP, 2);
        }
    }
    if (c == '\0' || strchr(singles, c) == NULL) {
        return lex_name(lx);
    }
    if (c == '(' || c == '[' || c == '{') {
        if (lx->n_brackets == BRACKETS_MAX) {
            return fail_here(lx, "brackets nested too deeply");
        }
        lx->brackets[lx->n_brackets++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        if (lx->n_brackets == 0 || lx->brackets[lx->n_brackets - 1] != c) {
            return fail_here(lx, "a closing bracket that nothing opened");
        }
        lx->n_brackets--;
    }
    return emit_plain(lx, BT_JTOK_OP, 1);
}

/* The inside of "{{ … }}" or "{% … %}" up to its end. */
static bt_status lex_code(lexer *lx, char close, bt_jtok_kind end_kind)
{
    lx->n_brackets = 0;
    while (lx->pos < lx->src.n) {
        bt_jtok end = {.kind = end_kind, .offset = lx->pos};
        if (lx->n_brackets == 0 && pass_end(lx, close)) {
            return emit(lx, end);
        }
        char c = at(lx, lx->pos);
        if (is_blank(c)) {
            lx->pos++;
        } else if (c >= '0' && c <= '9') {
            BT_TRY(lex_number(lx));
        } else if (c == '"' || c == '\'') {
            BT_TRY(lex_string(lx));
        } else {
            BT_TRY(lex_operator(lx));
        }
    }
    return fail_here(lx, "the template ends inside a tag");
}

static bt_status lex_tag(lexer *lx)
{
    char kind = at(lx, lx->pos + 1);
    size_t after;
    if (kind == '#') {
        return lex_comment(lx);
    }
    if (is_raw_tag(lx, lx->pos, "raw", &after)) {
        return lex_raw(lx, after);
    }
    BT_TRY(emit_plain(lx, kind == '{' ? BT_JTOK_PRINT : BT_JTOK_BLOCK, 2));
    char sign = at(lx, lx->pos);
    lx->pos += sign == '-' || sign == '+';
    return kind == '{' ? lex_code(lx, '}', BT_JTOK_PRINT_END)
                       : lex_code(lx, '%', BT_JTOK_BLOCK_END);
}

bt_status bt_jlexer_run(bt_str source, bt_arena *arena, bt_jtokens *out, bt_err *err)
{
    lexer lx = {.arena = arena, .err = err, .line = 1, .line_starting = true};
    if (bt_utf8_valid(source) != source.n) {
        return bt_fail_at(err, BT_E_FORMAT, (int64_t)bt_utf8_valid(source),
                          "chat template: the source is not UTF-8");
    }
    BT_TRY(normalise(&lx, source));
    while (lx.pos < lx.src.n) {
        size_t tag = find_tag(&lx);
        BT_TRY(lex_data(&lx, tag, tag < lx.src.n));
        if (tag < lx.src.n) {
            BT_TRY(lex_tag(&lx));
        }
    }
    BT_TRY(emit(&lx, (bt_jtok){.kind = BT_JTOK_END, .offset = lx.src.n}));
    *out = lx.out;
    return BT_OK;
}
