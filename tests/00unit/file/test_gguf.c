/* SPDX-License-Identifier: MIT
 *
 * Goal: a GGUF file gives metadata and a table, or an error that names what is wrong and where.
 * Method: files written here, with each value type; one broken file for each rule; all prefixes and
 * seeded byte flips, in a heap block of exactly the file's size for AddressSanitizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "file/table.h"
#include "filemaker.h"

typedef struct outcome {
    bt_weightfile *table; /* NULL: no memory */
    const bt_meta *meta;
    bt_status status;
    bt_err err;
} outcome;

static void parse(outcome *o, const char *bytes, size_t n)
{
    memset(o, 0, sizeof *o);
    o->table = bt_table_create("x.gguf", BT_FILE_GGUF);
    o->status = BT_E_NO_MEMORY;
    if (o->table != NULL) {
        o->meta = bt_weightfile_config(o->table);
        o->status = bt_gguf_parse(o->table, (bt_str){bytes, n}, &o->err);
    }
}

static void outcome_deinit(outcome *o)
{
    bt_weightfile_close(o->table);
}

static void put_entries(bt_buf *b)
{
    put_str(b, "general.architecture"), put(b, GT_STR, 4), put_str(b, "llama");
    put_str(b, "a.u8"), put(b, GT_U8, 4), put(b, 200, 1);
    put_str(b, "a.i8"), put(b, GT_I8, 4), put(b, 200, 1);
    put_str(b, "a.i16"), put(b, GT_I16, 4), put(b, 0xFFFE, 2);
    put_str(b, "a.u16"), put(b, GT_U16, 4), put(b, 0xFFFE, 2);
    put_str(b, "a.u32"), put(b, GT_U32, 4), put(b, 0xFFFFFFFF, 4);
    put_str(b, "a.i32"), put(b, GT_I32, 4), put(b, 0xFFFFFFFF, 4);
    put_str(b, "a.u64"), put(b, GT_U64, 4), put(b, UINT64_MAX, 8);
    put_str(b, "a.i64"), put(b, 11, 4), put(b, UINT64_MAX, 8);
    put_str(b, "a.f32"), put(b, GT_F32, 4), put(b, 0x3FC00000, 4);
    put_str(b, "a.f64"), put(b, 12, 4), put(b, 0x3FF8000000000000u, 8);
    put_str(b, "a.bool"), put(b, GT_BOOL, 4), put(b, 1, 1);
    put_str(b, "tokens"), put(b, GT_ARR, 4), put(b, GT_STR, 4), put(b, 3, 8);
    put_str(b, "one"), put_str(b, ""), put_str(b, "three");
    put_str(b, "ints"), put(b, GT_ARR, 4), put(b, GT_I32, 4), put(b, 2, 8);
    put(b, 7, 4), put(b, 0xFFFFFFF9, 4);
}

enum { N_ENTRIES = 14 };

/* Two matrices and an empty tensor. */
static void put_good(bt_buf *b)
{
    put_header(b, 3, N_ENTRIES);
    put_entries(b);
    put_tensor(b, "w", 2, (uint64_t[]){64, 2}, GGML_Q4_0, 0);     /* 72 bytes */
    put_tensor(b, "marker", 2, (uint64_t[]){0, 5}, GGML_F32, 96); /* case 55 */
    put_tensor(b, "n", 1, (uint64_t[]){3}, GGML_F32, 96);
    pad(b, 32);
    size_t start = b->n;
    for (size_t i = 0; i < 72; i++) {
        bt_buf_push_char(b, (char)i);
    }
    pad(b, 32);
    assert_int_equal(b->n - start, 96);
    for (size_t i = 0; i < 12; i++) {
        bt_buf_push_char(b, (char)i);
    }
}

static bt_meta_value get(const outcome *o, const char *key)
{
    bt_meta_value v;
    if (!bt_meta_get(o->meta, key, &v)) {
        fail_msg("no %s", key);
    }
    return v;
}

static void check_scalars(const outcome *o)
{
    assert_true(bt_str_eqz(get(o, "general.architecture").s, "llama"));
    assert_int_equal(get(o, "a.u8").i, 200);
    assert_int_equal(get(o, "a.i8").i, -56);
    assert_int_equal(get(o, "a.i16").i, -2);
    assert_int_equal(get(o, "a.u16").i, 0xFFFE);
    assert_int_equal(get(o, "a.u32").i, 0xFFFFFFFF);
    assert_int_equal(get(o, "a.i32").i, -1);
    assert_int_equal(get(o, "a.i64").i, -1);
    assert_true(get(o, "a.i64").f == -1.0);
    assert_int_equal(get(o, "a.u64").kind, BT_META_REAL);
    assert_true(get(o, "a.u64").f == 0x1p64);
    assert_true(get(o, "a.f32").f == 1.5 && get(o, "a.f64").f == 1.5);
    assert_true(get(o, "a.bool").kind == BT_META_BOOL && get(o, "a.bool").b);
}

