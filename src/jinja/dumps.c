/* SPDX-License-Identifier: MIT
 *
 * dumps.c: json.dumps() of Python's library reference, for the filter tojson. */
#include "jinja/format.h"
#include "jinja/sort.h"

#include "text/real.h"
#include "text/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct dumper {
    bt_jctx *ctx;
    const bt_jdumps *options;
    bt_jtext *out;
} dumper;

static bt_status push(dumper *d, bt_str s)
{
    return bt_jtext_push(d->ctx, d->out, s, false);
}

static bt_status pushz(dumper *d, const char *text)
{
    return push(d, bt_str_of(text));
}

static int escape_of(uint32_t c, bool ensure_ascii, char escape[16])
{
    static const char names[] = "\b\f\n\r\t\"\\";
    static const char codes[] = "bfnrt\"\\";
    const char *hit = c < 0x80 && c != 0 ? strchr(names, (int)c) : NULL;
    if (hit != NULL) {
        return snprintf(escape, 16, "\\%c", codes[hit - names]);
    }
    if (c >= 0x20 && (c < 0x7F || !ensure_ascii || c == 0x7F)) {
        return 0;
    }
    if (c < 0x10000) {
        return snprintf(escape, 16, "\\u%04" PRIx32, c);
    }
    c -= 0x10000;
    return snprintf(escape, 16, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xD800 + (c >> 10),
                    0xDC00 + (c & 0x3FF));
}

static bt_status dump_string(dumper *d, bt_str s)
{
    BT_TRY(pushz(d, "\""));
    size_t start = 0;
    for (size_t i = 0; i < s.n;) {
        uint32_t c = 0;
        char escape[16];
        size_t n = (size_t)bt_utf8_decode(s.p + i, s.n - i, &c);
        BT_ASSERT(n > 0);
        int len = escape_of(c, d->options->ensure_ascii, escape);
        if (len > 0) {
            BT_TRY(push(d, (bt_str){s.p + start, i - start}));
            BT_TRY(push(d, (bt_str){escape, (size_t)len}));
            start = i + n;
        }
        i += n;
    }
    BT_TRY(push(d, (bt_str){s.p + start, s.n - start}));
    return pushz(d, "\"");
}

static bt_status new_line(dumper *d, int depth)
{
    if (!d->options->indented) {
        return BT_OK;
    }
    BT_TRY(pushz(d, "\n"));
    for (int i = 0; i < depth; i++) {
        BT_TRY(push(d, d->options->indent));
    }
    return BT_OK;
}

/* A number, true, false or null; out[0] = '\0' when v is none of them. */
static void scalar_text(bt_jvalue v, char out[BT_REAL_TEXT_MAX])
{
    out[0] = '\0';
    if (v.kind == BT_JVAL_NONE) {
        strcpy(out, "null");
    } else if (v.kind == BT_JVAL_BOOL) {
        strcpy(out, v.as.b ? "true" : "false");
    } else if (v.kind == BT_JVAL_INT) {
        (void)snprintf(out, BT_REAL_TEXT_MAX, "%" PRId64, v.as.i);
    } else if (v.kind == BT_JVAL_REAL && isfinite(v.as.r)) {
        (void)bt_real_format(v.as.r, out);
    } else if (v.kind == BT_JVAL_REAL) {
        strcpy(out, isnan(v.as.r) ? "NaN" : v.as.r < 0 ? "-Infinity" : "Infinity");
    }
}

static bt_status dump_value(dumper *d, bt_jvalue v, int depth);

static bt_status dump_key(dumper *d, bt_jvalue key)
{
    char text[BT_REAL_TEXT_MAX];
    if (key.kind == BT_JVAL_STR) {
        return dump_string(d, bt_jvalue_bytes(key));
    }
    scalar_text(key, text);
    if (text[0] == '\0') {
        return bt_jctx_fail(d->ctx, BT_E_FORMAT, "keys must be strings or numbers, not %s",
                            bt_jvalue_type(key));
    }
    return dump_string(d, bt_str_of(text));
}

static bt_status dump_dict(dumper *d, const bt_jdict *dict, int depth)
{
    size_t *order = NULL;
    if (dict->n == 0) {
        return pushz(d, "{}");
    }
    if (d->options->sort_keys) {
        bt_jlist *keys;
        BT_TRY(bt_jdict_view(d->ctx, dict, BT_JLIST_KEYS, &keys));
        BT_TRY(bt_jsort_order(d->ctx, keys->items, keys->n, false, &order));
    }
    BT_TRY(pushz(d, "{"));
    for (size_t i = 0; i < dict->n; i++) {
        const bt_jpair *pair = &dict->pairs[order != NULL ? order[i] : i];
        BT_TRY(push(d, i > 0 ? d->options->item_separator : BT_STR("")));
        BT_TRY(new_line(d, depth + 1));
        BT_TRY(dump_key(d, pair->key));
        BT_TRY(push(d, d->options->key_separator));
        BT_TRY(dump_value(d, pair->value, depth + 1));
    }
    BT_TRY(new_line(d, depth));
    return pushz(d, "}");
}

static bt_status dump_list(dumper *d, const bt_jlist *list, int depth)
{
    if (list->n == 0) {
        return pushz(d, "[]");
    }
    BT_TRY(pushz(d, "["));
    for (size_t i = 0; i < list->n; i++) {
        BT_TRY(push(d, i > 0 ? d->options->item_separator : BT_STR("")));
        BT_TRY(new_line(d, depth + 1));
        BT_TRY(dump_value(d, list->items[i], depth + 1));
    }
    BT_TRY(new_line(d, depth));
    return pushz(d, "]");
}

static bt_status dump_value(dumper *d, bt_jvalue v, int depth)
{
    char text[BT_REAL_TEXT_MAX];
    BT_TRY(bt_jctx_charge(d->ctx, 0));
    if (depth > BT_JINJA_VALUE_DEPTH_MAX) {
        return bt_jctx_fail(d->ctx, BT_E_LIMIT, "a value nested deeper than %d levels",
                            BT_JINJA_VALUE_DEPTH_MAX);
    }
    scalar_text(v, text);
    if (text[0] != '\0') {
        return pushz(d, text);
    }
    if (v.kind == BT_JVAL_STR) {
        return dump_string(d, bt_jvalue_bytes(v));
    }
    if (v.kind == BT_JVAL_DICT) {
        return dump_dict(d, v.as.dict, depth);
    }
    if (v.kind == BT_JVAL_LIST && v.as.list->kind <= BT_JLIST_TUPLE) {
        return dump_list(d, v.as.list, depth);
    }
    return bt_jctx_fail(d->ctx, BT_E_FORMAT, "a value of type '%s' cannot be written as JSON",
                        bt_jvalue_type(v));
}

bt_status bt_jformat_json(bt_jctx *ctx, bt_jvalue v, const bt_jdumps *options, bt_jtext *out)
{
    dumper d = {ctx, options, out};
    return dump_value(&d, v, 0);
}
