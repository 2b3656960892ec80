/* SPDX-License-Identifier: MIT
 *
 * filters.c: filters of single values: text, numbers, JSON. */
#include "jinja/builtin.h"

#include "jinja/format.h"
#include "jinja/ops.h"
#include "jinja/textops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bt_status change_case(bt_jctx *ctx, bt_jvalue self, bt_jcase how, bt_jvalue *out)
{
    bt_jtext t;
    BT_TRY(bt_jformat_str(ctx, self, &t));
    BT_TRY(bt_jtextop_case(ctx, &t, how, &t));
    return bt_jtextop_value(ctx, &t, out);
}

static bt_status filter_upper(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    return change_case(ctx, self, BT_JCASE_UPPER, out);
}

static bt_status filter_lower(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    return change_case(ctx, self, BT_JCASE_LOWER, out);
}

static bt_status filter_title(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    return change_case(ctx, self, BT_JCASE_TITLE_FILTER, out);
}

static bt_status filter_capitalize(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args,
                                   bt_jvalue *out)
{
    (void)args;
    return change_case(ctx, self, BT_JCASE_CAPITALIZE, out);
}

static bt_status filter_string(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    bt_jtext t;
    (void)args;
    BT_TRY(bt_jformat_str(ctx, self, &t));
    return bt_jtextop_value(ctx, &t, out);
}

static bt_status filter_trim(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    bt_jtext t;
    bool set = args[0].kind != BT_JVAL_UNSET && args[0].kind != BT_JVAL_NONE;
    if (set && args[0].kind != BT_JVAL_STR) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "trim takes a string of characters, not %s",
                            bt_jvalue_type(args[0]));
    }
    BT_TRY(bt_jformat_str(ctx, self, &t));
    BT_TRY(bt_jtextop_strip(ctx, &t, set ? args[0].as.text : NULL, true, true, &t));
    return bt_jtextop_value(ctx, &t, out);
}

static bt_status filter_replace(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    bt_jtext t;
    bt_jtext old;
    bt_jtext fresh;
    int64_t max = -1;
    BT_TRY(bt_jformat_str(ctx, self, &t));
    BT_TRY(bt_jformat_str(ctx, args[0], &old));
    BT_TRY(bt_jformat_str(ctx, args[1], &fresh));
    (void)bt_jvalue_as_int(args[2], &max);
    bt_jtext result;
    BT_TRY(bt_jtextop_replace(ctx, &t, &old, &fresh, max, &result));
    return bt_jtextop_value(ctx, &result, out);
}

/* `indent` blanks or the text itself. */
static bt_status indent_text(bt_jctx *ctx, bt_jvalue arg, int64_t missing, bt_jtext *out)
{
    int64_t width = missing;
    *out = (bt_jtext){.p = "", .trusted = true};
    if (arg.kind == BT_JVAL_STR) {
        *out = *arg.as.text;
        return BT_OK;
    }
    if (arg.kind != BT_JVAL_UNSET && !bt_jvalue_as_int(arg, &width)) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "an indentation must be a number or text, not %s",
                            bt_jvalue_type(arg));
    }
    const bt_jtext blank = {.p = " ", .n = 1, .trusted = true};
    for (int64_t i = 0; i < width; i++) {
        BT_TRY(bt_jtext_append(ctx, out, &blank));
    }
    return BT_OK;
}

static bt_status filter_indent(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    bt_jtext t;
    bt_jtext indent;
    bt_jtext result = {.p = ""};
    bt_jlist *lines;
    const bt_jtext newline = {.p = "\n", .n = 1, .trusted = true};
    bool first = bt_jvalue_truth(args[1]);
    bool blank = bt_jvalue_truth(args[2]);
    BT_TRY(bt_jformat_str(ctx, self, &t));
    BT_TRY(indent_text(ctx, args[0], 4, &indent));
    bt_jtext ended = t;
    BT_TRY(bt_jtext_append(ctx, &ended, &newline));
    BT_TRY(bt_jtextop_lines(ctx, &ended, false, &lines));
    for (size_t i = 0; i < lines->n; i++) {
        const bt_jtext *line = lines->items[i].as.text;
        bool indented = i == 0 ? first : blank || line->n > 0;
        if (i > 0) {
            BT_TRY(bt_jtext_append(ctx, &result, &newline));
        }
        if (indented) {
            BT_TRY(bt_jtext_append(ctx, &result, &indent));
        }
        BT_TRY(bt_jtext_append(ctx, &result, line));
    }
    return bt_jtextop_value(ctx, &result, out);
}

static bt_status filter_safe(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    bt_jtext t;
    (void)args;
    BT_TRY(bt_jformat_str(ctx, self, &t));
    t.markup = true;
    return bt_jtextop_value(ctx, &t, out);
}

static bt_status filter_forceescape(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args,
                                    bt_jvalue *out)
{
    bt_jtext t;
    (void)args;
    BT_TRY(bt_jformat_str(ctx, self, &t));
    BT_TRY(bt_jtextop_escape(ctx, &t, &t));
    return bt_jtextop_value(ctx, &t, out);
}

