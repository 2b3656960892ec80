/* SPDX-License-Identifier: MIT */
#include "token/pull.h"

#include "text/utf8.h"

#include <string.h>

void bt_pull_init(bt_pull *p, bt_str text, bt_buf *plain, bt_err *err)
{
    *p = (bt_pull){.text = text, .err = err, .plain = plain};
}

bt_status bt_pull_fail(bt_pull *p, const char *wanted)
{
    return bt_fail_at(p->err, BT_E_FORMAT, (int64_t)p->at, "%s expected at byte %zu", wanted,
                      p->at);
}

char bt_pull_peek(bt_pull *p)
{
    while (p->at < p->text.n) {
        char c = p->text.p[p->at];
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r') {
            return c;
        }
        p->at++;
    }
    return '\0';
}

static bool take(bt_pull *p, char c)
{
    bool there = bt_pull_peek(p) == c && p->at < p->text.n;
    p->at += there;
    return there;
}

bt_status bt_pull_open(bt_pull *p, char bracket)
{
    if (!take(p, bracket)) {
        return bt_pull_fail(p, bracket == '{' ? "an object" : "an array");
    }
    return BT_OK;
}

bt_status bt_pull_next(bt_pull *p, char close, bool *first, bool *more)
{
    if (take(p, close)) {
        *more = false;
        return BT_OK;
    }
    if (!*first && !take(p, ',')) {
        return bt_pull_fail(p, "a comma or the end of an object or array");
    }
    *first = false;
    *more = true;
    return BT_OK;
}

/* The four hexadecimal digits at p->at, -1 when they are none. */
static int32_t take_hex(bt_pull *p)
{
    int32_t value = 0;
    if (p->text.n - p->at < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        char c = p->text.p[p->at + (size_t)i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) {
            return -1;
        }
        value = value * 16 + digit;
    }
    p->at += 4;
    return value;
}

/* After "\u": one character, of one escape or of a surrogate pair. */
static bt_status take_code_point(bt_pull *p)
{
    int32_t high = take_hex(p), code = high;
    if (high >= 0xD800 && high < 0xDC00 && p->text.n - p->at >= 2 && p->text.p[p->at] == '\\' &&
        p->text.p[p->at + 1] == 'u') {
        p->at += 2;
        int32_t low = take_hex(p);
        code =
            low >= 0xDC00 && low < 0xE000 ? 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00) : -1;
    }
    if (code < 0 || (code >= 0xD800 && code < 0xE000)) {
        return bt_pull_fail(p, "four hexadecimal digits, or a whole surrogate pair,");
    }
    char utf8[4];
    bt_buf_push(p->plain, utf8, (size_t)bt_utf8_encode((uint32_t)code, utf8));
    return BT_OK;
}

