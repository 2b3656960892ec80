/* SPDX-License-Identifier: MIT
 *
 * dict.c: dictionaries as lists of pairs. They are small (a message, a tool); a search costs steps,
 * so that a large one is slow but bounded. */
#include "jinja/context.h"
#include "jinja/value.h"

#include <string.h>

bt_status bt_jdict_get(bt_jctx *ctx, const bt_jdict *dict, bt_jvalue key, bt_jvalue *out)
{
    if (key.kind == BT_JVAL_STR) {
        return bt_jdict_get_str(ctx, dict, bt_jvalue_bytes(key), out);
    }
    bool found = false;
    *out = (bt_jvalue){.kind = BT_JVAL_UNSET};
    for (size_t i = 0; i < dict->n && !found; i++) {
        BT_TRY(bt_jvalue_equal(ctx, dict->pairs[i].key, key, &found));
        if (found) {
            *out = dict->pairs[i].value;
        }
    }
    return BT_OK;
}

static bt_jpair *find_str(const bt_jdict *dict, bt_str key)
{
    for (size_t i = 0; i < dict->n; i++) {
        bt_jpair *pair = &dict->pairs[i];
        if (pair->key.kind == BT_JVAL_STR && bt_str_eq(bt_jvalue_bytes(pair->key), key)) {
            return pair;
        }
    }
    return NULL;
}

bt_status bt_jdict_get_str(bt_jctx *ctx, const bt_jdict *dict, bt_str key, bt_jvalue *out)
{
    BT_TRY(bt_jctx_charge(ctx, dict->n * 4));
    const bt_jpair *pair = find_str(dict, key);
    *out = pair != NULL ? pair->value : (bt_jvalue){.kind = BT_JVAL_UNSET};
    return BT_OK;
}

static bool hashable(bt_jvalue key)
{
    return key.kind != BT_JVAL_DICT && key.kind != BT_JVAL_NS &&
           !(key.kind == BT_JVAL_LIST && key.as.list->kind == BT_JLIST_LIST);
}

bt_status bt_jdict_set(bt_jctx *ctx, bt_jdict *dict, bt_jvalue key, bt_jvalue value)
{
    if (!hashable(key)) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "a value of type '%s' cannot be a key",
                            bt_jvalue_type(key));
    }
    BT_TRY(bt_jctx_charge(ctx, dict->n * 4));
    for (size_t i = 0; i < dict->n; i++) {
        bool same = key.kind == BT_JVAL_STR && dict->pairs[i].key.kind == BT_JVAL_STR &&
                    bt_str_eq(bt_jvalue_bytes(key), bt_jvalue_bytes(dict->pairs[i].key));
        if (key.kind != BT_JVAL_STR) {
            BT_TRY(bt_jvalue_equal(ctx, dict->pairs[i].key, key, &same));
        }
        if (same) {
            dict->pairs[i].value = value;
            return BT_OK;
        }
    }
    if (dict->n == dict->cap) {
        size_t cap = dict->cap == 0 ? 4 : dict->cap * 2;
        bt_jpair *pairs;
        BT_TRY(bt_jctx_new(ctx, cap, sizeof *pairs, &pairs));
        if (dict->n > 0) {
            memcpy(pairs, dict->pairs, dict->n * sizeof *pairs);
        }
        dict->pairs = pairs;
        dict->cap = cap;
    }
    dict->pairs[dict->n++] = (bt_jpair){key, value};
    return BT_OK;
}

bt_status bt_jdict_view(bt_jctx *ctx, const bt_jdict *dict, bt_jlist_kind kind, bt_jlist **out)
{
    bt_jlist *list;
    BT_TRY(bt_jvalue_new_list(ctx, kind, dict->n, &list));
    for (size_t i = 0; i < dict->n; i++) {
        const bt_jpair *pair = &dict->pairs[i];
        if (kind == BT_JLIST_ITEMS) {
            bt_jlist *both;
            BT_TRY(bt_jvalue_new_list(ctx, BT_JLIST_TUPLE, 2, &both));
            both->items[0] = pair->key;
            both->items[1] = pair->value;
            list->items[i] = bt_jvalue_list(both);
        } else {
            list->items[i] = kind == BT_JLIST_KEYS ? pair->key : pair->value;
        }
    }
    *out = list;
    return BT_OK;
}
