/* SPDX-License-Identifier: MIT
 *
 * meta.h: the inside of bt_meta: one flat list of keys, from JSON or from GGUF. Used by this folder
 * only; see weightfile.h for what others call. */
#ifndef BT_FILE_META_H
#define BT_FILE_META_H

#include "base/arena.h"
#include "base/map.h"
#include "file/weightfile.h"
#include "text/json.h"

/* Where the elements of an array are in a mapped GGUF file. (Of JSON, `impl` is the node.) */
typedef struct bt_meta_array {
    uint32_t gguf_type;
    const unsigned char *data;
    const uint64_t *offset; /* strings: [n] from data to the text's length field */
} bt_meta_array;

typedef struct bt_meta_entry {
    const char *key; /* NUL-terminated */
    bt_meta_value value;
    bool used;
} bt_meta_entry;

struct bt_meta {
    bt_meta_entry *entries;
    size_t n, cap;
    bt_map by_key;
    bt_arena arena; /* keys and array descriptions */
    bt_json *root;  /* owned; NULL for GGUF */
};

enum { BT_META_KEYS_MAX = 1 << 20, BT_META_ARENA_MAX = 512 << 20 };

void bt_meta_init(bt_meta *meta);
void bt_meta_deinit(bt_meta *meta);
/* Adds a key (copied). BT_E_FORMAT when it is there already. */
bt_status bt_meta_add(bt_meta *meta, bt_str key, const bt_meta_value *value,
                      bt_err *err) BT_MUST_USE;
/* Flattens a JSON object with dotted keys; takes `root` also on failure. A dotted key repeats the
 * names above it, so that a small file could claim much: n_text, the size of the JSON text, bounds
 * what the keys may take together. BT_E_LIMIT beyond. */
bt_status bt_meta_from_json(bt_meta *meta, bt_json *root, size_t n_text, bt_err *err) BT_MUST_USE;

/* gguf.c: one element of an array in a mapped file. */
bool bt_gguf_array_at(const bt_meta_array *array, size_t idx, bt_meta_value *out);

#endif