static bt_status filter_escape(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    bool done = self.kind == BT_JVAL_STR && self.as.text->markup;
    *out = self;
    return done ? BT_OK : filter_forceescape(ctx, self, args, out);
}

static bt_status filter_default(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    bool missing =
        self.kind == BT_JVAL_UNDEF || (bt_jvalue_truth(args[1]) && !bt_jvalue_truth(self));
    if (missing && args[0].kind == BT_JVAL_UNSET) {
        return bt_jvalue_str(ctx, BT_STR(""), true, out);
    }
    *out = missing ? args[0] : self;
    return BT_OK;
}

/* The two separators of json.dumps as a list or tuple. */
static bt_status json_separators(bt_jctx *ctx, bt_jvalue v, bt_jdumps *options)
{
    bool pair = v.kind == BT_JVAL_LIST && v.as.list->n == 2 &&
                v.as.list->items[0].kind == BT_JVAL_STR && v.as.list->items[1].kind == BT_JVAL_STR;
    if (!pair) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "separators must be two strings");
    }
    options->item_separator = bt_jvalue_bytes(v.as.list->items[0]);
    options->key_separator = bt_jvalue_bytes(v.as.list->items[1]);
    return BT_OK;
}

static bt_status filter_tojson(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    bt_jdumps options = {.ensure_ascii = bt_jvalue_truth(args[0]),
                         .sort_keys = bt_jvalue_truth(args[3]),
                         .item_separator = BT_STR(", "),
                         .key_separator = BT_STR(": ")};
    bt_jtext indent;
    bt_jtext t = {.p = ""};
    options.indented = args[1].kind != BT_JVAL_UNSET && args[1].kind != BT_JVAL_NONE;
    if (options.indented) {
        BT_TRY(indent_text(ctx, args[1], 0, &indent));
        options.indent = bt_jtext_bytes(&indent);
        options.item_separator = BT_STR(",");
    }
    if (args[2].kind != BT_JVAL_UNSET && args[2].kind != BT_JVAL_NONE) {
        BT_TRY(json_separators(ctx, args[2], &options));
    }
    BT_TRY(bt_jformat_json(ctx, self, &options, &t));
    return bt_jtextop_value(ctx, &t, out);
}

static bt_status filter_length(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    out->kind = BT_JVAL_INT;
    return bt_jvalue_length(ctx, self, &out->as.i);
}

static bt_status filter_abs(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    double r;
    (void)args;
    bool negative = bt_jvalue_as_real(self, &r) && r < 0;
    return bt_jop_sign(ctx, negative, self, out);
}

/* Reads a whole text as a number, white space around it allowed; false when it is none. */
static bool read_number(bt_str s, int base, bool *is_int, int64_t *i, double *r)
{
    char text[64];
    char *end;
    while (s.n > 0 && strchr(" \t\n\r\v\f", s.p[0]) != NULL && s.p[0] != '\0') {
        s = (bt_str){s.p + 1, s.n - 1};
    }
    while (s.n > 0 && s.p[s.n - 1] != '\0' && strchr(" \t\n\r\v\f", s.p[s.n - 1]) != NULL) {
        s.n--;
    }
    if (s.n == 0 || s.n >= sizeof text || memchr(s.p, '\0', s.n) != NULL) {
        return false;
    }
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    *i = strtoll(text, &end, base);
    *is_int = *end == '\0' && *i != INT64_MAX && *i != INT64_MIN;
    if (*is_int) {
        return true;
    }
    *r = strtod(text, &end);
    return *end == '\0' && strpbrk(text, "xXpP") == NULL;
}

static bt_status filter_int(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    int64_t base = 10;
    int64_t i = 0;
    double r = 0;
    bool is_int = bt_jvalue_as_int(self, &i);
    bool ok = is_int || bt_jvalue_as_real(self, &r);
    (void)bt_jvalue_as_int(args[1], &base);
    if (base < 2 || base > 36) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "int: the base must be 2 to 36");
    }
    if (self.kind == BT_JVAL_UNDEF) {
        return bt_jvalue_fail_undef(ctx, self);
    }
    if (self.kind == BT_JVAL_STR) {
        ok = read_number(bt_jvalue_bytes(self), (int)base, &is_int, &i, &r);
    }
    if (ok && !is_int) {
        ok = r > -9.2e18 && r < 9.2e18;
        i = ok ? (int64_t)r : 0;
    }
    *out = ok ? bt_jvalue_int(i) : args[0].kind == BT_JVAL_UNSET ? bt_jvalue_int(0) : args[0];
    return BT_OK;
}

static bt_status filter_float(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    int64_t i = 0;
    double r = 0;
    bool is_int = false;
    bool ok = bt_jvalue_as_real(self, &r);
    if (self.kind == BT_JVAL_UNDEF) {
        return bt_jvalue_fail_undef(ctx, self);
    }
    if (self.kind == BT_JVAL_STR) {
        ok = read_number(bt_jvalue_bytes(self), 10, &is_int, &i, &r);
        r = is_int ? (double)i : r;
    }
    *out = ok ? bt_jvalue_real(r) : args[0].kind == BT_JVAL_UNSET ? bt_jvalue_real(0) : args[0];
    return BT_OK;
}

