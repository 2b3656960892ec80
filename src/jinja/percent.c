/* SPDX-License-Identifier: MIT
 *
 * percent.c: "printf-style String Formatting" of the Python library reference. */
#include "jinja/format.h"

#include "text/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH_MAX = 200, NUMBER_TEXT_MAX = 640 };

typedef struct conversion {
    char flags[8];
    int width, precision; /* -1: none */
    char kind;
} conversion;

static bt_status parse_number(bt_jctx *ctx, bt_str f, size_t *i, int *out)
{
    int value = -1;
    while (*i < f.n && f.p[*i] >= '0' && f.p[*i] <= '9') {
        value = BT_MAX(value, 0) * 10 + (f.p[(*i)++] - '0');
        if (value > WIDTH_MAX) {
            return bt_jctx_fail(ctx, BT_E_LIMIT, "a format wider than %d", WIDTH_MAX);
        }
    }
    *out = value;
    return BT_OK;
}

/* *i follows the percent sign. */
static bt_status parse(bt_jctx *ctx, bt_str f, size_t *i, conversion *c)
{
    size_t n = 0;
    *c = (conversion){.precision = -1};
    while (*i < f.n && f.p[*i] != '\0' && strchr("-0+ #", f.p[*i]) != NULL) {
        if (memchr(c->flags, f.p[*i], n) == NULL) {
            c->flags[n++] = f.p[*i];
        }
        *i += 1;
    }
    BT_TRY(parse_number(ctx, f, i, &c->width));
    if (*i < f.n && f.p[*i] == '.') {
        *i += 1;
        BT_TRY(parse_number(ctx, f, i, &c->precision));
        c->precision = BT_MAX(c->precision, 0);
    }
    c->kind = *i < f.n ? f.p[*i] : '\0';
    *i += 1;
    if (c->kind == '\0' || strchr("srdiufFeEgGxXoc%", c->kind) == NULL) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "unsupported format character after %%");
    }
    return BT_OK;
}

static bt_status pad(bt_jctx *ctx, size_t n, bool trusted, bt_jtext *out)
{
    for (size_t i = 0; i < n; i++) {
        BT_TRY(bt_jtext_push(ctx, out, BT_STR(" "), trusted));
    }
    return BT_OK;
}

static bt_status put_string(bt_jctx *ctx, const conversion *c, bt_jvalue v, bt_jtext *out)
{
    bt_jtext t = {.p = ""};
    BT_TRY(c->kind == 'r' ? bt_jformat_repr(ctx, v, &t) : bt_jformat_str(ctx, v, &t));
    if (c->precision >= 0) {
        BT_TRY(bt_jtext_cut(ctx, &t, 0, bt_jtext_offset(&t, (size_t)c->precision), &t));
    }
    size_t n = bt_jtext_count(&t);
    size_t fill = c->width > 0 && (size_t)c->width > n ? (size_t)c->width - n : 0;
    bool left = strchr(c->flags, '-') != NULL;
    BT_TRY(pad(ctx, left ? 0 : fill, false, out));
    BT_TRY(bt_jtext_append(ctx, out, &t));
    return pad(ctx, left ? fill : 0, false, out);
}

static bt_status put_number(bt_jctx *ctx, const conversion *c, bt_jvalue v, bt_jtext *out)
{
    char spec[32];
    char text[NUMBER_TEXT_MAX];
    double r;
    int64_t i;
    bool real = strchr("fFeEgG", c->kind) != NULL;
    if (!bt_jvalue_as_real(v, &r)) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "%%%c format: a number is required, not %s", c->kind,
                            bt_jvalue_type(v));
    }
    int width = BT_MAX(c->width, 0);
    if (real) {
        (void)snprintf(spec, sizeof spec, "%%%s*.*%c", c->flags, c->kind);
        /* flags and kind come from a fixed set, see parse */
        int precision = c->precision < 0 ? 6 : c->precision;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(text, sizeof text, spec, width, precision, r);
    } else {
        if (!bt_jvalue_as_int(v, &i)) {
            if (!(r > -9.2e18 && r < 9.2e18)) {
                return bt_jctx_fail(ctx, BT_E_FORMAT, "a number too large for %%%c", c->kind);
            }
            i = (int64_t)r;
        }
        (void)snprintf(spec, sizeof spec, "%%%s*.*%s%c", c->flags, "ll",
                       c->kind == 'u' ? 'd' : c->kind);
        (void)snprintf(text, sizeof text, spec, width, c->precision, (long long)i);
#pragma GCC diagnostic pop
    }
    return bt_jtext_push(ctx, out, bt_str_of(text), false);
}

static bt_status put(bt_jctx *ctx, const conversion *c, bt_jvalue v, bt_jtext *out)
{
    if (c->kind == 's' || c->kind == 'r') {
        return put_string(ctx, c, v, out);
    }
    if (c->kind != 'c') {
        return put_number(ctx, c, v, out);
    }
    int64_t code;
    char bytes[4];
    if (v.kind == BT_JVAL_STR && bt_jtext_count(v.as.text) == 1) {
        return put_string(ctx, c, v, out);
    }
    if (!bt_jvalue_as_int(v, &code) || code < 0 || code > 0x10FFFF ||
        (code >= 0xD800 && code <= 0xDFFF)) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "%%c requires a character");
    }
    int n = bt_utf8_encode((uint32_t)code, bytes);
    return bt_jtext_push(ctx, out, (bt_str){bytes, (size_t)n}, false);
}

bt_status bt_jformat_percent(bt_jctx *ctx, const bt_jtext *format, const bt_jvalue *args,
                             size_t n_args, bt_jtext *out)
{
    bt_str f = bt_jtext_bytes(format);
    size_t used = 0;
    size_t i = 0;
    *out = (bt_jtext){.p = ""};
    while (i < f.n) {
        const char *percent = memchr(f.p + i, '%', f.n - i);
        size_t stop = percent == NULL ? f.n : (size_t)(percent - f.p);
        bt_jtext piece;
        BT_TRY(bt_jtext_cut(ctx, format, i, stop, &piece));
        BT_TRY(bt_jtext_append(ctx, out, &piece));
        if (stop == f.n) {
            break;
        }
        conversion c;
        i = stop + 1;
        BT_TRY(parse(ctx, f, &i, &c));
        if (c.kind == '%') {
            BT_TRY(bt_jtext_push(ctx, out, BT_STR("%"), bt_jtext_trusted_at(format, stop)));
            continue;
        }
        if (used == n_args) {
            return bt_jctx_fail(ctx, BT_E_FORMAT, "not enough arguments for format string");
        }
        BT_TRY(put(ctx, &c, args[used++], out));
    }
    if (used < n_args) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "not all arguments converted during formatting");
    }
    return BT_OK;
}
