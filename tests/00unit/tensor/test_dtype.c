/* SPDX-License-Identifier: MIT
 *
 * Goal: each format reads back as its definition says. Method: seeded random blocks, weights taken
 * one by one from their bits in double and rounded once per operation as the contract states, d * q
 * (+ m) in f32; tables and sizes by their properties. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "tensor/dtype.h"
#include "tensor/half.h"

#include <math.h>
#include <stdlib.h>

enum { BLOCK = 32, N_BLOCKS = 400 };

typedef struct format {
    bt_dtype dtype;
    int scale_bytes; /* d, or d and m */
    int bits;
    int offset;
} format;

static const format formats[] = {
    {BT_DTYPE_Q4_0, 2, 4, 8}, {BT_DTYPE_Q4_1, 4, 4, 0}, {BT_DTYPE_Q5_0, 2, 5, 16},
    {BT_DTYPE_Q5_1, 4, 5, 0}, {BT_DTYPE_Q8_0, 2, 8, 0},
};

static double half_at(const unsigned char *p)
{
    return (double)bt_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

/* The whole number of weight i in a block: nibbles of i and i + 16 share a byte, bit 4 is bit i of
 * a little-endian word before them. */
static int code_of(const format *f, const unsigned char *p, int i)
{
    p += f->scale_bytes;
    if (f->bits == 8) {
        return p[i] < 128 ? p[i] : p[i] - 256;
    }
    int fifth = 0;
    if (f->bits == 5) {
        fifth = p[i / 8] >> (i % 8) & 1;
        p += 4;
    }
    int byte = p[i % 16];
    return (i < 16 ? byte % 16 : byte / 16) + 16 * fifth - f->offset;
}

static void fill(unsigned char *p, size_t n, uint64_t *seed)
{
    for (size_t i = 0; i < n; i++) {
        p[i] = (unsigned char)bt_rng_next(seed);
    }
}

static void block_formats_read_as_defined(void **state)
{
    (void)state;
    uint64_t seed = 32;
    for (size_t k = 0; k < BT_COUNT(formats); k++) {
        const format *f = &formats[k];
        size_t block_bytes = (size_t)bt_dtype_get(f->dtype)->block_bytes;
        size_t n = N_BLOCKS * block_bytes;
        unsigned char *raw = malloc(n + 1), *bytes = raw + 1; /* unaligned on purpose */
        float *out = malloc(N_BLOCKS * BLOCK * sizeof *out);
        assert_true(raw != NULL && out != NULL);
        fill(bytes, n, &seed);
        bt_tensor_view view = {.dtype = f->dtype,
                               .n_dims = 2,
                               .shape = {N_BLOCKS, BLOCK},
                               .n_elements = N_BLOCKS * BLOCK,
                               .data = bytes,
                               .bytes = n};
        bt_tensor_read_f32(&view, 0, view.n_elements, out);
        for (int i = 0; i < N_BLOCKS * BLOCK; i++) {
            const unsigned char *p = bytes + (size_t)(i / BLOCK) * block_bytes;
            /* the product of a half and 8 bits is exact; the sum is rounded once */
            double w = half_at(p) * code_of(f, p, i % BLOCK);
            double want = f->scale_bytes == 4 ? w + half_at(p + 2) : w;
            if (isnan(want)) {
                assert_true(isnan(out[i]));
            } else {
                assert_true(out[i] == (float)want);
            }
        }
        float part[2 * BLOCK];
        bt_tensor_read_f32(&view, 5 * BLOCK, 2 * BLOCK, part);
        assert_memory_equal(part, out + 5 * BLOCK, sizeof part);
        free(raw);
        free(out);
    }
}

static void plain_formats_read_as_defined(void **state)
{
    (void)state;
    unsigned char raw[4 * 64 + 1], *bytes = raw + 1;
    uint64_t seed = 33;
    float out[64];
    fill(bytes, 4 * 64, &seed);
    static const bt_dtype dtypes[] = {BT_DTYPE_F32, BT_DTYPE_F16, BT_DTYPE_BF16};
    for (size_t k = 0; k < BT_COUNT(dtypes); k++) {
        bt_tensor_view view = {
            .dtype = dtypes[k], .n_dims = 1, .shape = {64}, .n_elements = 64, .data = bytes};
        bt_tensor_read_f32(&view, 0, 64, out);
        for (int i = 0; i < 64; i++) {
            const unsigned char *p = bytes + i * bt_dtype_get(dtypes[k])->block_bytes;
            uint16_t h = (uint16_t)(p[0] | p[1] << 8);
            float want = dtypes[k] == BT_DTYPE_BF16 ? bt_bf16_to_f32(h) : bt_f16_to_f32(h);
            if (dtypes[k] == BT_DTYPE_F32) {
                memcpy(&want, p, sizeof want);
            }
            assert_memory_equal(&out[i], &want, sizeof want);
        }
        bt_tensor_read_f32(&view, 64, 0, out);
    }
}

static void the_table_is_whole(void **state)
{
    (void)state;
    for (int i = 0; i < BT_DTYPE_COUNT; i++) {
        const bt_dtype_info *info = bt_dtype_get((bt_dtype)i);
        assert_true(info->name != NULL && info->block_elements > 0 && info->block_bytes > 0);
        bt_dtype found;
        assert_true(bt_dtype_parse(bt_str_of(info->name), &found) && found == (bt_dtype)i);
        size_t bytes = 77;
        uint64_t per_block = (uint64_t)info->block_elements;
        assert_true(bt_dtype_bytes((bt_dtype)i, 3 * per_block, &bytes));
        assert_int_equal(bytes, 3 * info->block_bytes);
        assert_true(bt_dtype_bytes((bt_dtype)i, 0, &bytes) && bytes == 0);
        if (per_block > 1) {
            assert_false(bt_dtype_bytes((bt_dtype)i, per_block + 1, &bytes));
        }
        if (info->block_bytes > info->block_elements) {
            uint64_t most = UINT64_MAX / per_block * per_block;
            assert_false(bt_dtype_bytes((bt_dtype)i, most, &bytes));
        }
        assert_int_equal(bytes, 0); /* untouched on failure */
    }
    bt_dtype none;
    assert_false(bt_dtype_parse(BT_STR("F13"), &none));
    assert_false(bt_dtype_parse(BT_STR(""), &none));
}

static void shapes_are_written(void **state)
{
    (void)state;
    char text[96];
    bt_tensor_view v = {.n_dims = 0};
    assert_string_equal(bt_tensor_shape_text(&v, text), "[]");
    v = (bt_tensor_view){.n_dims = 2, .shape = {2, 576}};
    assert_string_equal(bt_tensor_shape_text(&v, text), "[2, 576]");
    v = (bt_tensor_view){.n_dims = 4, .shape = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}};
    assert_int_equal(strlen(bt_tensor_shape_text(&v, text)), 4 * 19 + 3 * 2 + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_formats_read_as_defined),
        cmocka_unit_test(plain_formats_read_as_defined),
        cmocka_unit_test(the_table_is_whole),
        cmocka_unit_test(shapes_are_written),
    };
    return cmocka_run_group_tests_name("tensor/dtype", tests, NULL, NULL);
}
