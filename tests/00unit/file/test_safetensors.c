/* SPDX-License-Identifier: MIT
 *
 * Goal: a safetensors file gives a table in which every byte is accounted for, or an error that
 * names tensor and rule; never a read outside of it. Method: files written here, right ones and one
 * for each rule; all prefixes and seeded random byte flips of a small file, with the file in a heap
 * block of exactly its size, so that AddressSanitizer sees any step outside. */
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
    bt_status status;
    bt_err err;
} outcome;

static void parse(outcome *o, const char *bytes, size_t n)
{
    bt_safetensors_args args = {.bytes = {bytes, n}, .path = "x.safetensors"};
    memset(o, 0, sizeof *o);
    o->table = bt_table_create(args.path, BT_FILE_HF);
    o->status = o->table == NULL ? BT_E_NO_MEMORY : bt_safetensors_parse(o->table, &args, &o->err);
}

static void parse_file(outcome *o, const char *header, size_t n_data)
{
    bt_buf b;
    bt_buf_init(&b, BT_MEM_BASE, MAKER_BYTES_MAX);
    put_safetensors(&b, header, n_data);
    parse(o, b.p, b.n);
    bt_buf_deinit(&b);
}

#define GOOD                                                                                       \
    "{\"__metadata__\":{\"format\":\"pt\"},"                                                       \
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[8,20]},"                          \
    "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"                              \
    "\"ids\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[20,28]}}  "

static void reads_a_good_file(void **state)
{
    (void)state;
    bt_buf b;
    bt_buf_init(&b, BT_MEM_BASE, MAKER_BYTES_MAX);
    put_safetensors(&b, GOOD, 28);
    outcome o;
    parse(&o, b.p, b.n);
    assert_int_equal(o.status, BT_OK);
    assert_int_equal(o.table->n, 3);
    const bt_tensor_view *v = bt_weightfile_find(o.table, "b");
    assert_non_null(v);
    assert_int_equal(v->dtype, BT_DTYPE_BF16);
    assert_true(v->n_dims == 2 && v->shape[0] == 2 && v->shape[1] == 3);
    assert_true(v->n_elements == 6 && v->bytes == 12);
    assert_ptr_equal(v->data, b.p + 8 + strlen(GOOD) + 8);
    const bt_tensor_view *ids = bt_weightfile_find(o.table, "ids");
    assert_false(bt_dtype_get(ids->dtype)->is_weight);
    bt_weightfile_close(o.table);
    bt_buf_deinit(&b);
}

/* Case 55: empty tensors and scalars are legal. */
static void case_55_empty_tensors_and_scalars(void **state)
{
    (void)state;
    outcome o;
    parse_file(&o,
               "{\"marker\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]},"
               "\"two\":{\"dtype\":\"I8\",\"shape\":[2,0],\"data_offsets\":[0,0]},"
               "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
               4);
    assert_int_equal(o.status, BT_OK);
    assert_int_equal(bt_weightfile_find(o.table, "marker")->n_elements, 0);
    assert_int_equal(bt_weightfile_find(o.table, "two")->bytes, 0);
    assert_int_equal(bt_weightfile_find(o.table, "s")->n_elements, 1);
    bt_weightfile_close(o.table);
    parse_file(&o, "{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,0]}}", 0);
    assert_int_equal(o.status, BT_E_FORMAT);
    bt_weightfile_close(o.table);
}

#define ONE(dtype, shape, offsets)                                                                 \
    "{\"t\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define TWO(first, second)                                                                         \
    "{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" first "},"                         \
    "\"u\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" second "}}"

