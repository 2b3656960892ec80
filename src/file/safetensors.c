/* SPDX-License-Identifier: MIT
 *
 * safetensors: 8 bytes of length n (little endian), n bytes of JSON, then the data.
 *
 *   {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …, "__metadata__": {…}}
 *
 * (README of the safetensors repository.) The tensors must cover the data without gap or overlap. */
#include "file/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_MAX = 100 << 20 };

typedef struct span {
    uint64_t begin, end;
    bt_str name;
} span;

typedef struct reader {
    bt_weightfile *table;
    const char *path;
    const unsigned char *data;
    uint64_t n_data;
    int file_idx;
    const bt_map *wanted; /* NULL, or tensor name to the file_idx that the index gives it */
    int *n_unlisted;
} reader;

static bt_status bad(const reader *r, bt_str name, bt_err *err, const char *what)
{
    return bt_fail(err, BT_E_FORMAT, "%s: tensor \"%.*s\": %s", r->path,
                   (int)BT_MIN(name.n, (size_t)200), name.p, what);
}

static bt_status read_dtype(const reader *r, bt_str name, const bt_json *json, bt_dtype *out,
                            bt_err *err)
{
    if (json == NULL || bt_json_kind_of(json) != BT_JSON_STRING) {
        return bad(r, name, err, "dtype must be a string");
    }
    /* The block formats of GGUF have names too, but not here. */
    bt_str s = bt_json_str(json);
    bt_dtype dtype;
    if (bt_dtype_parse(s, &dtype) && bt_dtype_get(dtype)->block_elements == 1) {
        *out = dtype;
        return BT_OK;
    }
    return bt_fail(err, BT_E_UNSUPPORTED, "%s: tensor \"%.*s\": unknown dtype \"%.*s\"", r->path,
                   (int)BT_MIN(name.n, (size_t)200), name.p, (int)BT_MIN(s.n, (size_t)20), s.p);
}

static bool read_whole(const bt_json *json, uint64_t *out)
{
    if (json == NULL || bt_json_kind_of(json) != BT_JSON_INT || bt_json_int(json) < 0) {
        return false;
    }
    *out = (uint64_t)bt_json_int(json);
    return true;
}

static bt_status read_shape(const reader *r, const bt_json *json, bt_tensor_view *view, bt_err *err)
{
    if (json == NULL || bt_json_kind_of(json) != BT_JSON_ARRAY) {
        return bad(r, view->name, err, "shape must be a list");
    }
    if (bt_json_count(json) > BT_TENSOR_DIMS_MAX) {
        return bad(r, view->name, err, "more than 4 dimensions");
    }
    view->n_dims = (int)bt_json_count(json);
    for (int i = 0; i < view->n_dims; i++) {
        uint64_t n;
        if (!read_whole(bt_json_at(json, (size_t)i), &n)) {
            return bad(r, view->name, err, "shape must hold whole numbers, none negative");
        }
        view->shape[i] = (int64_t)n;
    }
    return BT_OK;
}

/* With an index, a shard may hold a tensor that the index takes from elsewhere or from nowhere. */
static bool is_wanted(const reader *r, bt_str name)
{
    if (r->wanted == NULL) {
        return true;
    }
    const int64_t *file_idx = bt_map_find(r->wanted, name);
    *r->n_unlisted += file_idx == NULL;
    return file_idx != NULL && *file_idx == r->file_idx;
}

static bt_status read_tensor(const reader *r, bt_str name, const bt_json *json, span *where,
                             bt_err *err)
{
    bt_tensor_view view = {.name = name, .file_idx = r->file_idx};
    if (bt_json_kind_of(json) != BT_JSON_OBJECT) {
        return bad(r, name, err, "an object is expected");
    }
    BT_TRY(read_dtype(r, name, bt_json_get(json, "dtype"), &view.dtype, err));
    BT_TRY(read_shape(r, bt_json_get(json, "shape"), &view, err));
    const bt_json *offsets = bt_json_get(json, "data_offsets");
    if (offsets == NULL || bt_json_kind_of(offsets) != BT_JSON_ARRAY ||
        bt_json_count(offsets) != 2 || !read_whole(bt_json_at(offsets, 0), &where->begin) ||
        !read_whole(bt_json_at(offsets, 1), &where->end)) {
        return bad(r, name, err, "data_offsets must be two whole numbers, none negative");
    }
    where->name = name;
    if (where->begin > where->end) {
        return bad(r, name, err, "data_offsets run backwards");
    }
    if (where->end > r->n_data) {
        return bt_fail(err, BT_E_FORMAT,
                       "%s: tensor \"%.*s\": data_offsets [%" PRIu64 ", %" PRIu64
                       "] pass the %" PRIu64 " bytes of data; incomplete download?",
                       r->path, (int)BT_MIN(name.n, (size_t)200), name.p, where->begin, where->end,
                       r->n_data);
    }
    size_t bytes;
    if (!bt_table_elements(&view, &view.n_elements) ||
        !bt_dtype_bytes(view.dtype, view.n_elements, &bytes) ||
        bytes != where->end - where->begin) {
        char shape[96];
        return bt_fail(err, BT_E_FORMAT,
                       "%s: tensor \"%.*s\": %" PRIu64 " bytes do not hold shape %s of %s", r->path,
                       (int)BT_MIN(name.n, (size_t)200), name.p, where->end - where->begin,
                       bt_tensor_shape_text(&view, shape), bt_dtype_get(view.dtype)->name);
    }
    view.bytes = bytes;
    view.data = r->data + where->begin;
    if (!is_wanted(r, name)) {
        return BT_OK;
    }
    bt_status status = bt_table_add(r->table, &view, err);
    if (status != BT_OK) {
        bt_err_prefix(err, "%s", r->path);
    }
    return status;
}

