/* SPDX-License-Identifier: MIT
 *
 * functions.c: the functions that a template finds: range, dict, namespace of Jinja2, and
 * raise_exception, strftime_now of the transformers library. */
#include "jinja/builtin.h"

#include "jinja/format.h"
#include "jinja/textops.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static bt_status func_range(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    int64_t v[3] = {0, 0, 1};
    (void)self;
    for (int i = 0; i < 3; i++) {
        if (args[i].kind != BT_JVAL_UNSET && !bt_jvalue_as_int(args[i], &v[i])) {
            return bt_jctx_fail(ctx, BT_E_FORMAT, "range: '%s' is no integer",
                                bt_jvalue_type(args[i]));
        }
    }
    if (args[1].kind == BT_JVAL_UNSET) {
        v[1] = v[0];
        v[0] = 0;
    }
    if (v[2] == 0) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "range: the step must not be zero");
    }
    /* In unsigned arithmetic: the distance of two 64-bit numbers always fits. */
    bool up = v[2] > 0;
    uint64_t distance = up ? (uint64_t)v[1] - (uint64_t)v[0] : (uint64_t)v[0] - (uint64_t)v[1];
    uint64_t step = up ? (uint64_t)v[2] : 0 - (uint64_t)v[2];
    bool empty = up ? v[1] <= v[0] : v[1] >= v[0];
    uint64_t n = empty ? 0 : (distance - 1) / step + 1;
    if (n > BT_JINJA_RANGE_MAX) {
        return bt_jctx_fail(ctx, BT_E_LIMIT, "a range of more than %d numbers", BT_JINJA_RANGE_MAX);
    }
    bt_jlist *list;
    BT_TRY(bt_jvalue_new_list(ctx, BT_JLIST_RANGE, n, &list));
    for (size_t i = 0; i < n; i++) {
        list->items[i] = bt_jvalue_int(v[0] + (int64_t)i * v[2]);
    }
    *out = bt_jvalue_list(list);
    return BT_OK;
}

/* dict(mapping or pairs, name=value …) */
static bt_status make_dict(bt_jctx *ctx, const bt_jcall *call, bt_jdict **out)
{
    bt_jdict *dict;
    BT_TRY(bt_jctx_new(ctx, 1, sizeof *dict, &dict));
    if (call->n_pos > 1) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "dict takes at most one positional argument");
    }
    if (call->n_pos == 1 && call->pos[0].kind == BT_JVAL_DICT) {
        const bt_jdict *from = call->pos[0].as.dict;
        for (size_t i = 0; i < from->n; i++) {
            BT_TRY(bt_jdict_set(ctx, dict, from->pairs[i].key, from->pairs[i].value));
        }
    } else if (call->n_pos == 1) {
        const bt_jlist *items;
        BT_TRY(bt_jvalue_items(ctx, call->pos[0], &items));
        for (size_t i = 0; i < items->n; i++) {
            const bt_jlist *pair;
            BT_TRY(bt_jvalue_items(ctx, items->items[i], &pair));
            if (pair->n != 2) {
                return bt_jctx_fail(ctx, BT_E_FORMAT, "dict: an item is no pair");
            }
            BT_TRY(bt_jdict_set(ctx, dict, pair->items[0], pair->items[1]));
        }
    }
    for (int i = 0; i < call->n_named; i++) {
        bt_jvalue key;
        BT_TRY(bt_jvalue_str(ctx, call->names[i], true, &key));
        BT_TRY(bt_jdict_set(ctx, dict, key, call->named[i]));
    }
    *out = dict;
    return BT_OK;
}

static bt_status func_dict(bt_jctx *ctx, bt_jvalue self, const bt_jcall *call, bt_jvalue *out)
{
    (void)self;
    out->kind = BT_JVAL_DICT;
    return make_dict(ctx, call, &out->as.dict);
}

static bt_status func_namespace(bt_jctx *ctx, bt_jvalue self, const bt_jcall *call, bt_jvalue *out)
{
    (void)self;
    out->kind = BT_JVAL_NS;
    return make_dict(ctx, call, &out->as.dict);
}

static bt_status func_raise(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    bt_jtext t;
    (void)self;
    (void)out;
    BT_TRY(bt_jformat_str(ctx, args[0], &t));
    int n = (int)BT_MIN(t.n, (size_t)BT_ERR_MESSAGE_MAX);
    return bt_fail_param(ctx->err, BT_E_INVALID, "messages", "%.*s", n, t.p);
}

static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                   "Thursday", "Friday", "Saturday"};
static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};

