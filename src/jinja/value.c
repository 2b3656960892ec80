/* SPDX-License-Identifier: MIT
 *
 * value.c: making values, their truth, length, order and membership, after the Python language
 * reference ("Comparisons", "Truth Value Testing"). */
#include "jinja/value.h"

#include "jinja/context.h"
#include "text/utf8.h"

#include <string.h>

bt_status bt_jvalue_str(bt_jctx *ctx, bt_str bytes, bool trusted, bt_jvalue *out)
{
    bt_jtext *t;
    BT_TRY(bt_jctx_new(ctx, 1, sizeof *t, &t));
    *t = (bt_jtext){.p = bytes.p == NULL ? "" : bytes.p, .n = bytes.n, .trusted = trusted};
    *out = bt_jvalue_text(t);
    return BT_OK;
}

bt_status bt_jvalue_new_list(bt_jctx *ctx, bt_jlist_kind kind, size_t n, bt_jlist **out)
{
    bt_jlist *list;
    BT_TRY(bt_jctx_new(ctx, 1, sizeof *list, &list));
    BT_TRY(bt_jctx_new(ctx, n, sizeof(bt_jvalue), &list->items));
    list->kind = kind;
    list->n = n;
    *out = list;
    return BT_OK;
}

bt_status bt_jvalue_undef(bt_jctx *ctx, const char *owner, bt_str name, bt_jvalue *out)
{
    bt_jundef *undef;
    BT_TRY(bt_jctx_new(ctx, 1, sizeof *undef, &undef));
    *undef = (bt_jundef){owner, name};
    *out = (bt_jvalue){.kind = BT_JVAL_UNDEF, .as.undef = undef};
    return BT_OK;
}

bt_status bt_jvalue_fail_undef(bt_jctx *ctx, bt_jvalue undef)
{
    const bt_jundef *u = undef.as.undef;
    if (u == NULL) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "a value is undefined");
    }
    int n = (int)BT_MIN(u->name.n, (size_t)100);
    if (u->owner[0] == '\0') {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "'%.*s' is undefined", n, u->name.p);
    }
    return bt_jctx_fail(ctx, BT_E_FORMAT, "a %s has no '%.*s'", u->owner, n, u->name.p);
}

/* Recursion is bounded by the depth of a parsed tree. */
static bt_status from_object(bt_jctx *ctx, const bt_json *json, bool trusted, bt_jvalue *out)
{
    bt_jdict *dict;
    size_t n = bt_json_count(json);
    BT_TRY(bt_jctx_new(ctx, 1, sizeof *dict, &dict));
    BT_TRY(bt_jctx_new(ctx, n, sizeof(bt_jpair), &dict->pairs));
    dict->cap = n;
    void *iter = NULL;
    bt_str key;
    const bt_json *member;
    while (bt_json_next(json, &iter, &key, &member)) {
        bt_jpair *pair = &dict->pairs[dict->n++];
        BT_TRY(bt_jvalue_str(ctx, key, trusted, &pair->key));
        BT_TRY(bt_jvalue_from_json(ctx, member, trusted, &pair->value));
    }
    *out = (bt_jvalue){.kind = BT_JVAL_DICT, .as.dict = dict};
    return BT_OK;
}

static bt_status from_array(bt_jctx *ctx, const bt_json *json, bool trusted, bt_jvalue *out)
{
    bt_jlist *list;
    BT_TRY(bt_jvalue_new_list(ctx, BT_JLIST_LIST, bt_json_count(json), &list));
    for (size_t i = 0; i < list->n; i++) {
        BT_TRY(bt_jvalue_from_json(ctx, bt_json_at(json, i), trusted, &list->items[i]));
    }
    *out = bt_jvalue_list(list);
    return BT_OK;
}

bt_status bt_jvalue_from_json(bt_jctx *ctx, const bt_json *json, bool trusted, bt_jvalue *out)
{
    switch (bt_json_kind_of(json)) {
    case BT_JSON_NULL:
        *out = bt_jvalue_none();
        return BT_OK;
    case BT_JSON_BOOL:
        *out = bt_jvalue_bool(bt_json_bool(json));
        return BT_OK;
    case BT_JSON_INT:
        *out = bt_jvalue_int(bt_json_int(json));
        return BT_OK;
    case BT_JSON_REAL:
        *out = bt_jvalue_real(bt_json_real(json));
        return BT_OK;
    case BT_JSON_STRING:
        return bt_jvalue_str(ctx, bt_json_str(json), trusted, out);
    case BT_JSON_ARRAY:
        return from_array(ctx, json, trusted, out);
    case BT_JSON_OBJECT:
        break;
    }
    return from_object(ctx, json, trusted, out);
}

