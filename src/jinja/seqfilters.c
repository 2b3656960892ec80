/* SPDX-License-Identifier: MIT
 *
 * seqfilters.c: filters over lists, dicts and other iterables. */
#include "jinja/builtin.h"

#include "jinja/format.h"
#include "jinja/ops.h"
#include "jinja/sort.h"
#include "jinja/textops.h"

static bt_jvalue arg_or(bt_jvalue arg, bt_jvalue missing)
{
    return arg.kind == BT_JVAL_UNSET ? missing : arg;
}

/* item.a.b for the attribute "a.b"; whole numbers are indices. */
static bt_status attribute(bt_jctx *ctx, bt_jvalue v, bt_jvalue path, bt_jvalue *out)
{
    if (path.kind != BT_JVAL_STR) {
        return bt_jop_item(ctx, v, path, out);
    }
    bt_jlist *parts;
    const bt_jtext dot = {.p = ".", .n = 1};
    const bt_jsplit how = {.separator = &dot, .max = -1};
    BT_TRY(bt_jtextop_split(ctx, path.as.text, &how, &parts));
    for (size_t i = 0; i < parts->n; i++) {
        bt_str name = bt_jvalue_bytes(parts->items[i]);
        bt_jvalue key = parts->items[i];
        int64_t idx = 0;
        bool digits = name.n > 0 && name.n < 10;
        for (size_t k = 0; k < name.n && digits; k++) {
            digits = name.p[k] >= '0' && name.p[k] <= '9';
            idx = idx * 10 + (name.p[k] - '0');
        }
        if (digits) {
            key = bt_jvalue_int(idx);
        }
        BT_TRY(bt_jop_item(ctx, v, key, &v));
    }
    *out = v;
    return BT_OK;
}

/* What is compared when items are sorted: the item or its attribute, in lower case unless case
 * counts. */
static bt_status sort_key(bt_jctx *ctx, bt_jvalue item, bt_jvalue path, bool case_sensitive,
                          bt_jvalue *out)
{
    bt_jtext t;
    *out = item;
    if (path.kind != BT_JVAL_UNSET && path.kind != BT_JVAL_NONE) {
        BT_TRY(attribute(ctx, item, path, out));
    }
    if (out->kind == BT_JVAL_STR && !case_sensitive) {
        BT_TRY(bt_jtextop_case(ctx, out->as.text, BT_JCASE_LOWER, &t));
        return bt_jtextop_value(ctx, &t, out);
    }
    return BT_OK;
}

static bt_status sorted(bt_jctx *ctx, const bt_jlist *items, const bt_jvalue *keys, bool reverse,
                        bt_jvalue *out)
{
    size_t *order;
    bt_jlist *list;
    BT_TRY(bt_jsort_order(ctx, keys, items->n, reverse, &order));
    BT_TRY(bt_jvalue_new_list(ctx, BT_JLIST_LIST, items->n, &list));
    for (size_t i = 0; i < items->n; i++) {
        list->items[i] = items->items[order[i]];
    }
    *out = bt_jvalue_list(list);
    return BT_OK;
}

static bt_status keys_of(bt_jctx *ctx, const bt_jlist *items, bt_jvalue path, bool case_sensitive,
                         bt_jvalue **out)
{
    bt_jvalue *keys;
    BT_TRY(bt_jctx_new(ctx, items->n, sizeof *keys, &keys));
    for (size_t i = 0; i < items->n; i++) {
        BT_TRY(sort_key(ctx, items->items[i], path, case_sensitive, &keys[i]));
    }
    *out = keys;
    return BT_OK;
}

static bt_status filter_sort(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    const bt_jlist *items;
    bt_jvalue *keys;
    BT_TRY(bt_jvalue_items(ctx, self, &items));
    BT_TRY(keys_of(ctx, items, args[2], bt_jvalue_truth(args[1]), &keys));
    return sorted(ctx, items, keys, bt_jvalue_truth(args[0]), out);
}

static bt_status filter_dictsort(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args,
                                 bt_jvalue *out)
{
    bt_jlist *items;
    bt_jvalue *keys;
    bool by_value = args[1].kind == BT_JVAL_STR && bt_str_eqz(bt_jvalue_bytes(args[1]), "value");
    if (self.kind != BT_JVAL_DICT) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "dictsort needs a mapping, not %s",
                            bt_jvalue_type(self));
    }
    BT_TRY(bt_jdict_view(ctx, self.as.dict, BT_JLIST_ITEMS, &items));
    BT_TRY(keys_of(ctx, items, bt_jvalue_int(by_value ? 1 : 0), bt_jvalue_truth(args[0]), &keys));
    return sorted(ctx, items, keys, bt_jvalue_truth(args[2]), out);
}

