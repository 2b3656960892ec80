/* SPDX-License-Identifier: MIT
 *
 * table.h: the inside of bt_weightfile, for the readers of this folder. */
#ifndef BT_FILE_TABLE_H
#define BT_FILE_TABLE_H

#include "base/mapfile.h"
#include "file/meta.h"

enum { BT_FILE_TENSORS_MAX = 1 << 20, BT_FILE_SHARDS_MAX = 4096 };

struct bt_weightfile {
    bt_file_kind kind;
    char *path;
    bt_mapfile *files; /* [n_files] */
    int n_files;
    bt_tensor_view *views; /* [n] */
    int n, cap;
    bt_map by_name;
    bt_arena names;
    bt_meta config, generation, tokenizer;
    bool has_generation, has_tokenizer;
};

/* Adds a mapped file (taken); *idx is its place. */
bt_status bt_table_add_file(bt_weightfile *t, bt_mapfile file, int *idx, bt_err *err) BT_MUST_USE;
/* Adds a tensor; its name is copied. Names must be unique. n_elements, bytes and data are set by the
 * caller, who has checked them. */
bt_status bt_table_add(bt_weightfile *t, const bt_tensor_view *view, bt_err *err) BT_MUST_USE;

/* Product of a shape; false when a dimension is negative or the product of those that are not 0
 * does not fit, so that no later product of some of them can overflow. */
bool bt_table_elements(const bt_tensor_view *view, uint64_t *n);

/* An empty table for that path; close with bt_weightfile_close. NULL when memory is out. */
bt_weightfile *bt_table_create(const char *path, bt_file_kind kind) BT_MUST_USE;

typedef struct bt_safetensors_args {
    bt_str bytes;     /* the whole file; views borrow from it */
    const char *path; /* for messages */
    int file_idx;
    /* NULL: all tensors are added. Else the tensor's name to its file_idx: only those of this file
     * are, and *n_unlisted (may be NULL) counts those that it does not know at all. */
    const bt_map *wanted;
    int *n_unlisted;
} bt_safetensors_args;

/* From memory: what the readers below do after mapping the file, and what fuzzers call. */
bt_status bt_safetensors_parse(bt_weightfile *t, const bt_safetensors_args *args,
                               bt_err *err) BT_MUST_USE;
bt_status bt_gguf_parse(bt_weightfile *t, bt_str bytes, bt_err *err) BT_MUST_USE;

/* From files, which they map and add to the table. */
bt_status bt_safetensors_read(bt_weightfile *t, const char *path, const bt_map *wanted,
                              int *n_unlisted, bt_err *err) BT_MUST_USE;
bt_status bt_hfdir_read(bt_weightfile *t, bt_err *err) BT_MUST_USE;
bt_status bt_gguf_read(bt_weightfile *t, bt_err *err) BT_MUST_USE;

#endif
