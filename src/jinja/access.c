/* SPDX-License-Identifier: MIT
 *
 * access.c: attributes, subscripts and slices. Jinja2 looks for an attribute first after a dot and
 * for an item first in brackets; what is not there is undefined, and only an access to an undefined
 * value is an error. */
#include "jinja/builtin.h"
#include "jinja/ops.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bt_status loop_item(bt_jctx *ctx, const bt_jloop *loop, size_t idx, bt_jvalue *out)
{
    if (idx >= loop->list->n) {
        return bt_jvalue_undef(ctx, "", BT_STR("there is no such item"), out);
    }
    *out = loop->list->items[idx];
    return BT_OK;
}

static bt_status loop_attr(bt_jctx *ctx, const bt_jloop *loop, bt_str name, bt_jvalue *out)
{
    int64_t n = (int64_t)loop->list->n;
    int64_t i = (int64_t)loop->idx;
    const struct {
        const char *name;
        bt_jvalue value;
    } rows[] = {
        {"index", bt_jvalue_int(i + 1)},
        {"index0", bt_jvalue_int(i)},
        {"first", bt_jvalue_bool(i == 0)},
        {"last", bt_jvalue_bool(i + 1 == n)},
        {"length", bt_jvalue_int(n)},
        {"revindex", bt_jvalue_int(n - i)},
        {"revindex0", bt_jvalue_int(n - i - 1)},
        {"depth", bt_jvalue_int(1)},
        {"depth0", bt_jvalue_int(0)},
    };
    for (size_t k = 0; k < BT_COUNT(rows); k++) {
        if (bt_str_eqz(name, rows[k].name)) {
            *out = rows[k].value;
            return BT_OK;
        }
    }
    if (bt_str_eqz(name, "previtem")) {
        return loop_item(ctx, loop, loop->idx == 0 ? SIZE_MAX : loop->idx - 1, out);
    }
    if (bt_str_eqz(name, "nextitem")) {
        return loop_item(ctx, loop, loop->idx + 1, out);
    }
    return bt_jvalue_undef(ctx, "loop", name, out);
}

static bt_status method_of(bt_jctx *ctx, bt_jvalue v, bt_str name, bt_jvalue *out)
{
    const bt_jbuiltin *builtin = bt_jbuiltin_method(v.kind, name);
    *out = (bt_jvalue){.kind = BT_JVAL_UNSET};
    if (builtin == NULL) {
        return BT_OK;
    }
    bt_jmethod *method;
    BT_TRY(bt_jctx_new(ctx, 1, sizeof *method, &method));
    *method = (bt_jmethod){v, builtin};
    *out = (bt_jvalue){.kind = BT_JVAL_METHOD, .as.method = method};
    return BT_OK;
}

/* *out: UNSET when there is no such attribute. */
static bt_status find_attr(bt_jctx *ctx, bt_jvalue v, bt_str name, bt_jvalue *out)
{
    if (v.kind == BT_JVAL_UNDEF) {
        return bt_jvalue_fail_undef(ctx, v);
    }
    if (v.kind == BT_JVAL_NS) {
        return bt_jdict_get_str(ctx, v.as.dict, name, out);
    }
    BT_TRY(method_of(ctx, v, name, out));
    if (v.kind == BT_JVAL_LOOP && out->kind == BT_JVAL_UNSET) {
        return loop_attr(ctx, v.as.loop, name, out);
    }
    return BT_OK;
}

static const char *owner_of(bt_jvalue v)
{
    return v.kind == BT_JVAL_NONE ? "None" : bt_jvalue_type(v);
}

bt_status bt_jop_attr(bt_jctx *ctx, bt_jvalue v, bt_str name, bt_jvalue *out)
{
    BT_TRY(find_attr(ctx, v, name, out));
    if (out->kind == BT_JVAL_UNSET && v.kind == BT_JVAL_DICT) {
        BT_TRY(bt_jdict_get_str(ctx, v.as.dict, name, out));
    }
    return out->kind != BT_JVAL_UNSET ? BT_OK : bt_jvalue_undef(ctx, owner_of(v), name, out);
}

/* Brings a Python index (negative: from the end) into 0…n-1; false when it is outside. */
static bool fit_index(int64_t idx, size_t n, size_t *out)
{
    if (idx < 0) {
        idx += (int64_t)n;
    }
    if (idx < 0 || (uint64_t)idx >= n) {
        return false;
    }
    *out = (size_t)idx;
    return true;
}

/* *out: UNSET when there is no such item. */
static bt_status find_index(bt_jctx *ctx, bt_jvalue v, int64_t idx, bt_jvalue *out)
{
    size_t i;
    *out = (bt_jvalue){.kind = BT_JVAL_UNSET};
    if (v.kind == BT_JVAL_LIST) {
        const bt_jlist *list = v.as.list;
        if (list->kind <= BT_JLIST_RANGE && fit_index(idx, list->n, &i)) {
            *out = list->items[i];
        }
        return BT_OK;
    }
    if (v.kind != BT_JVAL_STR) {
        return BT_OK;
    }
    const bt_jtext *t = v.as.text;
    BT_TRY(bt_jctx_charge(ctx, t->n));
    if (!fit_index(idx, bt_jtext_count(t), &i)) {
        return BT_OK;
    }
    size_t from = bt_jtext_offset(t, i);
    size_t to = from + 1;
    while (to < t->n && ((unsigned char)t->p[to] & 0xC0) == 0x80) {
        to++;
    }
    return bt_jvalue_str(ctx, (bt_str){t->p + from, to - from}, bt_jtext_trusted_at(t, from), out);
}