bt_status bt_jvalue_iter(bt_jctx *ctx, const bt_jlist *list, bt_jvalue *out)
{
    bt_jiter *iter;
    BT_TRY(bt_jctx_new(ctx, 1, sizeof *iter, &iter));
    iter->list = list;
    *out = (bt_jvalue){.kind = BT_JVAL_ITER, .as.iter = iter};
    return BT_OK;
}

const char *bt_jvalue_type(bt_jvalue v)
{
    static const char *const names[] = {
        [BT_JVAL_UNSET] = "nothing", [BT_JVAL_UNDEF] = "Undefined", [BT_JVAL_NONE] = "NoneType",
        [BT_JVAL_BOOL] = "bool",     [BT_JVAL_INT] = "int",         [BT_JVAL_REAL] = "float",
        [BT_JVAL_STR] = "str",       [BT_JVAL_LIST] = "list",       [BT_JVAL_DICT] = "dict",
        [BT_JVAL_NS] = "Namespace",  [BT_JVAL_ITER] = "generator",  [BT_JVAL_LOOP] = "LoopContext",
        [BT_JVAL_MACRO] = "Macro",   [BT_JVAL_FUNC] = "function",   [BT_JVAL_METHOD] = "method",
    };
    static const char *const lists[] = {"list",      "tuple",       "range",
                                        "dict_keys", "dict_values", "dict_items"};
    return v.kind == BT_JVAL_LIST ? lists[v.as.list->kind] : names[v.kind];
}

bool bt_jvalue_truth(bt_jvalue v)
{
    switch (v.kind) {
    case BT_JVAL_UNSET:
    case BT_JVAL_UNDEF:
    case BT_JVAL_NONE:
        return false;
    case BT_JVAL_BOOL:
        return v.as.b;
    case BT_JVAL_INT:
        return v.as.i != 0;
    case BT_JVAL_REAL:
        return v.as.r != 0;
    case BT_JVAL_STR:
        return v.as.text->n > 0;
    case BT_JVAL_LIST:
        return v.as.list->n > 0;
    case BT_JVAL_DICT:
        return v.as.dict->n > 0;
    default:
        return true;
    }
}

bool bt_jvalue_as_int(bt_jvalue v, int64_t *out)
{
    if (v.kind == BT_JVAL_INT) {
        *out = v.as.i;
        return true;
    }
    if (v.kind == BT_JVAL_BOOL) {
        *out = v.as.b;
        return true;
    }
    return false;
}

bool bt_jvalue_as_real(bt_jvalue v, double *out)
{
    int64_t i;
    if (v.kind == BT_JVAL_REAL) {
        *out = v.as.r;
        return true;
    }
    if (bt_jvalue_as_int(v, &i)) {
        *out = (double)i;
        return true;
    }
    return false;
}

bt_str bt_jvalue_bytes(bt_jvalue str)
{
    BT_ASSERT(str.kind == BT_JVAL_STR);
    return bt_jtext_bytes(str.as.text);
}

static bt_status too_deep(bt_jctx *ctx)
{
    return bt_jctx_fail(ctx, BT_E_LIMIT, "a value nested deeper than %d levels",
                        BT_JINJA_VALUE_DEPTH_MAX);
}

static bt_status equal(bt_jctx *ctx, bt_jvalue a, bt_jvalue b, int depth, bool *out);

static bt_status equal_lists(bt_jctx *ctx, const bt_jlist *a, const bt_jlist *b, int depth,
                             bool *out)
{
    bool same = a->n == b->n && a->kind == b->kind;
    for (size_t i = 0; same && i < a->n; i++) {
        BT_TRY(equal(ctx, a->items[i], b->items[i], depth + 1, &same));
    }
    *out = same;
    return BT_OK;
}

static bt_status equal_dicts(bt_jctx *ctx, const bt_jdict *a, const bt_jdict *b, int depth,
                             bool *out)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++) {
        bt_jvalue other;
        BT_TRY(bt_jdict_get(ctx, b, a->pairs[i].key, &other));
        same = other.kind != BT_JVAL_UNSET;
        if (same) {
            BT_TRY(equal(ctx, a->pairs[i].value, other, depth + 1, &same));
        }
    }
    *out = same;
    return BT_OK;
}