/* One conversion of strftime in the C locale and UTC; 0 when it is not known. */
static int format_field(char c, const struct tm *t, int64_t now, char *out, size_t room)
{
    int hour12 = t->tm_hour % 12 == 0 ? 12 : t->tm_hour % 12;
    long year = 1900L + t->tm_year;
    switch (c) {
    case 'Y':
        return snprintf(out, room, "%ld", year);
    case 'y':
        return snprintf(out, room, "%02ld", year % 100);
    case 'm':
        return snprintf(out, room, "%02d", t->tm_mon + 1);
    case 'B':
        return snprintf(out, room, "%s", months[t->tm_mon]);
    case 'b':
        return snprintf(out, room, "%.3s", months[t->tm_mon]);
    case 'd':
        return snprintf(out, room, "%02d", t->tm_mday);
    case 'e':
        return snprintf(out, room, "%2d", t->tm_mday);
    case 'j':
        return snprintf(out, room, "%03d", t->tm_yday + 1);
    case 'A':
        return snprintf(out, room, "%s", days[t->tm_wday]);
    case 'a':
        return snprintf(out, room, "%.3s", days[t->tm_wday]);
    case 'w':
        return snprintf(out, room, "%d", t->tm_wday);
    case 'H':
        return snprintf(out, room, "%02d", t->tm_hour);
    case 'I':
        return snprintf(out, room, "%02d", hour12);
    case 'p':
        return snprintf(out, room, "%s", t->tm_hour < 12 ? "AM" : "PM");
    case 'M':
        return snprintf(out, room, "%02d", t->tm_min);
    case 'S':
        return snprintf(out, room, "%02d", t->tm_sec);
    case 'f':
        return snprintf(out, room, "000000");
    case 's':
        return snprintf(out, room, "%lld", (long long)now);
    case 'Z':
        return snprintf(out, room, "UTC");
    case 'z':
        return snprintf(out, room, "+0000");
    case 'F':
        return snprintf(out, room, "%ld-%02d-%02d", year, t->tm_mon + 1, t->tm_mday);
    case 'D':
    case 'x':
        return snprintf(out, room, "%02d/%02d/%02ld", t->tm_mon + 1, t->tm_mday, year % 100);
    case 'T':
    case 'X':
        return snprintf(out, room, "%02d:%02d:%02d", t->tm_hour, t->tm_min, t->tm_sec);
    case 'R':
        return snprintf(out, room, "%02d:%02d", t->tm_hour, t->tm_min);
    case 'c':
        return snprintf(out, room, "%.3s %.3s %2d %02d:%02d:%02d %ld", days[t->tm_wday],
                        months[t->tm_mon], t->tm_mday, t->tm_hour, t->tm_min, t->tm_sec, year);
    case '%':
        return snprintf(out, room, "%%");
    default:
        return 0;
    }
}

static bt_status func_strftime(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    struct tm t;
    time_t now = (time_t)ctx->now_unix_s;
    bt_jtext result = {.p = ""};
    (void)self;
    if (args[0].kind != BT_JVAL_STR || gmtime_r(&now, &t) == NULL) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "strftime_now needs a format and a clock");
    }
    bt_str f = bt_jvalue_bytes(args[0]);
    for (size_t i = 0; i < f.n; i++) {
        bool trusted = bt_jtext_trusted_at(args[0].as.text, i);
        char field[80] = {f.p[i], '\0'};
        int n = 1;
        if (f.p[i] == '%' && i + 1 < f.n) {
            i++;
            i += f.p[i] == '-' && i + 1 < f.n;
            bool no_pad = f.p[i - 1] == '-';
            n = format_field(f.p[i], &t, ctx->now_unix_s, field, sizeof field);
            if (n == 0) {
                return bt_jctx_fail(ctx, BT_E_FORMAT, "strftime_now: unknown field %%%c", f.p[i]);
            }
            if (no_pad && n > 1 && (field[0] == '0' || field[0] == ' ')) {
                memmove(field, field + 1, (size_t)n);
                n--;
            }
        }
        BT_TRY(bt_jtext_push(ctx, &result, (bt_str){field, (size_t)n}, trusted));
    }
    return bt_jtextop_value(ctx, &result, out);
}

static const bt_jbuiltin functions[] = {
    {"range", func_range, "start,stop,step", 1, NULL},
    {"dict", NULL, "", 0, func_dict},
    {"namespace", NULL, "", 0, func_namespace},
    {"raise_exception", func_raise, "message", 1, NULL},
    {"strftime_now", func_strftime, "format", 1, NULL},
};

const bt_jbuiltin *bt_jbuiltin_function(bt_str name)
{
    return bt_jbuiltin_find(functions, BT_COUNT(functions), name);
}