static bt_status filter_round(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    double r;
    int64_t precision = 0;
    char text[400];
    bool common = args[1].kind == BT_JVAL_UNSET;
    bool ceil_it = false;
    (void)bt_jvalue_as_int(args[0], &precision);
    if (args[1].kind == BT_JVAL_STR) {
        bt_str how = bt_jvalue_bytes(args[1]);
        common = bt_str_eqz(how, "common");
        ceil_it = bt_str_eqz(how, "ceil");
        if (!common && !ceil_it && !bt_str_eqz(how, "floor")) {
            return bt_jctx_fail(ctx, BT_E_FORMAT, "round: method must be common, ceil or floor");
        }
    }
    if (!bt_jvalue_as_real(self, &r) || precision < 0 || precision > 20) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "round: a number and 0 to 20 digits are expected");
    }
    if (common && self.kind != BT_JVAL_REAL) {
        return bt_jop_sign(ctx, false, self, out);
    }
    if (common) {
        /* printf rounds the exact value to even, as Python does. */
        (void)snprintf(text, sizeof text, "%.*f", (int)precision, r);
        *out = bt_jvalue_real(strtod(text, NULL));
        return BT_OK;
    }
    double scale = pow(10, (double)precision);
    *out = bt_jvalue_real((ceil_it ? ceil(r * scale) : floor(r * scale)) / scale);
    return BT_OK;
}

static bt_status filter_format(bt_jctx *ctx, bt_jvalue self, const bt_jcall *call, bt_jvalue *out)
{
    bt_jtext format;
    bt_jtext t;
    if (call->n_named > 0) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "format takes no named arguments here");
    }
    BT_TRY(bt_jformat_str(ctx, self, &format));
    BT_TRY(bt_jformat_percent(ctx, &format, call->pos, (size_t)call->n_pos, &t));
    return bt_jtextop_value(ctx, &t, out);
}

static bt_status filter_attr(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    bt_jtext name;
    BT_TRY(bt_jformat_str(ctx, args[0], &name));
    return bt_jop_attr(ctx, self, bt_jtext_bytes(&name), out);
}

static bt_status filter_center(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    int64_t width = 80;
    bt_jtext t;
    bt_jtext result = {.p = ""};
    const bt_jtext blank = {.p = " ", .n = 1, .trusted = true};
    (void)bt_jvalue_as_int(args[0], &width);
    BT_TRY(bt_jformat_str(ctx, self, &t));
    int64_t n = (int64_t)bt_jtext_count(&t);
    int64_t fill = BT_MAX(width - n, 0);
    /* str.center() puts the odd blank to the left when the width is odd. */
    int64_t left = fill / 2 + (fill & width & 1);
    for (int64_t i = 0; i < fill; i++) {
        if (i == left) {
            BT_TRY(bt_jtext_append(ctx, &result, &t));
        }
        BT_TRY(bt_jtext_append(ctx, &result, &blank));
    }
    if (left == fill) {
        BT_TRY(bt_jtext_append(ctx, &result, &t));
    }
    return bt_jtextop_value(ctx, &result, out);
}

static const bt_jbuiltin filters[] = {
    {"abs", filter_abs, "", 0, NULL},
    {"attr", filter_attr, "name", 1, NULL},
    {"capitalize", filter_capitalize, "", 0, NULL},
    {"center", filter_center, "width", 0, NULL},
    {"count", filter_length, "", 0, NULL},
    {"d", filter_default, "default_value,boolean", 0, NULL},
    {"default", filter_default, "default_value,boolean", 0, NULL},
    {"e", filter_escape, "", 0, NULL},
    {"escape", filter_escape, "", 0, NULL},
    {"float", filter_float, "default", 0, NULL},
    {"forceescape", filter_forceescape, "", 0, NULL},
    {"format", NULL, "", 0, filter_format},
    {"indent", filter_indent, "width,first,blank", 0, NULL},
    {"int", filter_int, "default,base", 0, NULL},
    {"length", filter_length, "", 0, NULL},
    {"lower", filter_lower, "", 0, NULL},
    {"replace", filter_replace, "old,new,count", 2, NULL},
    {"round", filter_round, "precision,method", 0, NULL},
    {"safe", filter_safe, "", 0, NULL},
    {"string", filter_string, "", 0, NULL},
    {"title", filter_title, "", 0, NULL},
    {"tojson", filter_tojson, "ensure_ascii,indent,separators,sort_keys", 0, NULL},
    {"trim", filter_trim, "chars", 0, NULL},
    {"upper", filter_upper, "", 0, NULL},
};

const bt_jbuiltin *bt_jbuiltin_filter(bt_str name)
{
    const bt_jbuiltin *found = bt_jbuiltin_find(filters, BT_COUNT(filters), name);
    return found != NULL ? found : bt_jbuiltin_seqfilter(name);
}