static bt_status filter_unique(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    const bt_jlist *items;
    bt_jlist *list;
    bt_jvalue *keys;
    size_t n = 0;
    BT_TRY(bt_jvalue_items(ctx, self, &items));
    BT_TRY(keys_of(ctx, items, args[1], bt_jvalue_truth(args[0]), &keys));
    BT_TRY(bt_jvalue_new_list(ctx, BT_JLIST_LIST, items->n, &list));
    for (size_t i = 0; i < items->n; i++) {
        bool seen = false;
        for (size_t k = 0; k < n && !seen; k++) {
            BT_TRY(bt_jvalue_equal(ctx, keys[k], keys[i], &seen));
        }
        if (!seen) {
            keys[n] = keys[i];
            list->items[n++] = items->items[i];
        }
    }
    list->n = n;
    return bt_jvalue_iter(ctx, list, out);
}

static bt_status extreme(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, int sign,
                         bt_jvalue *out)
{
    const bt_jlist *items;
    bt_jvalue *keys;
    size_t best = 0;
    BT_TRY(bt_jvalue_items(ctx, self, &items));
    BT_TRY(keys_of(ctx, items, args[1], bt_jvalue_truth(args[0]), &keys));
    if (items->n == 0) {
        return bt_jvalue_undef(ctx, "", BT_STR("an item of an empty list"), out);
    }
    for (size_t i = 1; i < items->n; i++) {
        int c;
        BT_TRY(bt_jvalue_order(ctx, keys[i], keys[best], "<", &c));
        best = c * sign > 0 ? i : best;
    }
    *out = items->items[best];
    return BT_OK;
}

static bt_status filter_max(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    return extreme(ctx, self, args, 1, out);
}

static bt_status filter_min(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    return extreme(ctx, self, args, -1, out);
}

static bt_status filter_sum(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    const bt_jlist *items;
    bt_jvalue total = arg_or(args[1], bt_jvalue_int(0));
    BT_TRY(bt_jvalue_items(ctx, self, &items));
    for (size_t i = 0; i < items->n; i++) {
        bt_jvalue v;
        BT_TRY(sort_key(ctx, items->items[i], args[0], true, &v));
        BT_TRY(bt_jop_math(ctx, BT_JOP_ADD, total, v, &total));
    }
    *out = total;
    return BT_OK;
}

static bt_status filter_join(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    const bt_jlist *items;
    bt_jtext between = {.p = ""};
    bt_jtext t = {.p = ""};
    if (args[0].kind != BT_JVAL_UNSET) {
        BT_TRY(bt_jformat_str(ctx, args[0], &between));
    }
    BT_TRY(bt_jvalue_items(ctx, self, &items));
    for (size_t i = 0; i < items->n; i++) {
        bt_jvalue v;
        bt_jtext piece;
        BT_TRY(sort_key(ctx, items->items[i], args[1], true, &v));
        BT_TRY(bt_jformat_str(ctx, v, &piece));
        if (i > 0) {
            BT_TRY(bt_jtext_append(ctx, &t, &between));
        }
        BT_TRY(bt_jtext_append(ctx, &t, &piece));
    }
    return bt_jtextop_value(ctx, &t, out);
}

static bt_status filter_list(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    const bt_jlist *items;
    bt_jlist *list;
    (void)args;
    BT_TRY(bt_jvalue_items(ctx, self, &items));
    BT_TRY(bt_jctx_new(ctx, 1, sizeof *list, &list));
    *list = (bt_jlist){BT_JLIST_LIST, items->items, items->n};
    *out = bt_jvalue_list(list);
    return BT_OK;
}

static bt_status filter_items(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    bt_jlist *items;
    (void)args;
    if (self.kind == BT_JVAL_UNDEF) {
        BT_TRY(bt_jvalue_new_list(ctx, BT_JLIST_LIST, 0, &items));
    } else if (self.kind == BT_JVAL_DICT) {
        BT_TRY(bt_jdict_view(ctx, self.as.dict, BT_JLIST_ITEMS, &items));
    } else {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "can only get item pairs from a mapping, not %s",
                            bt_jvalue_type(self));
    }
    return bt_jvalue_iter(ctx, items, out);
}

static bt_status end_item(bt_jctx *ctx, bt_jvalue self, bool last, bt_jvalue *out)
{
    const bt_jlist *items;
    BT_TRY(bt_jvalue_items(ctx, self, &items));
    if (items->n == 0) {
        return bt_jvalue_undef(ctx, "", BT_STR("an item of an empty list"), out);
    }
    *out = items->items[last ? items->n - 1 : 0];
    return BT_OK;
}

