/* SPDX-License-Identifier: MIT
 *
 * literal.c: after the Python language reference, "String and Bytes literals", "Numeric literals". */
#include "jinja/literal.h"

#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

bool bt_literal_is_name(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Value of a digit in a base up to 16; -1 when it is none. */
static int digit_of(char c, int base)
{
    int d = c >= '0' && c <= '9'   ? c - '0'
            : c >= 'a' && c <= 'f' ? c - 'a' + 10
            : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                   : -1;
    return d < base ? d : -1;
}

/* Length of a run of digits with single underscores between them, from i on. */
static size_t digits_at(bt_str text, size_t i, int base)
{
    size_t start = i;
    while (i < text.n) {
        size_t next = i + (i > start && text.p[i] == '_');
        if (next >= text.n || digit_of(text.p[next], base) < 0) {
            break;
        }
        i = next + 1;
    }
    return i - start;
}

static size_t whole_number(bt_str text, size_t prefix, int base, int64_t *out)
{
    size_t n = digits_at(text, prefix, base);
    int64_t value = 0;
    for (size_t i = prefix; i < prefix + n; i++) {
        if (text.p[i] == '_') {
            continue;
        }
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, digit_of(text.p[i], base), &value)) {
            return 0;
        }
    }
    *out = value;
    return prefix + n;
}

/* Length of the fraction and exponent after `n` digits; 0 when there is neither. */
static size_t real_tail(bt_str text, size_t n)
{
    size_t i = n;
    if (i < text.n && text.p[i] == '.') {
        size_t fraction = digits_at(text, i + 1, 10);
        i += fraction > 0 ? 1 + fraction : 0;
    }
    if (i < text.n && (text.p[i] == 'e' || text.p[i] == 'E')) {
        size_t sign = i + 1 < text.n && (text.p[i + 1] == '+' || text.p[i + 1] == '-');
        size_t exponent = digits_at(text, i + 1 + sign, 10);
        i += exponent > 0 ? 1 + sign + exponent : 0;
    }
    return i - n;
}

size_t bt_literal_number(bt_str text, bool after_dot, bool *is_real, int64_t *i, double *r)
{
    *is_real = false;
    if (text.n > 2 && text.p[0] == '0') {
        char c = (char)(text.p[1] | 0x20);
        int base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
        if (base != 0 && digits_at(text, 2, base) > 0) {
            return whole_number(text, 2, base, i);
        }
    }
    size_t n = digits_at(text, 0, 10);
    size_t tail = after_dot ? 0 : real_tail(text, n);
    if (tail == 0) {
        return whole_number(text, 0, 10, i);
    }
    char plain[64];
    size_t len = 0;
    for (size_t k = 0; k < n + tail; k++) {
        if (text.p[k] != '_' && len + 1 < sizeof plain) {
            plain[len++] = text.p[k];
        }
    }
    plain[len] = '\0';
    *is_real = true;
    *r = strtod(plain, NULL);
    return len + 1 < sizeof plain ? n + tail : 0;
}

/* Reads exactly n digits; false when they are not there. */
static bool escape_code(bt_str text, size_t i, int n, uint32_t *code)
{
    uint32_t value = 0;
    for (int k = 0; k < n; k++, i++) {
        int d = i < text.n ? digit_of(text.p[i], 16) : -1;
        if (d < 0 || value > 0x10FFFF) {
            return false;
        }
        value = value * 16 + (uint32_t)d;
    }
    *code = value;
    return value < 0x110000 && (value < 0xD800 || value > 0xDFFF);
}

static size_t octal_escape(bt_str text, size_t i, uint32_t *code)
{
    size_t n = 0;
    *code = 0;
    while (n < 3 && i + n < text.n && digit_of(text.p[i + n], 8) >= 0) {
        *code = *code * 8 + (uint32_t)digit_of(text.p[i + n], 8);
        n++;
    }
    return n;
}

/* Resolves the escape whose backslash is at i; writes at out, returns the bytes written (at most the
 * bytes read), adds to *i the bytes read. -1: broken. */
static int one_escape(bt_str text, size_t *i, char *out)
{
    static const char names[] = "abfnrtv\\'\"";
    static const char codes[] = "\a\b\f\n\r\t\v\\'\"";
    char c = text.p[*i + 1];
    const char *hit = c == '\0' ? NULL : strchr(names, c);
    if (hit != NULL) {
        out[0] = codes[hit - names];
        *i += 2;
        return 1;
    }
    if (c == '\n') {
        *i += 2;
        return 0;
    }
    uint32_t code;
    size_t octal = octal_escape(text, *i + 1, &code);
    int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (octal > 0) {
        *i += 1 + octal;
        return bt_utf8_encode(code, out);
    }
    if (digits > 0) {
        if (!escape_code(text, *i + 2, digits, &code)) {
            return -1;
        }
        *i += 2 + (size_t)digits;
        return bt_utf8_encode(code, out);
    }
    out[0] = '\\';
    *i += 1;
    return 1;
}

bt_status bt_literal_string(bt_str inner, bt_arena *arena, bt_str *out)
{
    /* The longest result of an escape is shorter than the escape. */
    char *p = bt_arena_alloc(arena, inner.n + 4);
    if (p == NULL) {
        return BT_E_NO_MEMORY;
    }
    size_t n = 0;
    for (size_t i = 0; i < inner.n;) {
        if (inner.p[i] != '\\' || i + 1 >= inner.n) {
            p[n++] = inner.p[i++];
            continue;
        }
        int len = one_escape(inner, &i, p + n);
        if (len < 0) {
            return BT_E_FORMAT;
        }
        n += (size_t)len;
    }
    *out = (bt_str){p, n};
    return BT_OK;
}
