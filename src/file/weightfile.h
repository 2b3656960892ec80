/* SPDX-License-Identifier: MIT
 *
 * weightfile.h: a checkpoint as a table of tensors and metadata, whatever its format.
 *
 * A Hugging Face directory (config.json, model.safetensors or shards with
 * model.safetensors.index.json, generation_config.json, tokenizer_config.json) or a GGUF v2/v3 file.
 * Everything is checked when it is opened: each length, offset, count and product, that tensors do
 * not overlap, leave gaps or pass the end, that names are unique. Immutable and readable by several
 * threads afterwards, but for the used-marks of bt_meta (one thread, at load). */
#ifndef BT_FILE_WEIGHTFILE_H
#define BT_FILE_WEIGHTFILE_H

#include "base/status.h"
#include "tensor/dtype.h"

typedef struct bt_weightfile bt_weightfile;
typedef struct bt_meta bt_meta;

typedef enum bt_file_kind { BT_FILE_HF, BT_FILE_GGUF } bt_file_kind;

/* path: a directory or a *.gguf file (see modelpath.h for names), or a lone *.safetensors file: a
 * table of tensors with an empty configuration. With an index, the index is authoritative: other
 * files, and tensors that it does not list, are left out with one line of warning. A directory
 * without index and model.safetensors may hold one *.safetensors of another name. Errors name file,
 * tensor and byte offset. Returns owned. */
bt_status bt_weightfile_open(const char *path, bt_weightfile **out, bt_err *err) BT_MUST_USE;
void bt_weightfile_close(bt_weightfile *file); /* NULL is allowed */

bt_file_kind bt_weightfile_kind(const bt_weightfile *file);
/* The path it was opened with. */
const char *bt_weightfile_path(const bt_weightfile *file);
/* Sum of the sizes of the files that hold tensors. */
uint64_t bt_weightfile_bytes(const bt_weightfile *file);

int bt_weightfile_count(const bt_weightfile *file);
const bt_tensor_view *bt_weightfile_at(const bt_weightfile *file, int idx);
/* NULL when absent. */
const bt_tensor_view *bt_weightfile_find(const bt_weightfile *file, const char *name);
/* The bytes of rows [first_row, first_row + n_rows) of this tensor will not be read again: their
 * pages may leave memory. Rows count along shape[0]; a scalar is one row. */
void bt_weightfile_drop(const bt_weightfile *file, const bt_tensor_view *view, int64_t first_row,
                        int64_t n_rows);

/* HF: config.json, generation_config.json, tokenizer_config.json; NULL where the file is absent (the
 * first is required). GGUF: the first is the metadata, the other two NULL. */
const bt_meta *bt_weightfile_config(const bt_weightfile *file);
const bt_meta *bt_weightfile_generation_config(const bt_weightfile *file);
const bt_meta *bt_weightfile_tokenizer_config(const bt_weightfile *file);

typedef enum bt_meta_kind {
    BT_META_NULL = 0,
    BT_META_BOOL,
    BT_META_INT,
    BT_META_REAL,
    BT_META_STRING,
    BT_META_ARRAY,
    BT_META_OBJECT /* HF only; its members are reached by dotted keys or bt_meta_member */
} bt_meta_kind;

typedef struct bt_meta_value {
    bt_meta_kind kind;
    bool b;
    int64_t i;
    double f;          /* also set for INT; a GGUF number above 2^63 - 1 is a REAL */
    bt_str s;          /* borrowed from the file */
    size_t n;          /* ARRAY, OBJECT: elements */
    bt_file_kind from; /* what impl is */
    const void *impl;  /* ARRAY, OBJECT: for bt_meta_at, bt_meta_member */
} bt_meta_value;

/* Looks a key up: GGUF "llama.block_count"; HF "rope_scaling.factor" (dots walk into objects; a
 * member whose own name holds a dot is found by its full name first). Marks it used. False when
 * absent. A JSON null gives true with BT_META_NULL. */
bool bt_meta_get(const bt_meta *meta, const char *key, bt_meta_value *out);
/* Element idx of an array, in O(1); false when the value is no array or idx >= value.n. */
bool bt_meta_at(const bt_meta_value *array, size_t idx, bt_meta_value *out);
/* Member of an object, above all of one inside an array; false when absent or no object. */
bool bt_meta_member(const bt_meta_value *object, const char *key, bt_meta_value *out);
/* Keys never asked for, for accounting; HF: dotted leaves and arrays. Start with *iter = 0; false
 * at the end. The key is valid until the file is closed. */
bool bt_meta_next_unused(const bt_meta *meta, size_t *iter, const char **key);
/* Marks a key, and everything below it, used without reading it: known to have no effect. */
void bt_meta_ignore(const bt_meta *meta, const char *key);

#endif