static bt_status equal(bt_jctx *ctx, bt_jvalue a, bt_jvalue b, int depth, bool *out)
{
    BT_TRY(bt_jctx_charge(ctx, 0));
    if (depth > BT_JINJA_VALUE_DEPTH_MAX) {
        return too_deep(ctx);
    }
    int64_t ia;
    int64_t ib;
    double ra;
    double rb;
    if (bt_jvalue_as_int(a, &ia) && bt_jvalue_as_int(b, &ib)) {
        *out = ia == ib;
        return BT_OK;
    }
    if (bt_jvalue_as_real(a, &ra) && bt_jvalue_as_real(b, &rb)) {
        *out = ra == rb;
        return BT_OK;
    }
    *out = false;
    if (a.kind != b.kind) {
        return BT_OK;
    }
    switch (a.kind) {
    case BT_JVAL_STR:
        *out = bt_str_eq(bt_jvalue_bytes(a), bt_jvalue_bytes(b));
        return bt_jctx_charge(ctx, a.as.text->n);
    case BT_JVAL_LIST:
        return equal_lists(ctx, a.as.list, b.as.list, depth, out);
    case BT_JVAL_DICT:
        return equal_dicts(ctx, a.as.dict, b.as.dict, depth, out);
    case BT_JVAL_UNDEF:
    case BT_JVAL_NONE:
        *out = true;
        return BT_OK;
    default:
        *out = a.as.text == b.as.text; /* identity */
        return BT_OK;
    }
}

bt_status bt_jvalue_equal(bt_jctx *ctx, bt_jvalue a, bt_jvalue b, bool *out)
{
    return equal(ctx, a, b, 0, out);
}

static int order_bytes(bt_str a, bt_str b)
{
    /* The order of UTF-8 bytes is that of code points. */
    size_t n = BT_MIN(a.n, b.n);
    int c = n > 0 ? memcmp(a.p, b.p, n) : 0;
    return c != 0 ? c : (a.n > b.n) - (a.n < b.n);
}

bt_status bt_jvalue_order(bt_jctx *ctx, bt_jvalue a, bt_jvalue b, const char *op, int *out)
{
    BT_TRY(bt_jctx_charge(ctx, 0));
    int64_t ia;
    int64_t ib;
    double ra;
    double rb;
    if (a.kind == BT_JVAL_UNDEF || b.kind == BT_JVAL_UNDEF) {
        return bt_jvalue_fail_undef(ctx, a.kind == BT_JVAL_UNDEF ? a : b);
    }
    if (bt_jvalue_as_int(a, &ia) && bt_jvalue_as_int(b, &ib)) {
        *out = (ia > ib) - (ia < ib);
        return BT_OK;
    }
    if (bt_jvalue_as_real(a, &ra) && bt_jvalue_as_real(b, &rb)) {
        *out = (ra > rb) - (ra < rb);
        return BT_OK;
    }
    if (a.kind == BT_JVAL_STR && b.kind == BT_JVAL_STR) {
        *out = order_bytes(bt_jvalue_bytes(a), bt_jvalue_bytes(b));
        return bt_jctx_charge(ctx, a.as.text->n);
    }
    bool lists = a.kind == BT_JVAL_LIST && b.kind == BT_JVAL_LIST &&
                 a.as.list->kind == b.as.list->kind && a.as.list->kind <= BT_JLIST_TUPLE;
    if (!lists) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "'%s' not supported between '%s' and '%s'", op,
                            bt_jvalue_type(a), bt_jvalue_type(b));
    }
    const bt_jlist *la = a.as.list;
    const bt_jlist *lb = b.as.list;
    for (size_t i = 0; i < BT_MIN(la->n, lb->n); i++) {
        bool same;
        BT_TRY(bt_jvalue_equal(ctx, la->items[i], lb->items[i], &same));
        if (!same) {
            BT_TRY(bt_jctx_enter(ctx));
            BT_TRY(bt_jvalue_order(ctx, la->items[i], lb->items[i], op, out));
            bt_jctx_leave(ctx);
            return BT_OK;
        }
    }
    *out = (la->n > lb->n) - (la->n < lb->n);
    return BT_OK;
}

static bt_status list_has(bt_jctx *ctx, const bt_jlist *list, bt_jvalue item, bool *out)
{
    bool found = false;
    for (size_t i = 0; i < list->n && !found; i++) {
        BT_TRY(bt_jvalue_equal(ctx, list->items[i], item, &found));
    }
    *out = found;
    return BT_OK;
}