static const struct {
    const char *header;
    size_t n_data;
    const char *word; /* what the message must hold */
} broken[] = {
    {ONE("F32", "[1]", "[4,0]"), 4, "backwards"},
    {TWO("[0,4]", "[0,4]"), 4, "overlap"},
    {TWO("[0,4]", "[2,6]"), 6, "overlap"},
    {TWO("[0,4]", "[8,12]"), 12, "\"u\": there is a gap"},
    {TWO("[0,4]", "[4,8]"), 9, "after the last tensor"},
    {TWO("[4,8]", "[8,12]"), 12, "gap"},
    {TWO("[0,4]", "[4,8]"), 7, "incomplete download?"},
    {ONE("F32", "[8589934592,8589934592]", "[0,4]"), 4, "\"t\""},
    {ONE("F32", "[4611686018427387904,4611686018427387904,0]", "[0,0]"), 0, "\"t\""},
    {ONE("F32", "[1000,1000]", "[0,4]"), 4, "[1000, 1000]"},
    {ONE("F32", "[1]", "[-1,3]"), 4, "\"t\""},
    {ONE("F32", "[1]", "[0,1.5]"), 4, "\"t\""},
    {ONE("F32", "[1]", "[0,4.0]"), 4, "\"t\""},
    {ONE("F32", "[1]", "[0,18446744073709551616]"), 4, "header"},
    {ONE("F32", "[1]", "[9223372036854775804,9223372036854775807]"), 4, "\"t\""},
    {ONE("F32", "[1]", "[0,4,8]"), 4, "data_offsets"},
    {ONE("F32", "[1]", "[4]"), 4, "data_offsets"},
    {ONE("F32", "[1]", "{}"), 4, "data_offsets"},
    {ONE("F32", "[-1]", "[0,4]"), 4, "shape"},
    {ONE("F32", "[true]", "[0,4]"), 4, "shape"},
    {ONE("F32", "[1,1,1,1,1]", "[0,4]"), 4, "dimensions"},
    {ONE("F32", "1", "[0,4]"), 4, "shape"},
    {ONE("F13", "[1]", "[0,4]"), 4, "\"F13\""},
    {ONE("Q8_0", "[32]", "[0,34]"), 34, "\"Q8_0\""},
    {"{\"t\":{\"dtype\":5,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype"},
    {"{\"t\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype"},
    {"{\"t\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "shape"},
    {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets"},
    {"{\"t\":[]}", 0, "object"},
    {"[]", 0, "object"},
    {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     8, "header"},
    {"{\"t\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
     "header"},
    {"", 0, "header"},
    {"{", 0, "header"},
};

/* Case 53: each rule refuses, names file and tensor, and allows nothing to be read. */
static void case_53_offsets_and_shapes(void **state)
{
    (void)state;
    for (size_t i = 0; i < BT_COUNT(broken); i++) {
        outcome o;
        parse_file(&o, broken[i].header, broken[i].n_data);
        if (o.status == BT_OK || strstr(o.err.message, broken[i].word) == NULL ||
            strstr(o.err.message, "x.safetensors") == NULL) {
            fail_msg("%s gave %d \"%s\", which lacks \"%s\"", broken[i].header, o.status,
                     o.err.message, broken[i].word);
        }
        bt_weightfile_close(o.table);
    }
}

/* A table that was accepted lies within the n bytes of the file, and each byte can be read. */
static void check_table(const bt_weightfile *table, const char *bytes, size_t n)
{
    unsigned sum = 0;
    for (int i = 0; i < table->n; i++) {
        const bt_tensor_view *v = &table->views[i];
        size_t from = (size_t)((const char *)v->data - bytes);
        assert_true(from <= n && v->bytes <= n - from);
        for (size_t k = 0; k < v->bytes; k++) {
            sum += v->data[k];
        }
    }
    assert_true(sum < 1u << 30);
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
        check_table(o.table, copy, n);
    } else {
        assert_true(o.err.message[0] != '\0');
    }
    bt_weightfile_close(o.table);
    free(copy);
}

static void truncated_and_flipped_files(void **state)
{
    (void)state;
    bt_buf b;
    bt_buf_init(&b, BT_MEM_BASE, MAKER_BYTES_MAX);
    put_safetensors(&b, GOOD, 28);
    for (size_t n = 0; n < b.n; n++) {
        try_exact(b.p, n, true);
    }
    uint64_t seed = 53;
    size_t n_head = 8 + strlen(GOOD);
    for (int i = 0; i < 10000; i++) {
        char flipped[512];
        assert_true(b.n <= sizeof flipped);
        memcpy(flipped, b.p, b.n);
        for (uint64_t k = bt_rng_next(&seed) % 3 + 1; k > 0; k--) {
            flipped[bt_rng_next(&seed) % n_head] = (char)bt_rng_next(&seed);
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
    put_safetensors(&b, GOOD, 28);
    bt_status status = BT_E_NO_MEMORY;
    for (uint64_t n = 1; status != BT_OK && n < 1000; n++) {
        outcome o;
        bt_mem_fail_after(n);
        parse(&o, b.p, b.n);
        bt_mem_fail_after(0);
        status = o.status;
        assert_true(status == BT_OK || status == BT_E_NO_MEMORY);
        bt_weightfile_close(o.table);
    }
    assert_int_equal(status, BT_OK);
    bt_buf_deinit(&b);
    assert_int_equal(bt_mem_used(BT_MEM_FILE), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_good_file),
        cmocka_unit_test(case_55_empty_tensors_and_scalars),
        cmocka_unit_test(case_53_offsets_and_shapes),
        cmocka_unit_test(truncated_and_flipped_files),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("file/safetensors", tests, NULL, NULL);
}
