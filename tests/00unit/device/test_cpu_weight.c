/* SPDX-License-Identifier: MIT
 *
 * Goal: packed weights behind the device's table: embedding rows are the source's values, three
 * matrices in one matmul give each its product, and a failed open leaves nothing behind.
 * Method: random Q8_0 and BF16 matrices; bt_tensor_read_f32 and sums in double as the oracle; the
 * n-th allocation made to fail for n = 1, 2, …. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cpu.h"
#include "base/mem.h"
#include "base/rng.h"
#include "device/device.h"
#include "tensor/half.h"

#include <math.h>
#include <string.h>

enum { K = 96, N_MAX = 70, ROWS = 20 };

static bt_pool *pool;
static bt_device *dev;

static int open_device(void **state)
{
    (void)state;
    bt_cpu_init(NULL);
    bt_device_limits limits = {
        .rows_max = ROWS, .inputs_max = K, .heads_max = 1, .head_dim_max = 16, .positions_max = 16};
    return bt_pool_open(2, &pool, NULL) != BT_OK || bt_device_cpu_open(pool, &dev, NULL) != BT_OK ||
           bt_device_cpu_reserve(dev, &limits, NULL) != BT_OK;
}

static int close_device(void **state)
{
    (void)state;
    dev->ops->close(dev);
    bt_pool_close(pool);
    return 0;
}

static float uniform(uint64_t *seed)
{
    return (float)(int32_t)(uint32_t)bt_rng_next(seed) * 0x1p-31f;
}

/* A random matrix [n, K] in bytes, which hold enough for BF16. */
static bt_tensor_view random_view(bt_dtype dtype, int n, uint64_t seed, unsigned char *bytes)
{
    bt_tensor_view view = {.name = BT_STR("w"),
                           .dtype = dtype,
                           .n_dims = 2,
                           .shape = {n, K},
                           .n_elements = (uint64_t)n * K,
                           .data = bytes};
    assert_true(bt_dtype_bytes(dtype, view.n_elements, &view.bytes));
    for (size_t i = 0; i < view.bytes; i++) {
        bytes[i] = (unsigned char)bt_rng_next(&seed);
    }
    size_t block = dtype == BT_DTYPE_BF16 ? 2 : 34;
    for (size_t i = 0; i < view.bytes; i += block) {
        float f = uniform(&seed);
        uint16_t h = dtype == BT_DTYPE_BF16 ? bt_f32_to_bf16(f) : bt_f32_to_f16(f * 0.01f);
        memcpy(bytes + i, &h, sizeof h);
    }
    return view;
}

/* Embedding rows, few and many, are the source's values times the scale, bit for bit. */
static void test_embed(void **state)
{
    (void)state;
    static const bt_dtype types[] = {BT_DTYPE_Q8_0, BT_DTYPE_BF16};
    static unsigned char bytes[N_MAX * K * 2];
    for (size_t i = 0; i < BT_COUNT(types); i++) {
        bt_tensor_view view = random_view(types[i], N_MAX, 3 + i, bytes);
        bt_weight *w;
        assert_int_equal(dev->ops->weight_open(dev, &view, NULL, NULL, &w, NULL), BT_OK);
        assert_true(dev->ops->weight_bytes(w) >= view.bytes);
        int32_t token[ROWS];
        float x[ROWS * K], want[K];
        uint64_t seed = 9;
        for (int t = 0; t < ROWS; t++) {
            token[t] = (int32_t)(bt_rng_next(&seed) % N_MAX);
        }
        for (int n_rows = 1; n_rows <= ROWS; n_rows += ROWS - 1) {
            for (float scale = 1.0f; scale < 8.0f; scale += 5.5f) {
                dev->ops->embed(dev, w, token, n_rows, scale, x);
                for (int t = 0; t < n_rows; t++) {
                    bt_tensor_read_f32(&view, (uint64_t)token[t] * K, K, want);
                    for (int j = 0; j < K; j++) {
                        want[j] *= scale;
                    }
                    assert_memory_equal(x + t * K, want, sizeof want);
                }
            }
        }
        dev->ops->weight_close(dev, w);
    }
}

