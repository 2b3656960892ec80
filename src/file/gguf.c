/* SPDX-License-Identifier: MIT
 *
 * GGUF v2 and v3, little endian (docs/gguf.md of the ggml repository):
 *
 *   "GGUF" u32 version, u64 n_tensors, u64 n_kv
 *   n_kv × { string key, u32 type, value }           string: u64 length, bytes
 *   n_tensors × { string name, u32 n_dims, u64 dims[n_dims] (fastest first), u32 type, u64 offset }
 *   padding to general.alignment, then the data
 *
 * Each number is checked against what is left of the file before it is used. */
#include "file/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef enum gguf_type {
    GGUF_U8 = 0,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE_COUNT
} gguf_type;

static const uint8_t type_bytes[GGUF_TYPE_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* Type numbers of ggml.h. A NULL name was removed from the format. */
enum { NO_DTYPE = -1 };
static const struct {
    const char *name;
    int dtype;
} ggml_types[] = {
    [0] = {"F32", BT_DTYPE_F32},   [1] = {"F16", BT_DTYPE_F16},    [2] = {"Q4_0", BT_DTYPE_Q4_0},
    [3] = {"Q4_1", BT_DTYPE_Q4_1}, [6] = {"Q5_0", BT_DTYPE_Q5_0},  [7] = {"Q5_1", BT_DTYPE_Q5_1},
    [8] = {"Q8_0", BT_DTYPE_Q8_0}, [9] = {"Q8_1", NO_DTYPE},       [10] = {"Q2_K", NO_DTYPE},
    [11] = {"Q3_K", NO_DTYPE},     [12] = {"Q4_K", NO_DTYPE},      [13] = {"Q5_K", NO_DTYPE},
    [14] = {"Q6_K", NO_DTYPE},     [15] = {"Q8_K", NO_DTYPE},      [16] = {"IQ2_XXS", NO_DTYPE},
    [17] = {"IQ2_XS", NO_DTYPE},   [18] = {"IQ3_XXS", NO_DTYPE},   [19] = {"IQ1_S", NO_DTYPE},
    [20] = {"IQ4_NL", NO_DTYPE},   [21] = {"IQ3_S", NO_DTYPE},     [22] = {"IQ2_S", NO_DTYPE},
    [23] = {"IQ4_XS", NO_DTYPE},   [24] = {"I8", BT_DTYPE_I8},     [25] = {"I16", BT_DTYPE_I16},
    [26] = {"I32", BT_DTYPE_I32},  [27] = {"I64", BT_DTYPE_I64},   [28] = {"F64", BT_DTYPE_F64},
    [29] = {"IQ1_M", NO_DTYPE},    [30] = {"BF16", BT_DTYPE_BF16}, [34] = {"TQ1_0", NO_DTYPE},
    [35] = {"TQ2_0", NO_DTYPE},    [39] = {"MXFP4", NO_DTYPE},
};

typedef struct cursor {
    bt_weightfile *table;
    const unsigned char *p;
    size_t n, at;
    bt_str of; /* the key or tensor being read, for messages */
} cursor;

static bt_status cut(const cursor *c, bt_err *err, const char *what)
{
    return bt_fail_at(err, BT_E_FORMAT, (int64_t)c->at,
                      "%s: %s (\"%.*s\") at byte %zu passes the end of the file (%zu bytes); "
                      "incomplete download?",
                      c->table->path, what, (int)BT_MIN(c->of.n, (size_t)200),
                      c->of.p == NULL ? "" : c->of.p, c->at, c->n);
}

static bt_status take(cursor *c, size_t n, const unsigned char **out, const char *what, bt_err *err)
{
    if (n > c->n - c->at) {
        return cut(c, err, what);
    }
    *out = c->p + c->at;
    c->at += n;
    return BT_OK;
}

static uint64_t read_unsigned(const unsigned char *p, int n)
{
    uint64_t v = 0;
    for (int i = n - 1; i >= 0; i--) {
        v = v << 8 | p[i];
    }
    return v;
}

static bt_status take_unsigned(cursor *c, int n, uint64_t *out, const char *what, bt_err *err)
{
    const unsigned char *p = NULL;
    BT_TRY(take(c, (size_t)n, &p, what, err));
    *out = read_unsigned(p, n);
    return BT_OK;
}

static bt_status take_string(cursor *c, bt_str *out, const char *what, bt_err *err)
{
    uint64_t n = 0;
    const unsigned char *p = NULL;
    BT_TRY(take_unsigned(c, 8, &n, what, err));
    if (n > c->n - c->at) {
        return cut(c, err, what);
    }
    BT_TRY(take(c, (size_t)n, &p, what, err));
    *out = (bt_str){(const char *)p, (size_t)n};
    return BT_OK;
}

/* A value of a plain type from its bytes. */
static void decode(gguf_type type, const unsigned char *p, bt_meta_value *v)
{
    *v = (bt_meta_value){.kind = BT_META_INT};
    uint64_t u = read_unsigned(p, type_bytes[type]);
    uint32_t u32 = (uint32_t)u;
    float f32;
    switch (type) {
    case GGUF_BOOL:
        v->kind = BT_META_BOOL;
        v->b = u != 0;
        return;
    case GGUF_F32:
        v->kind = BT_META_REAL;
        memcpy(&f32, &u32, sizeof f32);
        v->f = (double)f32;
        return;
    case GGUF_F64:
        v->kind = BT_META_REAL;
        memcpy(&v->f, &u, sizeof v->f);
        return;
    case GGUF_I8:
        v->i = (int8_t)u;
        break;
    case GGUF_I16:
        v->i = (int16_t)u;
        break;
    case GGUF_I32:
        v->i = (int32_t)u;
        break;
    case GGUF_U64:
        if (u > INT64_MAX) { /* no whole number that anybody asks for */
            v->kind = BT_META_REAL;
            v->f = (double)u;
            return;
        }
        v->i = (int64_t)u;
        break;
    default:
        v->i = (int64_t)u;
    }
    v->f = (double)v->i;
}

bool bt_gguf_array_at(const bt_meta_array *a, size_t idx, bt_meta_value *out)
{
    if (a->gguf_type == GGUF_STRING) {
        const unsigned char *p = a->data + a->offset[idx];
        *out = (bt_meta_value){.kind = BT_META_STRING,
                               .s = {(const char *)p + 8, (size_t)read_unsigned(p, 8)}};
        return true;
    }
    if (a->gguf_type == GGUF_ARRAY) {
        return false;
    }
    decode((gguf_type)a->gguf_type, a->data + idx * type_bytes[a->gguf_type], out);
    return true;
}

static bt_status read_array(cursor *c, bt_meta_value *v, bt_err *err)
{
    uint64_t type = 0, n = 0;
    BT_TRY(take_unsigned(c, 4, &type, "an array", err));
    BT_TRY(take_unsigned(c, 8, &n, "an array", err));
    if (type >= GGUF_TYPE_COUNT || type == GGUF_ARRAY) {
        return bt_fail_at(err, type == GGUF_ARRAY ? BT_E_UNSUPPORTED : BT_E_FORMAT, (int64_t)c->at,
                          "%s: \"%.*s\" is an array of type %" PRIu64
                          ", which betoken does not read",
                          c->table->path, (int)BT_MIN(c->of.n, (size_t)200), c->of.p, type);
    }
    size_t least = type == GGUF_STRING ? 8 : type_bytes[type];
    if (n > (c->n - c->at) / least) { /* also bounds what is allocated below */
        return cut(c, err, "an array");
    }
    bt_arena *arena = &c->table->config.arena;
    bt_meta_array *array = bt_arena_calloc(arena, 1, sizeof *array);
    uint64_t *offset =
        type == GGUF_STRING ? bt_arena_calloc(arena, (size_t)n + 1, sizeof *offset) : NULL;
    if (array == NULL || (type == GGUF_STRING && offset == NULL)) {
        return bt_fail(err, BT_E_NO_MEMORY, "%s: no memory for an array", c->table->path);
    }
    *array = (bt_meta_array){.gguf_type = (uint32_t)type, .data = c->p + c->at, .offset = offset};
    *v =
        (bt_meta_value){.kind = BT_META_ARRAY, .from = BT_FILE_GGUF, .n = (size_t)n, .impl = array};
    const unsigned char *skip = NULL;
    if (type != GGUF_STRING) {
        return take(c, (size_t)n * type_bytes[type], &skip, "an array", err);
    }
    size_t begin = c->at;
    for (uint64_t i = 0; i < n; i++) {
        bt_str text;
        offset[i] = c->at - begin;
        BT_TRY(take_string(c, &text, "a string of an array", err));
    }
    return BT_OK;
}

static bt_status read_value(cursor *c, bt_meta_value *v, bt_err *err)
{
    uint64_t type = 0;
    const unsigned char *p = NULL;
    BT_TRY(take_unsigned(c, 4, &type, "a value", err));
    if (type == GGUF_ARRAY) {
        return read_array(c, v, err);
    }
    if (type == GGUF_STRING) {
        *v = (bt_meta_value){.kind = BT_META_STRING};
        return take_string(c, &v->s, "a string", err);
    }
    if (type >= GGUF_TYPE_COUNT) {
        return bt_fail_at(err, BT_E_FORMAT, (int64_t)c->at,
                          "%s: \"%.*s\" is of unknown type %" PRIu64, c->table->path,
                          (int)BT_MIN(c->of.n, (size_t)200), c->of.p, type);
    }
    BT_TRY(take(c, type_bytes[type], &p, "a value", err));
    decode((gguf_type)type, p, v);
    return BT_OK;
}

static bt_status read_metadata(cursor *c, uint64_t n_kv, bt_err *err)
{
    for (uint64_t i = 0; i < n_kv; i++) {
        bt_str key;
        bt_meta_value value;
        BT_TRY(take_string(c, &key, "a metadata key", err));
        if (memchr(key.p, '\0', key.n) != NULL || key.n > 1024) {
            return bt_fail_at(err, BT_E_FORMAT, (int64_t)c->at, "%s: bad metadata key %" PRIu64,
                              c->table->path, i);
        }
        c->of = key;
        BT_TRY(read_value(c, &value, err));
        c->of = (bt_str){0};
        bt_status status = bt_meta_add(&c->table->config, key, &value, err);
        if (status != BT_OK) {
            bt_err_prefix(err, "%s", c->table->path);
            return status;
        }
    }
    return BT_OK;
}

static bt_status set_type(const cursor *c, bt_tensor_view *view, uint64_t type, bt_err *err)
{
    bool known = type < BT_COUNT(ggml_types) && ggml_types[type].name != NULL;
    if (!known || ggml_types[type].dtype == NO_DTYPE) {
        return bt_fail(err, BT_E_UNSUPPORTED,
                       "%s: tensor \"%.*s\" has type %s (%" PRIu64
                       "); F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 are supported",
                       c->table->path, (int)BT_MIN(view->name.n, (size_t)200), view->name.p,
                       known ? ggml_types[type].name : "unknown", type);
    }
    view->dtype = (bt_dtype)ggml_types[type].dtype;
    return BT_OK;
}

/* Everything but the data pointer; `offset` into the data section. */
static bt_status read_tensor(cursor *c, uint64_t *offset, bt_err *err)
{
    bt_tensor_view view = {0};
    uint64_t n_dims = 0, type = 0;
    c->of = (bt_str){0};
    BT_TRY(take_string(c, &view.name, "a tensor's name", err));
    c->of = view.name;
    BT_TRY(take_unsigned(c, 4, &n_dims, "a tensor", err));
    if (n_dims > BT_TENSOR_DIMS_MAX || memchr(view.name.p, '\0', view.name.n) != NULL) {
        return bt_fail_at(err, BT_E_FORMAT, (int64_t)c->at,
                          "%s: tensor \"%.*s\" has %" PRIu64 " dimensions, 4 are the most",
                          c->table->path, (int)BT_MIN(view.name.n, (size_t)200), view.name.p,
                          n_dims);
    }
    view.n_dims = (int)n_dims;
    for (int i = view.n_dims - 1; i >= 0; i--) { /* the file writes the fastest one first */
        uint64_t dim = 0;
        BT_TRY(take_unsigned(c, 8, &dim, "a tensor", err));
        view.shape[i] = dim > INT64_MAX ? -1 : (int64_t)dim;
    }
    BT_TRY(take_unsigned(c, 4, &type, "a tensor", err));
    BT_TRY(take_unsigned(c, 8, offset, "a tensor", err));
    BT_TRY(set_type(c, &view, type, err));
    int block = bt_dtype_get(view.dtype)->block_elements;
    bool whole = view.n_dims == 0 || view.shape[view.n_dims - 1] % block == 0;
    if (!whole || !bt_table_elements(&view, &view.n_elements) ||
        !bt_dtype_bytes(view.dtype, view.n_elements, &view.bytes)) {
        char shape[96];
        return bt_fail(err, BT_E_FORMAT, "%s: tensor \"%.*s\": shape %s is impossible for %s",
                       c->table->path, (int)BT_MIN(view.name.n, (size_t)200), view.name.p,
                       bt_tensor_shape_text(&view, shape), bt_dtype_get(view.dtype)->name);
    }
    bt_status status = bt_table_add(c->table, &view, err);
    if (status != BT_OK) {
        bt_err_prefix(err, "%s", c->table->path);
    }
    return status;
}

typedef struct extent {
    uint64_t begin, end;
    int tensor_idx;
} extent;

static int by_begin(const void *a, const void *b)
{
    const extent *x = a, *y = b;
    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    return x->end < y->end ? -1 : x->end > y->end;
}

/* Tensors must lie inside the data, aligned, apart from each other. Padding between them is the
 * format's own; a gap that padding does not explain is refused. */
static bt_status check_extents(const cursor *c, extent *e, size_t data_at, uint64_t alignment,
                               bt_err *err)
{
    uint64_t at = 0, n_data = c->n - data_at;
    qsort(e, (size_t)c->table->n, sizeof *e, by_begin);
    for (int i = 0; i < c->table->n; i++) {
        bt_tensor_view *v = &c->table->views[e[i].tensor_idx];
        const char *fault = e[i].end > n_data                         ? "passes the end of the file"
                            : e[i].begin % alignment != 0             ? "is not aligned"
                            : e[i].begin < at && v->bytes > 0         ? "overlaps another tensor"
                            : e[i].begin > BT_ROUND_UP(at, alignment) ? "has a gap before it"
                                                                      : NULL;
        if (fault != NULL) {
            return bt_fail_at(err, BT_E_FORMAT, (int64_t)e[i].begin,
                              "%s: tensor \"%.*s\" at data offset %" PRIu64 " %s%s", c->table->path,
                              (int)BT_MIN(v->name.n, (size_t)200), v->name.p, e[i].begin, fault,
                              e[i].end > n_data ? "; incomplete download?" : "");
        }
        v->data = c->p + data_at + e[i].begin;
        at = BT_MAX(at, e[i].end);
    }
    /* Writers pad the end too, by less than one alignment. */
    return n_data - at < alignment
               ? BT_OK
               : bt_fail_at(err, BT_E_FORMAT, (int64_t)(data_at + at),
                            "%s: %" PRIu64 " bytes after the last tensor belong to none",
                            c->table->path, n_data - at);
}

static bt_status read_alignment(const cursor *c, uint64_t *out, bt_err *err)
{
    bt_meta_value v;
    *out = 32;
    if (!bt_meta_get(&c->table->config, "general.alignment", &v)) {
        return BT_OK;
    }
    if (v.kind != BT_META_INT || v.i < 1 || v.i > 1 << 20 || (v.i & (v.i - 1)) != 0) {
        return bt_fail(err, BT_E_FORMAT, "%s: general.alignment must be a power of two",
                       c->table->path);
    }
    *out = (uint64_t)v.i;
    return BT_OK;
}

static bt_status read_tensors(cursor *c, uint64_t n_tensors, bt_err *err)
{
    uint64_t alignment = 32;
    BT_TRY(read_alignment(c, &alignment, err));
    if (n_tensors > (c->n - c->at) / 24) {
        return cut(c, err, "the list of tensors");
    }
    extent *extents = bt_mem_calloc(BT_MEM_FILE, (size_t)n_tensors + 1, sizeof *extents);
    if (extents == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "%s: no memory for its tensors", c->table->path);
    }
    bt_status status = BT_OK;
    for (uint64_t i = 0; i < n_tensors && status == BT_OK; i++) {
        status = read_tensor(c, &extents[i].begin, err);
        if (status == BT_OK) {
            size_t end;
            extents[i].tensor_idx = (int)i;
            bool fits = bt_add_ok((size_t)extents[i].begin, c->table->views[i].bytes, &end);
            extents[i].end = fits ? end : UINT64_MAX;
        }
    }
    size_t data_at = BT_ROUND_UP(c->at, (size_t)alignment);
    if (status == BT_OK && (n_tensors == 0 || data_at > c->n)) {
        status = n_tensors == 0 ? bt_fail(err, BT_E_FORMAT, "%s holds no tensor", c->table->path)
                                : cut(c, err, "the data");
    }
    if (status == BT_OK) {
        status = check_extents(c, extents, data_at, alignment, err);
    }
    bt_mem_free(extents);
    return status;
}

