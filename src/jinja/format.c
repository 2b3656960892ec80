/* SPDX-License-Identifier: MIT
 *
 * format.c: str() and repr() after the Python library reference; the recursion over lists and dicts
 * is bounded by BT_JINJA_VALUE_DEPTH_MAX. */
#include "jinja/format.h"

#include "text/casemap.h"
#include "text/real.h"
#include "text/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bt_status pushz(bt_jctx *ctx, bt_jtext *out, const char *text)
{
    return bt_jtext_push(ctx, out, bt_str_of(text), false);
}

static bt_status repr_value(bt_jctx *ctx, bt_jvalue v, int depth, bt_jtext *out);

/* The escape of a character inside a quoted string; n = 0: it stands for itself. */
static int escape_of(uint32_t c, char quote, char escape[12])
{
    const char *hit = c < 0x80 && c != 0 ? strchr("\n\r\t\\", (int)c) : NULL;
    if (hit != NULL) {
        return snprintf(escape, 12, "\\%c",
                        c == '\n'   ? 'n'
                        : c == '\r' ? 'r'
                        : c == '\t' ? 't'
                                    : '\\');
    }
    if (c == (uint32_t)(unsigned char)quote) {
        return snprintf(escape, 12, "\\%c", quote);
    }
    if ((c >= 0x20 && c < 0x7F) || (c >= 0x80 && bt_case_is_printable(c))) {
        return 0;
    }
    return c < 0x100     ? snprintf(escape, 12, "\\x%02" PRIx32, c)
           : c < 0x10000 ? snprintf(escape, 12, "\\u%04" PRIx32, c)
                         : snprintf(escape, 12, "\\U%08" PRIx32, c);
}

static bt_status repr_string(bt_jctx *ctx, const bt_jtext *text, bt_jtext *out)
{
    bt_str s = bt_jtext_bytes(text);
    bool single = s.n > 0 && memchr(s.p, '\'', s.n) != NULL;
    bool both = single && memchr(s.p, '"', s.n) != NULL;
    char quote[2] = {single && !both ? '"' : '\'', '\0'};
    BT_TRY(pushz(ctx, out, text->markup ? "Markup(" : ""));
    BT_TRY(pushz(ctx, out, quote));
    size_t start = 0;
    for (size_t i = 0; i < s.n;) {
        uint32_t c = 0;
        char escape[12];
        size_t n = (size_t)bt_utf8_decode(s.p + i, s.n - i, &c);
        BT_ASSERT(n > 0);
        int len = escape_of(c, quote[0], escape);
        if (len > 0) {
            BT_TRY(bt_jtext_push(ctx, out, (bt_str){s.p + start, i - start}, false));
            BT_TRY(bt_jtext_push(ctx, out, (bt_str){escape, (size_t)len}, false));
            start = i + n;
        }
        i += n;
    }
    BT_TRY(bt_jtext_push(ctx, out, (bt_str){s.p + start, s.n - start}, false));
    BT_TRY(pushz(ctx, out, quote));
    return pushz(ctx, out, text->markup ? ")" : "");
}

static bt_status repr_list(bt_jctx *ctx, const bt_jlist *list, int depth, bt_jtext *out)
{
    static const char *const opens[] = {"[",           "(", "", "dict_keys([", "dict_values([",
                                        "dict_items(["};
    static const char *const closes[] = {"]", ")", "", "])", "])", "])"};
    if (list->kind == BT_JLIST_RANGE) {
        char text[80];
        int64_t first = list->n > 0 ? list->items[0].as.i : 0;
        int64_t step = list->n > 1 ? list->items[1].as.i - first : 1;
        (void)snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64, first,
                       first + step * (int64_t)list->n);
        BT_TRY(pushz(ctx, out, text));
        (void)snprintf(text, sizeof text, ", %" PRId64 ")", step);
        return pushz(ctx, out, step == 1 ? ")" : text);
    }
    BT_TRY(pushz(ctx, out, opens[list->kind]));
    for (size_t i = 0; i < list->n; i++) {
        BT_TRY(pushz(ctx, out, i > 0 ? ", " : ""));
        BT_TRY(repr_value(ctx, list->items[i], depth + 1, out));
    }
    bool lone = list->kind == BT_JLIST_TUPLE && list->n == 1;
    BT_TRY(pushz(ctx, out, lone ? "," : ""));
    return pushz(ctx, out, closes[list->kind]);
}

static bt_status repr_dict(bt_jctx *ctx, const bt_jdict *dict, int depth, bt_jtext *out)
{
    BT_TRY(pushz(ctx, out, "{"));
    for (size_t i = 0; i < dict->n; i++) {
        BT_TRY(pushz(ctx, out, i > 0 ? ", " : ""));
        BT_TRY(repr_value(ctx, dict->pairs[i].key, depth + 1, out));
        BT_TRY(pushz(ctx, out, ": "));
        BT_TRY(repr_value(ctx, dict->pairs[i].value, depth + 1, out));
    }
    return pushz(ctx, out, "}");
}

static bt_status repr_value(bt_jctx *ctx, bt_jvalue v, int depth, bt_jtext *out)
{
    char text[BT_REAL_TEXT_MAX];
    BT_TRY(bt_jctx_charge(ctx, 0));
    if (depth > BT_JINJA_VALUE_DEPTH_MAX) {
        return bt_jctx_fail(ctx, BT_E_LIMIT, "a value nested deeper than %d levels",
                            BT_JINJA_VALUE_DEPTH_MAX);
    }
    switch (v.kind) {
    case BT_JVAL_UNDEF:
        return pushz(ctx, out, "Undefined");
    case BT_JVAL_NONE:
        return pushz(ctx, out, "None");
    case BT_JVAL_BOOL:
        return pushz(ctx, out, v.as.b ? "True" : "False");
    case BT_JVAL_INT:
        (void)snprintf(text, sizeof text, "%" PRId64, v.as.i);
        return pushz(ctx, out, text);
    case BT_JVAL_REAL:
        (void)bt_real_format(v.as.r, text);
        return pushz(ctx, out, text);
    case BT_JVAL_STR:
        return repr_string(ctx, v.as.text, out);
    case BT_JVAL_LIST:
        return repr_list(ctx, v.as.list, depth, out);
    case BT_JVAL_DICT:
        return repr_dict(ctx, v.as.dict, depth, out);
    case BT_JVAL_NS:
        BT_TRY(pushz(ctx, out, "<Namespace "));
        BT_TRY(repr_dict(ctx, v.as.dict, depth, out));
        return pushz(ctx, out, ">");
    default:
        return bt_jctx_fail(ctx, BT_E_FORMAT, "a value of type '%s' cannot be printed",
                            bt_jvalue_type(v));
    }
}

bt_status bt_jformat_repr(bt_jctx *ctx, bt_jvalue v, bt_jtext *out)
{
    return repr_value(ctx, v, 0, out);
}

bt_status bt_jformat_str(bt_jctx *ctx, bt_jvalue v, bt_jtext *out)
{
    *out = (bt_jtext){.p = ""};
    if (v.kind == BT_JVAL_STR) {
        *out = *v.as.text;
        return BT_OK;
    }
    return v.kind == BT_JVAL_UNDEF ? BT_OK : repr_value(ctx, v, 0, out);
}