/* Element [t, n] of x W^T in double; *bound: what the kernels may be off by. */
static double product(const bt_tensor_view *view, int n, const float *x, double *bound)
{
    float w[K];
    double sum = 0.0, size = 0.0, codes = 0.0;
    bt_tensor_read_f32(view, (uint64_t)n * K, K, w);
    for (int j = 0; j < K; j++) {
        sum += (double)w[j] * (double)x[j];
        size += fabs((double)w[j] * (double)x[j]);
        codes += fabs((double)w[j]); /* |x| <= 1: half a code is 1 / 254 at most */
    }
    *bound = size * (K + 2) * 0x1p-23 + (view->dtype == BT_DTYPE_BF16 ? 0.0 : codes * 1.01 / 254);
    return sum;
}

/* Three outputs of different sizes and types in one call: one plain, one with bias, one added. */
static void test_matmul(void **state)
{
    (void)state;
    static const int n[3] = {N_MAX, 16, 33};
    static const bt_dtype types[3] = {BT_DTYPE_Q8_0, BT_DTYPE_BF16, BT_DTYPE_Q8_0};
    static unsigned char bytes[3][N_MAX * K * 2];
    static float x[ROWS * K], y[3][ROWS * N_MAX], bias[N_MAX];
    bt_tensor_view view[3];
    bt_weight *w[3];
    bt_matmul_args args = {.x = x, .n_rows = ROWS, .n_outputs = 3};
    uint64_t seed = 21;
    for (int i = 0; i < ROWS * K; i++) {
        x[i] = uniform(&seed);
    }
    for (int i = 0; i < N_MAX; i++) {
        bias[i] = uniform(&seed);
    }
    for (int i = 0; i < 3; i++) {
        view[i] = random_view(types[i], n[i], 30 + (uint64_t)i, bytes[i]);
        assert_int_equal(dev->ops->weight_open(dev, &view[i], NULL, NULL, &w[i], NULL), BT_OK);
        args.out[i] =
            (bt_matmul_output){.w = w[i], .bias = i == 1 ? bias : NULL, .y = y[i], .ldy = N_MAX};
        args.out[i].accumulate = i == 2;
        for (int j = 0; j < ROWS * N_MAX; j++) {
            y[i][j] = 0.5f;
        }
    }
    dev->ops->matmul(dev, &args);
    for (int i = 0; i < 3; i++) {
        for (int t = 0; t < ROWS; t++) {
            for (int j = 0; j < n[i]; j++) {
                double bound, want = product(&view[i], j, x + t * K, &bound);
                want += i == 1 ? (double)bias[j] : i == 2 ? 0.5 : 0.0;
                double off = fabs((double)y[i][t * N_MAX + j] - want);
                assert_true(off <= bound + 0x1p-22 * (1.0 + fabs(want)));
            }
            assert_true(n[i] == N_MAX || y[i][t * N_MAX + n[i]] == 0.5f);
        }
        dev->ops->weight_close(dev, w[i]);
    }
}

/* Each allocation of an open may fail: an error that says so, and every byte given back. */
static void test_no_memory(void **state)
{
    (void)state;
    static unsigned char bytes[N_MAX * K * 2];
    bt_tensor_view view = random_view(BT_DTYPE_Q8_0, N_MAX, 5, bytes);
    size_t before = bt_mem_used(BT_MEM_WEIGHTS);
    bt_weight *w = NULL;
    bt_status status = BT_E_NO_MEMORY;
    for (uint64_t n = 1; status != BT_OK; n++) {
        assert_true(n < 10);
        bt_err err = {0};
        bt_mem_fail_after(n);
        status = dev->ops->weight_open(dev, &view, NULL, NULL, &w, &err);
        bt_mem_fail_after(0);
        if (status != BT_OK) {
            assert_int_equal(status, BT_E_NO_MEMORY);
            assert_true(err.message[0] != '\0' && w == NULL);
            assert_int_equal(bt_mem_used(BT_MEM_WEIGHTS), before);
        }
    }
    dev->ops->weight_close(dev, w);
    dev->ops->weight_close(dev, NULL);
    assert_int_equal(bt_mem_used(BT_MEM_WEIGHTS), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embed),
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("cpu_weight", tests, open_device, close_device);
}