static void reads_values_and_tensors(void **state)
{
    (void)state;
    bt_buf b;
    bt_buf_init(&b, BT_MEM_BASE, MAKER_BYTES_MAX);
    put_good(&b);
    outcome o;
    parse(&o, b.p, b.n);
    if (o.status != BT_OK) {
        fail_msg("%s", o.err.message);
    }
    check_scalars(&o);
    bt_meta_value tokens = get(&o, "tokens"), ints = get(&o, "ints"), v;
    assert_true(tokens.kind == BT_META_ARRAY && tokens.n == 3);
    assert_true(bt_meta_at(&tokens, 2, &v) && bt_str_eqz(v.s, "three"));
    assert_true(bt_meta_at(&tokens, 1, &v) && v.s.n == 0);
    assert_false(bt_meta_at(&tokens, 3, &v));
    assert_true(bt_meta_at(&ints, 1, &v) && v.i == -7);
    const bt_tensor_view *w = bt_weightfile_find(o.table, "w");
    assert_true(w->n_dims == 2 && w->shape[0] == 2 && w->shape[1] == 64);
    assert_true(w->dtype == BT_DTYPE_Q4_0 && w->bytes == 72 && w->data[71] == 71);
    const bt_tensor_view *n = bt_weightfile_find(o.table, "n");
    assert_true(n->bytes == 12 && n->data[11] == 11);
    assert_int_equal(bt_weightfile_find(o.table, "marker")->n_elements, 0);
    outcome_deinit(&o);
    bt_buf_deinit(&b);
}

static void unused_keys_are_accounted_for(void **state)
{
    (void)state;
    bt_buf b;
    bt_buf_init(&b, BT_MEM_BASE, MAKER_BYTES_MAX);
    put_good(&b);
    outcome o;
    parse(&o, b.p, b.n);
    assert_int_equal(o.status, BT_OK);
    get(&o, "tokens");
    bt_meta_ignore(o.meta, "a");
    bt_meta_ignore(o.meta, "int"); /* a prefix of a name is not above it */
    const char *key, *want[] = {"general.architecture", "ints"};
    size_t iter = 0, n = 0;
    while (bt_meta_next_unused(o.meta, &iter, &key)) {
        assert_true(n < 2);
        assert_string_equal(key, want[n++]);
    }
    assert_int_equal(n, 2);
    outcome_deinit(&o);
    bt_buf_deinit(&b);
}

static void expect(bt_buf *b, bt_status status, const char *word)
{
    outcome o;
    parse(&o, b->p, b->n);
    if (o.status != status || strstr(o.err.message, word) == NULL ||
        strstr(o.err.message, "x.gguf") == NULL) {
        fail_msg("gave %s \"%s\", expected %s with \"%s\"", bt_status_name(o.status), o.err.message,
                 bt_status_name(status), word);
    }
    outcome_deinit(&o);
}

static void refuses_versions_and_parts(void **state)
{
    (void)state;
    bt_buf b;
    bt_buf_init(&b, BT_MEM_BASE, MAKER_BYTES_MAX);
    put_header(&b, 0, 0);
    expect(&b, BT_E_FORMAT, "holds no tensor");
    b.p[4] = 1;
    expect(&b, BT_E_UNSUPPORTED, "version 1");
    b.p[4] = 4;
    expect(&b, BT_E_UNSUPPORTED, "version 4");
    b.p[4] = 0, b.p[7] = 3;
    expect(&b, BT_E_UNSUPPORTED, "big-endian");
    b.p[0] = 'g';
    expect(&b, BT_E_FORMAT, "not a GGUF file");
    put_header(&b, 0, 1);
    put_str(&b, "split.count"), put(&b, GT_U16, 4), put(&b, 3, 2);
    expect(&b, BT_E_UNSUPPORTED, "split.count 3");
    put_header(&b, 0, 1);
    put_str(&b, "general.alignment"), put(&b, GT_U32, 4), put(&b, 24, 4);
    expect(&b, BT_E_FORMAT, "power of two");
    put_header(&b, 0, 1);
    put_str(&b, "general.alignment"), put(&b, GT_U32, 4), put(&b, 0, 4);
    expect(&b, BT_E_FORMAT, "power of two");
    bt_buf_deinit(&b);
}