static bt_status check_version(cursor *c, bt_err *err)
{
    uint64_t version = 0;
    const unsigned char *magic = NULL;
    if (c->n < 4 || memcmp(c->p, "GGUF", 4) != 0) {
        return bt_fail_at(err, BT_E_FORMAT, 0, "%s: not a GGUF file", c->table->path);
    }
    BT_TRY(take(c, 4, &magic, "the header", err));
    BT_TRY(take_unsigned(c, 4, &version, "the header", err));
    if (version == 2u << 24 || version == 3u << 24) {
        return bt_fail(err, BT_E_UNSUPPORTED, "%s: big-endian GGUF is not supported",
                       c->table->path);
    }
    if (version != 2 && version != 3) {
        return bt_fail(err, BT_E_UNSUPPORTED, "%s: GGUF version %" PRIu64 "; 2 and 3 are supported",
                       c->table->path, version);
    }
    return BT_OK;
}

static bt_status check_split(const cursor *c, bt_err *err)
{
    bt_meta_value v;
    if (bt_meta_get(&c->table->config, "split.count", &v) && v.kind == BT_META_INT && v.i > 1) {
        return bt_fail(err, BT_E_UNSUPPORTED,
                       "%s: one part of a split GGUF (split.count %" PRId64
                       "); merge the parts first",
                       c->table->path, v.i);
    }
    bt_meta_ignore(&c->table->config, "split");
    return BT_OK;
}

bt_status bt_gguf_parse(bt_weightfile *t, bt_str bytes, bt_err *err)
{
    uint64_t n_tensors = 0, n_kv = 0;
    cursor c = {.table = t, .p = (const unsigned char *)bytes.p, .n = bytes.n};
    BT_TRY(check_version(&c, err));
    BT_TRY(take_unsigned(&c, 8, &n_tensors, "the header", err));
    BT_TRY(take_unsigned(&c, 8, &n_kv, "the header", err));
    BT_TRY(read_metadata(&c, n_kv, err));
    BT_TRY(check_split(&c, err));
    return read_tensors(&c, n_tensors, err);
}

bt_status bt_gguf_read(bt_weightfile *t, bt_err *err)
{
    bt_mapfile file;
    int idx;
    BT_TRY(bt_mapfile_open(t->path, &file, err));
    BT_TRY(bt_table_add_file(t, file, &idx, err));
    return bt_gguf_parse(t, (bt_str){(const char *)file.p, file.n}, err);
}