bt_status bt_jvalue_contains(bt_jctx *ctx, bt_jvalue container, bt_jvalue item, bool *out)
{
    bt_jvalue found;
    switch (container.kind) {
    case BT_JVAL_STR:
        if (item.kind != BT_JVAL_STR) {
            return bt_jctx_fail(ctx, BT_E_FORMAT,
                                "'in <string>' requires a string as left operand, not %s",
                                bt_jvalue_type(item));
        }
        *out = bt_str_find(bt_jvalue_bytes(container), bt_jvalue_bytes(item), 0) >= 0;
        return bt_jctx_charge(ctx, container.as.text->n);
    case BT_JVAL_DICT:
        BT_TRY(bt_jdict_get(ctx, container.as.dict, item, &found));
        *out = found.kind != BT_JVAL_UNSET;
        return BT_OK;
    case BT_JVAL_LIST:
        return list_has(ctx, container.as.list, item, out);
    case BT_JVAL_UNDEF:
        *out = false;
        return BT_OK;
    case BT_JVAL_ITER: {
        const bt_jlist *rest;
        BT_TRY(bt_jvalue_items(ctx, container, &rest));
        return list_has(ctx, rest, item, out);
    }
    default:
        return bt_jctx_fail(ctx, BT_E_FORMAT, "argument of type '%s' is not iterable",
                            bt_jvalue_type(container));
    }
}

bt_status bt_jvalue_length(bt_jctx *ctx, bt_jvalue v, int64_t *out)
{
    switch (v.kind) {
    case BT_JVAL_UNDEF:
        *out = 0;
        return BT_OK;
    case BT_JVAL_STR:
        *out = (int64_t)bt_jtext_count(v.as.text);
        return bt_jctx_charge(ctx, v.as.text->n);
    case BT_JVAL_LIST:
        *out = (int64_t)v.as.list->n;
        return BT_OK;
    case BT_JVAL_DICT:
        *out = (int64_t)v.as.dict->n;
        return BT_OK;
    case BT_JVAL_LOOP:
        *out = (int64_t)v.as.loop->list->n;
        return BT_OK;
    default:
        return bt_jctx_fail(ctx, BT_E_FORMAT, "a value of type '%s' has no length",
                            bt_jvalue_type(v));
    }
}

bool bt_jvalue_is_iterable(bt_jvalue v)
{
    return v.kind == BT_JVAL_UNDEF || v.kind == BT_JVAL_STR || v.kind == BT_JVAL_LIST ||
           v.kind == BT_JVAL_DICT || v.kind == BT_JVAL_ITER || v.kind == BT_JVAL_LOOP;
}

static bt_status characters(bt_jctx *ctx, const bt_jtext *t, bt_jlist **out)
{
    bt_jlist *list;
    BT_TRY(bt_jvalue_new_list(ctx, BT_JLIST_LIST, bt_jtext_count(t), &list));
    size_t pos = 0;
    for (size_t i = 0; i < list->n; i++) {
        uint32_t c;
        int n = bt_utf8_decode(t->p + pos, t->n - pos, &c);
        BT_ASSERT(n > 0);
        bt_str one = {t->p + pos, (size_t)n};
        BT_TRY(bt_jvalue_str(ctx, one, bt_jtext_trusted_at(t, pos), &list->items[i]));
        pos += (size_t)n;
    }
    *out = list;
    return BT_OK;
}

bt_status bt_jvalue_items(bt_jctx *ctx, bt_jvalue v, const bt_jlist **out)
{
    bt_jlist *list;
    switch (v.kind) {
    case BT_JVAL_LIST:
        *out = v.as.list;
        return BT_OK;
    case BT_JVAL_DICT:
        BT_TRY(bt_jdict_view(ctx, v.as.dict, BT_JLIST_KEYS, &list));
        break;
    case BT_JVAL_STR:
        BT_TRY(characters(ctx, v.as.text, &list));
        break;
    case BT_JVAL_UNDEF:
        BT_TRY(bt_jvalue_new_list(ctx, BT_JLIST_LIST, 0, &list));
        break;
    case BT_JVAL_ITER: {
        bt_jiter *iter = v.as.iter;
        BT_TRY(bt_jctx_new(ctx, 1, sizeof *list, &list));
        list->items = iter->list->items + iter->pos;
        list->n = iter->list->n - iter->pos;
        iter->pos = iter->list->n;
        break;
    }
    default:
        return bt_jctx_fail(ctx, BT_E_FORMAT, "'%s' object is not iterable", bt_jvalue_type(v));
    }
    *out = list;
    return BT_OK;
}