static bt_status undef_index(bt_jctx *ctx, bt_jvalue v, int64_t idx, bt_jvalue *out)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%" PRId64, idx);
    char *copy = bt_arena_dup(&ctx->arena, text, (size_t)n);
    return bt_jvalue_undef(ctx, owner_of(v), copy == NULL ? BT_STR("?") : bt_str_of(copy), out);
}

bt_status bt_jop_item(bt_jctx *ctx, bt_jvalue v, bt_jvalue key, bt_jvalue *out)
{
    int64_t idx;
    if (v.kind == BT_JVAL_UNDEF) {
        return bt_jvalue_fail_undef(ctx, v);
    }
    *out = (bt_jvalue){.kind = BT_JVAL_UNSET};
    if (v.kind == BT_JVAL_DICT) {
        BT_TRY(bt_jdict_get(ctx, v.as.dict, key, out));
    } else if (bt_jvalue_as_int(key, &idx)) {
        BT_TRY(find_index(ctx, v, idx, out));
        if (out->kind == BT_JVAL_UNSET) {
            return undef_index(ctx, v, idx, out);
        }
    }
    if (out->kind == BT_JVAL_UNSET && key.kind == BT_JVAL_STR) {
        BT_TRY(find_attr(ctx, v, bt_jvalue_bytes(key), out));
    }
    if (out->kind != BT_JVAL_UNSET) {
        return BT_OK;
    }
    bt_str name = key.kind == BT_JVAL_STR ? bt_jvalue_bytes(key) : BT_STR("such item");
    return bt_jvalue_undef(ctx, owner_of(v), name, out);
}

/* Start, stop and step as Python's slice.indices(n) gives them. */
typedef struct span {
    int64_t start, stop, step;
    size_t count;
} span;

static int64_t clamp_bound(bt_jvalue bound, int64_t n, int64_t step, int64_t missing)
{
    int64_t i;
    if (!bt_jvalue_as_int(bound, &i)) {
        return missing;
    }
    int64_t low = step < 0 ? -1 : 0;
    int64_t high = step < 0 ? n - 1 : n;
    if (i < 0) {
        i = i < -n ? low : i + n;
    }
    return BT_MIN(BT_MAX(i, low), high);
}

static bt_status span_of(bt_jctx *ctx, const bt_jvalue bounds[3], int64_t n, span *out)
{
    int64_t step = 1;
    (void)bt_jvalue_as_int(bounds[2], &step);
    if (step == 0) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "slice step cannot be zero");
    }
    step = BT_MIN(BT_MAX(step, -INT32_MAX), INT32_MAX); /* longer than any text or list */
    out->step = step;
    out->start = clamp_bound(bounds[0], n, step, step < 0 ? n - 1 : 0);
    out->stop = clamp_bound(bounds[1], n, step, step < 0 ? -1 : n);
    int64_t distance = step < 0 ? out->start - out->stop : out->stop - out->start;
    int64_t stride = step < 0 ? -step : step;
    out->count = distance > 0 ? (size_t)((distance + stride - 1) / stride) : 0;
    return BT_OK;
}

static bt_status slice_text(bt_jctx *ctx, const bt_jtext *t, const bt_jvalue bounds[3],
                            bt_jvalue *out)
{
    span s;
    bt_jtext cut = {.p = ""};
    size_t n = bt_jtext_count(t);
    BT_TRY(bt_jctx_charge(ctx, t->n * 2));
    BT_TRY(span_of(ctx, bounds, (int64_t)n, &s));
    if (s.step == 1 && s.count > 0) {
        size_t from = bt_jtext_offset(t, (size_t)s.start);
        const bt_jtext rest = {.p = t->p + from, .n = t->n - from};
        size_t to = from + bt_jtext_offset(&rest, s.count);
        BT_TRY(bt_jtext_cut(ctx, t, from, to, &cut));
    } else if (s.count > 0) {
        const bt_jlist *chars;
        BT_TRY(bt_jvalue_items(ctx, bt_jvalue_text(t), &chars));
        for (size_t i = 0; i < s.count; i++) {
            const bt_jvalue *c = &chars->items[s.start + (int64_t)i * s.step];
            BT_TRY(bt_jtext_append(ctx, &cut, c->as.text));
        }
    }
    out->kind = BT_JVAL_STR;
    return bt_jtext_store(ctx, &cut, &out->as.text);
}

bt_status bt_jop_slice(bt_jctx *ctx, bt_jvalue v, const bt_jvalue bounds[3], bt_jvalue *out)
{
    if (v.kind == BT_JVAL_UNDEF) {
        return bt_jvalue_fail_undef(ctx, v);
    }
    bool sliceable =
        v.kind == BT_JVAL_STR || (v.kind == BT_JVAL_LIST && v.as.list->kind <= BT_JLIST_RANGE);
    for (int i = 0; i < 3; i++) {
        int64_t ignored;
        sliceable =
            sliceable && (bounds[i].kind == BT_JVAL_NONE || bt_jvalue_as_int(bounds[i], &ignored));
    }
    if (!sliceable) {
        return bt_jvalue_undef(ctx, owner_of(v), BT_STR("such slice"), out);
    }
    if (v.kind == BT_JVAL_STR) {
        return slice_text(ctx, v.as.text, bounds, out);
    }
    span s;
    bt_jlist *list;
    BT_TRY(span_of(ctx, bounds, (int64_t)v.as.list->n, &s));
    BT_TRY(bt_jvalue_new_list(ctx, v.as.list->kind, s.count, &list));
    for (size_t i = 0; i < s.count; i++) {
        list->items[i] = v.as.list->items[s.start + (int64_t)i * s.step];
    }
    *out = bt_jvalue_list(list);
    return BT_OK;
}