static void refuses_bad_values(void **state)
{
    (void)state;
    bt_buf b;
    bt_buf_init(&b, BT_MEM_BASE, MAKER_BYTES_MAX);
    put_header(&b, 0, 1);
    put_str(&b, "key"), put(&b, 13, 4), put(&b, 0, 8);
    expect(&b, BT_E_FORMAT, "\"key\" is of unknown type 13");
    put_header(&b, 0, 1);
    put_str(&b, "key"), put(&b, GT_ARR, 4), put(&b, GT_STR, 4), put(&b, 1ull << 60, 8);
    expect(&b, BT_E_FORMAT, "(\"key\")");
    put_header(&b, 0, 1);
    put(&b, UINT64_MAX, 8), put(&b, 0, 8);
    expect(&b, BT_E_FORMAT, "a metadata key");
    put_header(&b, 0, 2);
    put_str(&b, "key"), put(&b, GT_U8, 4), put(&b, 2, 1);
    put_str(&b, "key"), put(&b, GT_U8, 4), put(&b, 2, 1);
    expect(&b, BT_E_FORMAT, "\"key\" appears twice");
    put_header(&b, 1ull << 40, 0);
    expect(&b, BT_E_FORMAT, "list of tensors");
    put_header(&b, 0, 1);
    put_str(&b, "key"), put(&b, GT_ARR, 4);
    for (int i = 0; i < 6; i++) {
        put(&b, GT_ARR, 4), put(&b, 1, 8);
    }
    put(&b, 0, 8);
    expect(&b, BT_E_UNSUPPORTED, "\"key\" is an array of type 9");
    bt_buf_deinit(&b);
}

/* One tensor of the given kind, with n_data bytes. */
static void put_one(bt_buf *b, int n_dims, const uint64_t *extents, uint32_t type, uint64_t offset)
{
    put_header(b, 1, 0);
    put_tensor(b, "blk.0.w", n_dims, extents, type, offset);
    pad(b, 32);
}

static void data(bt_buf *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bt_buf_push_char(b, 'd');
    }
}

/* Cases 53 and 55 for GGUF. */
static void case_53_55_tensors(void **state)
{
    (void)state;
    bt_buf b;
    bt_buf_init(&b, BT_MEM_BASE, MAKER_BYTES_MAX);
    put_one(&b, 1, (uint64_t[]){256}, GGML_Q6_K, 0), data(&b, 210);
    expect(&b, BT_E_UNSUPPORTED, "\"blk.0.w\" has type Q6_K");
    put_one(&b, 1, (uint64_t[]){256}, 99, 0), data(&b, 210);
    expect(&b, BT_E_UNSUPPORTED, "(99)");
    put_one(&b, 2, (uint64_t[]){48, 2}, GGML_Q4_0, 0), data(&b, 54);
    expect(&b, BT_E_FORMAT, "[2, 48]");
    put_one(&b, 2, (uint64_t[]){1ull << 33, 1ull << 33}, GGML_F32, 0), data(&b, 64);
    expect(&b, BT_E_FORMAT, "impossible");
    put_one(&b, 1, (uint64_t[]){UINT64_MAX}, GGML_F32, 0), data(&b, 64);
    expect(&b, BT_E_FORMAT, "impossible");
    put_one(&b, 5, (uint64_t[]){1, 1, 1, 1, 1}, GGML_F32, 0), data(&b, 64);
    expect(&b, BT_E_FORMAT, "5 dimensions");
    put_one(&b, 1, (uint64_t[]){8}, GGML_F32, 4), data(&b, 64);
    expect(&b, BT_E_FORMAT, "not aligned");
    put_one(&b, 1, (uint64_t[]){8}, GGML_F32, 32), data(&b, 64);
    expect(&b, BT_E_FORMAT, "gap");
    put_one(&b, 1, (uint64_t[]){8}, GGML_F32, UINT64_MAX - 31), data(&b, 64);
    expect(&b, BT_E_FORMAT, "\"blk.0.w\"");
    put_one(&b, 1, (uint64_t[]){9}, GGML_F32, 0), data(&b, 32);
    expect(&b, BT_E_FORMAT, "incomplete download?");
    put_one(&b, 1, (uint64_t[]){8}, GGML_F32, 0), data(&b, 64);
    expect(&b, BT_E_FORMAT, "after the last tensor");
    put_header(&b, 2, 0);
    put_tensor(&b, "u", 1, (uint64_t[]){9}, GGML_F32, 0);
    put_tensor(&b, "v", 1, (uint64_t[]){9}, GGML_F32, 32);
    pad(&b, 32), data(&b, 68);
    expect(&b, BT_E_FORMAT, "overlap");
    put_header(&b, 2, 0);
    put_tensor(&b, "u", 1, (uint64_t[]){8}, GGML_F32, 0);
    put_tensor(&b, "u", 1, (uint64_t[]){8}, GGML_F32, 32);
    pad(&b, 32), data(&b, 64);
    expect(&b, BT_E_FORMAT, "\"u\" appears twice");
    put_one(&b, 4, (uint64_t[]){0, 0, 7, 0}, GGML_Q4_0, 0);
    outcome o;
    parse(&o, b.p, b.n);
    assert_true(o.status == BT_OK && o.table->views[0].bytes == 0);
    outcome_deinit(&o);
    put_one(&b, 0, NULL, GGML_I32, 0), data(&b, 4);
    parse(&o, b.p, b.n);
    assert_true(o.status == BT_OK && o.table->views[0].n_elements == 1);
    outcome_deinit(&o);
    bt_buf_deinit(&b);
}