static bt_status filter_first(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    return end_item(ctx, self, false, out);
}

static bt_status filter_last(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    if (self.kind == BT_JVAL_ITER) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "'generator' object is not reversible");
    }
    return end_item(ctx, self, true, out);
}

static bt_status filter_reverse(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    const bt_jvalue bounds[3] = {bt_jvalue_none(), bt_jvalue_none(), bt_jvalue_int(-1)};
    const bt_jlist *items;
    bt_jlist *list;
    (void)args;
    if (self.kind == BT_JVAL_STR) {
        return bt_jop_slice(ctx, self, bounds, out);
    }
    BT_TRY(bt_jvalue_items(ctx, self, &items));
    BT_TRY(bt_jvalue_new_list(ctx, BT_JLIST_LIST, items->n, &list));
    for (size_t i = 0; i < items->n; i++) {
        list->items[i] = items->items[items->n - 1 - i];
    }
    return bt_jvalue_iter(ctx, list, out);
}

static bt_status filter_batch(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    const bt_jlist *items;
    bt_jlist *rows;
    int64_t width;
    BT_TRY(bt_jvalue_items(ctx, self, &items));
    if (!bt_jvalue_as_int(args[0], &width) || width < 1 || width > BT_JINJA_RANGE_MAX) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "batch: a positive number is expected");
    }
    size_t w = (size_t)width;
    BT_TRY(bt_jvalue_new_list(ctx, BT_JLIST_LIST, (items->n + w - 1) / w, &rows));
    for (size_t r = 0; r < rows->n; r++) {
        size_t have = BT_MIN(w, items->n - r * w);
        bool fill = have < w && args[1].kind != BT_JVAL_UNSET && args[1].kind != BT_JVAL_NONE;
        bt_jlist *row;
        BT_TRY(bt_jvalue_new_list(ctx, BT_JLIST_LIST, fill ? w : have, &row));
        for (size_t i = 0; i < row->n; i++) {
            row->items[i] = i < have ? items->items[r * w + i] : args[1];
        }
        rows->items[r] = bt_jvalue_list(row);
    }
    return bt_jvalue_iter(ctx, rows, out);
}

/* The rest of an argument list from `first` on. */
static bt_jcall rest_of(const bt_jcall *call, int first)
{
    bt_jcall rest = *call;
    rest.pos += first;
    rest.n_pos -= first;
    return rest;
}

static bt_status find_by_value(bt_jctx *ctx, bt_jvalue name, bool test, const bt_jbuiltin **out)
{
    const bt_jbuiltin *found = NULL;
    if (name.kind == BT_JVAL_STR) {
        bt_str s = bt_jvalue_bytes(name);
        found = test ? bt_jbuiltin_test(s) : bt_jbuiltin_filter(s);
    }
    if (found == NULL) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "no such %s", test ? "test" : "filter");
    }
    *out = found;
    return BT_OK;
}

/* map(attribute="a", default=d) */
static bt_status map_attribute(bt_jctx *ctx, const bt_jcall *call, const bt_jlist *items,
                               bt_jlist *list)
{
    bt_jvalue path = {.kind = BT_JVAL_UNSET};
    bt_jvalue missing = {.kind = BT_JVAL_UNSET};
    for (int i = 0; i < call->n_named; i++) {
        if (bt_str_eqz(call->names[i], "attribute")) {
            path = call->named[i];
        } else if (bt_str_eqz(call->names[i], "default")) {
            missing = call->named[i];
        } else {
            path.kind = BT_JVAL_UNSET;
            break;
        }
    }
    if (path.kind == BT_JVAL_UNSET) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "map needs the name of a filter or an attribute");
    }
    for (size_t i = 0; i < items->n; i++) {
        BT_TRY(attribute(ctx, items->items[i], path, &list->items[i]));
        if (list->items[i].kind == BT_JVAL_UNDEF && missing.kind != BT_JVAL_UNSET) {
            list->items[i] = missing;
        }
    }
    return BT_OK;
}

/* As Jinja2's map and select: whatever is false, None too, has no items. */
static bt_status items_if_any(bt_jctx *ctx, bt_jvalue v, const bt_jlist **out)
{
    if (!bt_jvalue_truth(v)) {
        v = (bt_jvalue){.kind = BT_JVAL_UNDEF};
    }
    return bt_jvalue_items(ctx, v, out);
}