static bt_status take_escape(bt_pull *p)
{
    static const char letters[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";
    p->at++;
    char c = p->at < p->text.n ? p->text.p[p->at] : '\0';
    if (c == 'u') {
        p->at++;
        return take_code_point(p);
    }
    const char *letter = c == '\0' ? NULL : strchr(letters, c);
    if (letter == NULL) {
        return bt_pull_fail(p, "an escape of JSON");
    }
    bt_buf_push_char(p->plain, plain[letter - letters]);
    p->at++;
    return BT_OK;
}

/* Bytes up to the next quote, backslash or control character. */
static size_t span_plain(const bt_pull *p)
{
    size_t i = p->at;
    while (i < p->text.n) {
        unsigned char c = (unsigned char)p->text.p[i];
        if (c == '"' || c == '\\' || c < 0x20) {
            break;
        }
        i++;
    }
    return i - p->at;
}

bt_status bt_pull_string(bt_pull *p, bt_str *out)
{
    if (!take(p, '"')) {
        return bt_pull_fail(p, "a string");
    }
    size_t begin = p->at;
    p->at += span_plain(p);
    if (p->at < p->text.n && p->text.p[p->at] == '"') {
        *out = (bt_str){p->text.p + begin, p->at - begin};
        p->at++;
        return BT_OK;
    }
    bt_buf_clear(p->plain);
    bt_buf_push(p->plain, p->text.p + begin, p->at - begin);
    while (p->at < p->text.n && p->text.p[p->at] == '\\') {
        BT_TRY(take_escape(p));
        size_t n = span_plain(p);
        bt_buf_push(p->plain, p->text.p + p->at, n);
        p->at += n;
    }
    if (p->at >= p->text.n || p->text.p[p->at] != '"') {
        return bt_pull_fail(p, "a string without control characters and its closing quote");
    }
    p->at++;
    if (bt_buf_ok(p->plain) != BT_OK) {
        return bt_fail(p->err, bt_buf_ok(p->plain), "a string of %zu bytes", p->at - begin);
    }
    *out = bt_buf_str(p->plain);
    return BT_OK;
}

bt_status bt_pull_key(bt_pull *p, bt_str *out)
{
    BT_TRY(bt_pull_string(p, out));
    return take(p, ':') ? BT_OK : bt_pull_fail(p, "a colon");
}

static size_t take_digits(bt_pull *p)
{
    size_t begin = p->at;
    while (p->at < p->text.n && p->text.p[p->at] >= '0' && p->text.p[p->at] <= '9') {
        p->at++;
    }
    return p->at - begin;
}

static bool at_char(const bt_pull *p, const char *set)
{
    return p->at < p->text.n && p->text.p[p->at] != '\0' && strchr(set, p->text.p[p->at]) != NULL;
}

bt_status bt_pull_int(bt_pull *p, int64_t *out)
{
    bool negative = take(p, '-');
    size_t begin = p->at, n = take_digits(p);
    bool zero_led = n > 1 && p->text.p[begin] == '0';
    if (n == 0 || n > 18 || zero_led || at_char(p, ".eE")) {
        p->at = begin;
        return bt_pull_fail(p, "a whole number");
    }
    int64_t value = 0;
    for (size_t i = begin; i < p->at; i++) {
        value = value * 10 + (p->text.p[i] - '0');
    }
    *out = negative ? -value : value;
    return BT_OK;
}

static bt_status skip_number(bt_pull *p)
{
    p->at += at_char(p, "-");
    size_t begin = p->at, n = take_digits(p);
    bool good = n == 1 || (n > 1 && p->text.p[begin] != '0');
    if (good && at_char(p, ".")) {
        p->at++;
        good = take_digits(p) > 0;
    }
    if (good && at_char(p, "eE")) {
        p->at++;
        p->at += at_char(p, "+-");
        good = take_digits(p) > 0;
    }
    return good ? BT_OK : bt_pull_fail(p, "a value");
}

static bt_status skip_scalar(bt_pull *p)
{
    static const char *const words[] = {"true", "false", "null"};
    bt_str string;
    if (bt_pull_peek(p) == '"') {
        return bt_pull_string(p, &string);
    }
    bt_str rest = {p->text.p + p->at, p->text.n - p->at};
    for (size_t i = 0; i < BT_COUNT(words); i++) {
        if (bt_str_starts(rest, bt_str_of(words[i]))) {
            p->at += strlen(words[i]);
            return BT_OK;
        }
    }
    return skip_number(p);
}

/* Without recursion: `closers` is the stack of open brackets. */
bt_status bt_pull_skip(bt_pull *p, bt_str *span)
{
    char closers[BT_PULL_DEPTH_MAX];
    int depth = 0;
    bool first = false;
    (void)bt_pull_peek(p);
    size_t begin = p->at;
    do {
        char c = bt_pull_peek(p);
        if (c == '{' || c == '[') {
            if (depth == BT_PULL_DEPTH_MAX) {
                return bt_pull_fail(p, "at most 64 levels of nesting");
            }
            p->at++;
            closers[depth++] = c == '{' ? '}' : ']';
            first = true;
        } else {
            BT_TRY(skip_scalar(p));
            first = false;
        }
        bool more = false;
        while (depth > 0 && !more) {
            BT_TRY(bt_pull_next(p, closers[depth - 1], &first, &more));
            depth -= !more;
            first = first && more;
        }
        bt_str key;
        if (more && closers[depth - 1] == '}') {
            BT_TRY(bt_pull_key(p, &key));
        }
    } while (depth > 0);
    if (span != NULL) {
        *span = (bt_str){p->text.p + begin, p->at - begin};
    }
    return BT_OK;
}

bt_status bt_pull_end(bt_pull *p)
{
    (void)bt_pull_peek(p);
    return p->at == p->text.n ? BT_OK : bt_pull_fail(p, "the end of the file");
}
