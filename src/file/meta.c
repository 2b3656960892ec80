/* SPDX-License-Identifier: MIT */
#include "file/meta.h"

#include <string.h>

void bt_meta_init(bt_meta *meta)
{
    memset(meta, 0, sizeof *meta);
    bt_map_init(&meta->by_key, BT_MEM_FILE);
    bt_arena_init(&meta->arena, BT_MEM_FILE, 1 << 16, BT_META_ARENA_MAX);
}

void bt_meta_deinit(bt_meta *meta)
{
    bt_mem_free(meta->entries);
    bt_map_deinit(&meta->by_key);
    bt_arena_deinit(&meta->arena);
    bt_json_close(meta->root);
    memset(meta, 0, sizeof *meta);
}

static bt_status grow(bt_meta *meta, bt_err *err)
{
    if (meta->n < meta->cap) {
        return BT_OK;
    }
    if (meta->n >= BT_META_KEYS_MAX) {
        return bt_fail(err, BT_E_LIMIT, "more than %d keys", BT_META_KEYS_MAX);
    }
    size_t cap = meta->cap == 0 ? 64 : 2 * meta->cap;
    bt_meta_entry *entries = bt_mem_realloc(BT_MEM_FILE, meta->entries, cap, sizeof *entries);
    if (entries == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for %zu keys", cap);
    }
    meta->entries = entries;
    meta->cap = cap;
    return BT_OK;
}

bt_status bt_meta_add(bt_meta *meta, bt_str key, const bt_meta_value *value, bt_err *err)
{
    BT_TRY(grow(meta, err));
    if (key.n >= meta->arena.limit - meta->arena.used) {
        return bt_fail(err, BT_E_LIMIT, "the keys are too long for their nesting");
    }
    char *copy = bt_arena_dup(&meta->arena, key.p, key.n);
    bool added = false;
    if (copy == NULL ||
        !bt_map_add(&meta->by_key, (bt_str){copy, key.n}, (int64_t)meta->n, &added)) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for a key");
    }
    if (!added) {
        return bt_fail(err, BT_E_FORMAT, "key \"%.100s\" appears twice", copy);
    }
    meta->entries[meta->n++] = (bt_meta_entry){.key = copy, .value = *value};
    return BT_OK;
}

static void value_of_json(const bt_json *json, bt_meta_value *out)
{
    bt_meta_value v = {.from = BT_FILE_HF, .impl = json};
    switch (bt_json_kind_of(json)) {
    case BT_JSON_NULL:
        break;
    case BT_JSON_BOOL:
        v.kind = BT_META_BOOL;
        v.b = bt_json_bool(json);
        break;
    case BT_JSON_INT:
        v.kind = BT_META_INT;
        v.i = bt_json_int(json);
        v.f = (double)v.i;
        break;
    case BT_JSON_REAL:
        v.kind = BT_META_REAL;
        v.f = bt_json_real(json);
        break;
    case BT_JSON_STRING:
        v.kind = BT_META_STRING;
        v.s = bt_json_str(json);
        break;
    case BT_JSON_OBJECT:
        v.kind = BT_META_OBJECT;
        v.n = bt_json_count(json);
        break;
    case BT_JSON_ARRAY:
        v.kind = BT_META_ARRAY;
        v.n = bt_json_count(json);
    }
    *out = v;
}

/* Members of one object under a prefix. Recursion is bounded by BT_JSON_DEPTH_MAX. */
static bt_status flatten(bt_meta *meta, const bt_json *object, bt_str prefix, bt_err *err)
{
    void *iter = NULL;
    bt_str key;
    const bt_json *json;
    bt_status status = BT_OK;
    bt_buf path;
    bt_buf_init(&path, BT_MEM_FILE, 1 << 20);
    while (status == BT_OK && bt_json_next(object, &iter, &key, &json)) {
        bt_meta_value v;
        bt_buf_clear(&path);
        bt_buf_push_str(&path, prefix);
        bt_buf_pushz(&path, prefix.n > 0 ? "." : "");
        bt_buf_push_str(&path, key);
        status = bt_buf_ok(&path);
        value_of_json(json, &v);
        if (status != BT_OK) {
            bt_fail(err, status, "a key is too long, or no memory for it");
            break;
        }
        /* "a.b" beside {"a": {"b": …}}: the first one found keeps the name. */
        if (bt_map_find(&meta->by_key, bt_buf_str(&path)) == NULL) {
            status = bt_meta_add(meta, bt_buf_str(&path), &v, err);
        }
        if (status == BT_OK && v.kind == BT_META_OBJECT) {
            status = flatten(meta, json, bt_buf_str(&path), err);
        }
    }
    bt_buf_deinit(&path);
    return status;
}

bt_status bt_meta_from_json(bt_meta *meta, bt_json *root, size_t n_text, bt_err *err)
{
    meta->root = root;
    meta->arena.limit = BT_MIN(meta->arena.limit, 4096 + 16 * n_text);
    if (bt_json_kind_of(root) != BT_JSON_OBJECT) {
        return bt_fail(err, BT_E_FORMAT, "an object is expected, not %s",
                       bt_json_kind_text(bt_json_kind_of(root)));
    }
    return flatten(meta, root, (bt_str){0}, err);
}

bool bt_meta_get(const bt_meta *meta, const char *key, bt_meta_value *out)
{
    const int64_t *idx = bt_map_find(&meta->by_key, bt_str_of(key));
    if (idx == NULL) {
        return false;
    }
    meta->entries[*idx].used = true;
    *out = meta->entries[*idx].value;
    return true;
}

bool bt_meta_at(const bt_meta_value *array, size_t idx, bt_meta_value *out)
{
    if (array->kind != BT_META_ARRAY || idx >= array->n) {
        return false;
    }
    if (array->from == BT_FILE_GGUF) {
        return bt_gguf_array_at(array->impl, idx, out);
    }
    value_of_json(bt_json_at(array->impl, idx), out);
    return true;
}

bool bt_meta_member(const bt_meta_value *object, const char *key, bt_meta_value *out)
{
    if (object->kind != BT_META_OBJECT) {
        return false;
    }
    BT_ASSERT(object->from == BT_FILE_HF);
    const bt_json *member = bt_json_get(object->impl, key);
    if (member == NULL) {
        return false;
    }
    value_of_json(member, out);
    return true;
}

bool bt_meta_next_unused(const bt_meta *meta, size_t *iter, const char **key)
{
    for (; *iter < meta->n; (*iter)++) {
        const bt_meta_entry *e = &meta->entries[*iter];
        if (!e->used && e->value.kind != BT_META_OBJECT) {
            *key = e->key;
            (*iter)++;
            return true;
        }
    }
    return false;
}

void bt_meta_ignore(const bt_meta *meta, const char *key)
{
    size_t n = strlen(key);
    for (size_t i = 0; i < meta->n; i++) {
        const char *k = meta->entries[i].key;
        if (strncmp(k, key, n) == 0 && (k[n] == '\0' || k[n] == '.')) {
            meta->entries[i].used = true;
        }
    }
}