/* Reads every value and every byte of what was accepted. */
static void check_outcome(const outcome *o, const char *bytes, size_t n)
{
    size_t sum = 0;
    for (int i = 0; i < o->table->n; i++) {
        const bt_tensor_view *v = &o->table->views[i];
        size_t from = (size_t)((const char *)v->data - bytes);
        assert_true(from <= n && v->bytes <= n - from);
        for (size_t k = 0; k < v->bytes; k++) {
            sum += v->data[k];
        }
    }
    const char *key;
    size_t iter = 0;
    while (bt_meta_next_unused(o->meta, &iter, &key)) {
        bt_meta_value v = get(o, key), e;
        sum += v.s.n > 0 ? (unsigned char)v.s.p[v.s.n - 1] : 0;
        for (size_t k = 0; bt_meta_at(&v, k, &e); k++) {
            sum += e.s.n > 0 ? (unsigned char)e.s.p[e.s.n - 1] : 0;
        }
    }
    assert_true(sum < SIZE_MAX);
}

static void try_exact(const char *bytes, size_t n, bool must_fail)
{
    char *copy = malloc(n > 0 ? n : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    outcome o;
    parse(&o, copy, n);
    if (o.status == BT_OK) {
        assert_false(must_fail);
        check_outcome(&o, copy, n);
    } else {
        assert_true(o.err.message[0] != '\0');
    }
    outcome_deinit(&o);
    free(copy);
}

static void truncated_and_flipped_files(void **state)
{
    (void)state;
    bt_buf b;
    bt_buf_init(&b, BT_MEM_BASE, MAKER_BYTES_MAX);
    put_good(&b);
    for (size_t n = 0; n < b.n; n++) {
        try_exact(b.p, n, true);
    }
    uint64_t seed = 55;
    for (int i = 0; i < 10000; i++) {
        char flipped[2048];
        assert_true(b.n <= sizeof flipped);
        memcpy(flipped, b.p, b.n);
        for (uint64_t k = bt_rng_next(&seed) % 3 + 1; k > 0; k--) {
            flipped[bt_rng_next(&seed) % (b.n - 108)] = (char)bt_rng_next(&seed);
        }
        try_exact(flipped, b.n, false);
    }
    bt_buf_deinit(&b);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    bt_buf b;
    bt_buf_init(&b, BT_MEM_BASE, MAKER_BYTES_MAX);
    put_good(&b);
    bt_status status = BT_E_NO_MEMORY;
    for (uint64_t n = 1; status != BT_OK && n < 1000; n++) {
        outcome o;
        bt_mem_fail_after(n);
        parse(&o, b.p, b.n);
        bt_mem_fail_after(0);
        status = o.status;
        assert_true(status == BT_OK || status == BT_E_NO_MEMORY);
        outcome_deinit(&o);
    }
    assert_int_equal(status, BT_OK);
    bt_buf_deinit(&b);
    assert_int_equal(bt_mem_used(BT_MEM_FILE), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_values_and_tensors),
        cmocka_unit_test(unused_keys_are_accounted_for),
        cmocka_unit_test(refuses_versions_and_parts),
        cmocka_unit_test(refuses_bad_values),
        cmocka_unit_test(case_53_55_tensors),
        cmocka_unit_test(truncated_and_flipped_files),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("file/gguf", tests, NULL, NULL);
}