static bt_status filter_map(bt_jctx *ctx, bt_jvalue self, const bt_jcall *call, bt_jvalue *out)
{
    const bt_jlist *items;
    bt_jlist *list;
    BT_TRY(items_if_any(ctx, self, &items));
    BT_TRY(bt_jvalue_new_list(ctx, BT_JLIST_LIST, items->n, &list));
    if (call->n_pos == 0) {
        BT_TRY(map_attribute(ctx, call, items, list));
        return bt_jvalue_iter(ctx, list, out);
    }
    const bt_jbuiltin *filter = NULL;
    bt_jcall rest = rest_of(call, 1);
    BT_TRY(find_by_value(ctx, call->pos[0], false, &filter));
    for (size_t i = 0; i < items->n; i++) {
        BT_TRY(bt_jctx_enter(ctx));
        BT_TRY(bt_jbuiltin_call(ctx, filter, items->items[i], &rest, &list->items[i]));
        bt_jctx_leave(ctx);
    }
    return bt_jvalue_iter(ctx, list, out);
}

/* select, reject (by_attr: selectattr, rejectattr): keeps the items whose test gives `keep`. */
static bt_status choose(bt_jctx *ctx, bt_jvalue self, const bt_jcall *call, const bool how[2],
                        bt_jvalue *out)
{
    bool by_attr = how[0];
    bool keep = how[1];
    const bt_jlist *items;
    bt_jlist *list;
    const bt_jbuiltin *test = NULL;
    size_t n = 0;
    if (call->n_pos < by_attr) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "the name of an attribute is missing");
    }
    if (call->n_pos > by_attr) {
        BT_TRY(find_by_value(ctx, call->pos[by_attr], true, &test));
    }
    bt_jcall rest = rest_of(call, BT_MIN(call->n_pos, by_attr + 1));
    BT_TRY(items_if_any(ctx, self, &items));
    BT_TRY(bt_jvalue_new_list(ctx, BT_JLIST_LIST, items->n, &list));
    for (size_t i = 0; i < items->n; i++) {
        bt_jvalue v = items->items[i];
        BT_TRY(bt_jctx_charge(ctx, 0));
        if (by_attr) {
            BT_TRY(attribute(ctx, v, call->pos[0], &v));
        }
        if (test != NULL) {
            BT_TRY(bt_jbuiltin_call(ctx, test, v, &rest, &v));
        }
        if (bt_jvalue_truth(v) == keep) {
            list->items[n++] = items->items[i];
        }
    }
    list->n = n;
    return bt_jvalue_iter(ctx, list, out);
}

static bt_status filter_select(bt_jctx *ctx, bt_jvalue self, const bt_jcall *call, bt_jvalue *out)
{
    return choose(ctx, self, call, (const bool[2]){false, true}, out);
}

static bt_status filter_reject(bt_jctx *ctx, bt_jvalue self, const bt_jcall *call, bt_jvalue *out)
{
    return choose(ctx, self, call, (const bool[2]){false, false}, out);
}

static bt_status filter_selectattr(bt_jctx *ctx, bt_jvalue self, const bt_jcall *call,
                                   bt_jvalue *out)
{
    return choose(ctx, self, call, (const bool[2]){true, true}, out);
}

static bt_status filter_rejectattr(bt_jctx *ctx, bt_jvalue self, const bt_jcall *call,
                                   bt_jvalue *out)
{
    return choose(ctx, self, call, (const bool[2]){true, false}, out);
}

static const bt_jbuiltin filters[] = {
    {"batch", filter_batch, "linecount,fill_with", 1, NULL},
    {"dictsort", filter_dictsort, "case_sensitive,by,reverse", 0, NULL},
    {"first", filter_first, "", 0, NULL},
    {"items", filter_items, "", 0, NULL},
    {"join", filter_join, "d,attribute", 0, NULL},
    {"last", filter_last, "", 0, NULL},
    {"list", filter_list, "", 0, NULL},
    {"map", NULL, "", 0, filter_map},
    {"max", filter_max, "case_sensitive,attribute", 0, NULL},
    {"min", filter_min, "case_sensitive,attribute", 0, NULL},
    {"reject", NULL, "", 0, filter_reject},
    {"rejectattr", NULL, "", 0, filter_rejectattr},
    {"reverse", filter_reverse, "", 0, NULL},
    {"select", NULL, "", 0, filter_select},
    {"selectattr", NULL, "", 0, filter_selectattr},
    {"sort", filter_sort, "reverse,case_sensitive,attribute", 0, NULL},
    {"sum", filter_sum, "attribute,start", 0, NULL},
    {"unique", filter_unique, "case_sensitive,attribute", 0, NULL},
};

const bt_jbuiltin *bt_jbuiltin_seqfilter(bt_str name)
{
    return bt_jbuiltin_find(filters, BT_COUNT(filters), name);
}
