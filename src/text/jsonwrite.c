/* SPDX-License-Identifier: MIT
 *
 * jsonwrite.c: compact JSON, from a tree or call by call. Output is always valid UTF-8. */
#include "text/json.h"

#include "text/real.h"
#include "text/utf8.h"

#include <inttypes.h>
#include <math.h>

static void push_escape(bt_buf *out, unsigned char c)
{
    static const char short_form[32] = {
        ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
    if (c == '"' || c == '\\') {
        bt_buf_push_char(out, '\\');
        bt_buf_push_char(out, (char)c);
    } else if (short_form[c] != '\0') {
        bt_buf_push_char(out, '\\');
        bt_buf_push_char(out, short_form[c]);
    } else {
        bt_buf_printf(out, "\\u%04x", c);
    }
}

static void push_string(bt_buf *out, bt_str s)
{
    bt_buf_push_char(out, '"');
    size_t start = 0;
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c < 0x20 || c == '"' || c == '\\') {
            bt_utf8_push_lossy(out, (bt_str){s.p + start, i - start});
            push_escape(out, c);
            start = i + 1;
        }
    }
    if (start < s.n) {
        bt_utf8_push_lossy(out, (bt_str){s.p + start, s.n - start});
    }
    bt_buf_push_char(out, '"');
}

static void push_real(bt_buf *out, double value)
{
    char text[BT_REAL_TEXT_MAX];
    if (isfinite(value)) {
        bt_buf_push(out, text, bt_real_format(value, text));
    } else {
        bt_buf_pushz(out, "null");
    }
}

static void push_array(bt_buf *out, const bt_json *array)
{
    size_t n = bt_json_count(array);
    bt_buf_push_char(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i > 0) {
            bt_buf_push_char(out, ',');
        }
        bt_json_dump(bt_json_at(array, i), out);
    }
    bt_buf_push_char(out, ']');
}

static void push_object(bt_buf *out, const bt_json *object)
{
    void *iter = NULL;
    bt_str key;
    const bt_json *member;
    bool first = true;
    bt_buf_push_char(out, '{');
    while (bt_json_next(object, &iter, &key, &member)) {
        if (!first) {
            bt_buf_push_char(out, ',');
        }
        first = false;
        push_string(out, key);
        bt_buf_push_char(out, ':');
        bt_json_dump(member, out);
    }
    bt_buf_push_char(out, '}');
}

/* Recursion is bounded: a tree comes from bt_json_parse and has at most BT_JSON_DEPTH_MAX levels. */
void bt_json_dump(const bt_json *value, bt_buf *out)
{
    switch (bt_json_kind_of(value)) {
    case BT_JSON_NULL:
        bt_buf_pushz(out, "null");
        break;
    case BT_JSON_BOOL:
        bt_buf_pushz(out, bt_json_bool(value) ? "true" : "false");
        break;
    case BT_JSON_INT:
        bt_buf_printf(out, "%" PRId64, bt_json_int(value));
        break;
    case BT_JSON_REAL:
        push_real(out, bt_json_real(value));
        break;
    case BT_JSON_STRING:
        push_string(out, bt_json_str(value));
        break;
    case BT_JSON_ARRAY:
        push_array(out, value);
        break;
    case BT_JSON_OBJECT:
        push_object(out, value);
        break;
    }
}

void bt_jsonw_init(bt_jsonw *w, bt_buf *out)
{
    *w = (bt_jsonw){.out = out};
}

static void begin_item(bt_jsonw *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->comma[w->depth]) {
        bt_buf_push_char(w->out, ',');
    }
    w->comma[w->depth] = true;
}

void bt_jsonw_open(bt_jsonw *w, char bracket)
{
    BT_ASSERT(bracket == '{' || bracket == '[');
    BT_ASSERT(w->depth < BT_JSON_DEPTH_MAX);
    begin_item(w);
    bt_buf_push_char(w->out, bracket);
    w->comma[++w->depth] = false;
}

void bt_jsonw_close(bt_jsonw *w, char bracket)
{
    BT_ASSERT(bracket == '}' || bracket == ']');
    BT_ASSERT(w->depth > 0);
    BT_ASSERT(!w->after_key);
    bt_buf_push_char(w->out, bracket);
    w->depth--;
}

void bt_jsonw_key(bt_jsonw *w, const char *key)
{
    BT_ASSERT(!w->after_key);
    begin_item(w);
    push_string(w->out, bt_str_of(key));
    bt_buf_push_char(w->out, ':');
    w->after_key = true;
}

void bt_jsonw_str(bt_jsonw *w, bt_str value)
{
    begin_item(w);
    push_string(w->out, value);
}

void bt_jsonw_strz(bt_jsonw *w, const char *value)
{
    bt_jsonw_str(w, bt_str_of(value));
}

void bt_jsonw_int(bt_jsonw *w, int64_t value)
{
    begin_item(w);
    bt_buf_printf(w->out, "%" PRId64, value);
}

void bt_jsonw_real(bt_jsonw *w, double value)
{
    begin_item(w);
    push_real(w->out, value);
}

void bt_jsonw_bool(bt_jsonw *w, bool value)
{
    begin_item(w);
    bt_buf_pushz(w->out, value ? "true" : "false");
}

void bt_jsonw_null(bt_jsonw *w)
{
    begin_item(w);
    bt_buf_pushz(w->out, "null");
}

void bt_jsonw_raw(bt_jsonw *w, bt_str json)
{
    begin_item(w);
    bt_buf_push_str(w->out, json);
}