static int by_begin(const void *a, const void *b)
{
    const span *x = a, *y = b;
    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    return x->end < y->end ? -1 : x->end > y->end;
}

static bt_status check_cover(const reader *r, span *spans, size_t n, bt_err *err)
{
    qsort(spans, n, sizeof *spans, by_begin);
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (spans[i].begin != at) {
            return bad(r, spans[i].name, err,
                       spans[i].begin < at ? "its bytes overlap another tensor's"
                                           : "there is a gap before its bytes");
        }
        at = spans[i].end;
    }
    return at == r->n_data
               ? BT_OK
               : bt_fail(err, BT_E_FORMAT, "%s: %" PRIu64 " bytes after the last tensor", r->path,
                         r->n_data - at);
}

static bt_status read_header(const reader *r, const bt_json *root, bt_err *err)
{
    if (bt_json_kind_of(root) != BT_JSON_OBJECT) {
        return bt_fail(err, BT_E_FORMAT, "%s: the header is not an object", r->path);
    }
    span *spans = bt_mem_calloc(BT_MEM_FILE, bt_json_count(root) + 1, sizeof *spans);
    if (spans == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "%s: no memory for its tensors", r->path);
    }
    size_t n = 0;
    void *iter = NULL;
    bt_str name;
    const bt_json *json;
    bt_status status = BT_OK;
    while (status == BT_OK && bt_json_next(root, &iter, &name, &json)) {
        if (!bt_str_eqz(name, "__metadata__")) {
            status = read_tensor(r, name, json, &spans[n++], err);
        }
    }
    if (status == BT_OK) {
        status = check_cover(r, spans, n, err);
    }
    bt_mem_free(spans);
    return status;
}

bt_status bt_safetensors_parse(bt_weightfile *t, const bt_safetensors_args *args, bt_err *err)
{
    bt_str bytes = args->bytes;
    int n_unlisted = 0;
    uint64_t n_header = 0;
    for (int i = 7; bytes.n >= 8 && i >= 0; i--) {
        n_header = n_header << 8 | (unsigned char)bytes.p[i];
    }
    if (bytes.n < 8 || n_header > bytes.n - 8 || n_header > HEADER_MAX) {
        return bt_fail_at(err, BT_E_FORMAT, 0,
                          "%s: no safetensors header fits in %zu bytes; incomplete download?",
                          args->path, bytes.n);
    }
    reader r = {.table = t,
                .path = args->path,
                .data = (const unsigned char *)bytes.p + 8 + n_header,
                .n_data = bytes.n - 8 - n_header,
                .file_idx = args->file_idx,
                .wanted = args->wanted,
                .n_unlisted = args->n_unlisted != NULL ? args->n_unlisted : &n_unlisted};
    bt_json *root = NULL;
    bt_status status = bt_json_parse((bt_str){bytes.p + 8, (size_t)n_header}, &root, err);
    if (status != BT_OK) {
        bt_err_prefix(err, "%s: header", args->path);
        return status;
    }
    status = read_header(&r, root, err);
    bt_json_close(root);
    return status;
}

bt_status bt_safetensors_read(bt_weightfile *t, const char *path, const bt_map *wanted,
                              int *n_unlisted, bt_err *err)
{
    bt_mapfile file;
    bt_safetensors_args args = {.path = path, .wanted = wanted, .n_unlisted = n_unlisted};
    BT_TRY(bt_mapfile_open(path, &file, err));
    BT_TRY(bt_table_add_file(t, file, &args.file_idx, err));
    args.bytes = (bt_str){(const char *)file.p, file.n};
    return bt_safetensors_parse(t, &args, err);
}
