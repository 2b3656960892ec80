/* SPDX-License-Identifier: MIT
 *
 * Goal: the row-wise operations of the CPU device, its limits and its memory.
 * Method: many rows at once on 1 to 3 threads against one row at a time, bit for bit; one row
 * against double arithmetic; failing allocations one after another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "device/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 150,
    DIM = 172,
    HEADS = 3,
    HEAD_DIM = 20,
    ROT = 14,
    POSITIONS = 300,
    LAST = ROWS - 1
};

static const bt_device_limits limits = {.rows_max = ROWS,
                                        .inputs_max = DIM,
                                        .heads_max = HEADS,
                                        .head_dim_max = HEAD_DIM,
                                        .positions_max = POSITIONS};

static struct {
    float x[ROWS * DIM], up[ROWS * DIM], w[DIM];
    float cos[POSITIONS * ROT / 2], sin[POSITIONS * ROT / 2];
    int32_t pos[ROWS], row[ROWS];
    float want[ROWS * DIM], got[ROWS * DIM];
} d;

/* Runs an operation on rows first…first + n - 1 of d. */
typedef void operation(bt_device *dev, int first, int n, float *y);

static void run_norm(bt_device *dev, int first, int n, float *y)
{
    dev->ops->rmsnorm(dev, d.x + first * DIM, d.w, 1e-5f, 1, n, 1, DIM, y + first * DIM);
}

static void run_group_norm(bt_device *dev, int first, int n, float *y)
{
    dev->ops->rmsnorm(dev, d.x + first * DIM, d.w, 1e-5f, 0, n, 4, DIM / 4, y + first * DIM);
}

static void rope(bt_device *dev, int first, int n, float *y, bool interleaved)
{
    memcpy(y + first * DIM, d.x + first * DIM, (size_t)n * DIM * sizeof(float));
    const bt_rope_args args = {.x = y + first * DIM,
                               .pos = d.pos + first,
                               .n_rows = n,
                               .n_heads = HEADS,
                               .head_dim = HEAD_DIM,
                               .row_stride = DIM,
                               .cos = d.cos,
                               .sin = d.sin,
                               .n_pos = POSITIONS,
                               .n_rot = ROT,
                               .interleaved = interleaved};
    dev->ops->rope(dev, &args);
}

static void run_rope_half(bt_device *dev, int first, int n, float *y)
{
    rope(dev, first, n, y, false);
}

static void run_rope_pairs(bt_device *dev, int first, int n, float *y)
{
    rope(dev, first, n, y, true);
}

static void run_silu(bt_device *dev, int first, int n, float *y)
{
    dev->ops->silu_mul(dev, d.x + first * DIM, d.up + first * DIM, n, DIM, y + first * DIM);
}

static void run_gather(bt_device *dev, int first, int n, float *y)
{
    dev->ops->gather(dev, d.x, d.row + first, n, DIM, y + first * DIM);
}

static operation *const operations[] = {run_norm,       run_group_norm, run_rope_half,
                                        run_rope_pairs, run_silu,       run_gather};

static bt_device *open_device(int threads, bt_pool **pool)
{
    bt_device *dev = NULL;
    assert_int_equal(bt_pool_open(threads, pool, NULL), BT_OK);
    assert_int_equal(bt_device_cpu_open(*pool, &dev, NULL), BT_OK);
    return dev;
}

static void rows_do_not_depend_on_batch_or_threads(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        bt_pool *pool;
        bt_device *dev = open_device(threads, &pool);
        assert_int_equal(bt_device_cpu_reserve(dev, &limits, NULL), BT_OK);
        for (size_t i = 0; i < BT_COUNT(operations); i++) {
            memset(d.got, 0xFF, sizeof d.got);
            operations[i](dev, 0, ROWS, d.got);
            for (int t = 0; t < ROWS; t++) {
                operations[i](dev, t, 1, d.want);
            }
            assert_memory_equal(d.got, d.want, sizeof d.want);
        }
        dev->ops->close(dev);
        bt_pool_close(pool);
    }
}

static void assert_near(float got, double want, double bound)
{
    if (!(fabs((double)got - want) <= bound)) {
        print_error("%.9g, not %.9g +- %.3g\n", (double)got, want, bound);
        fail();
    }
}

/* The contract of device.h in double, on the last row. Bounds in units of 2^-24: 8 for the few
 * roundings of a formula, of an operand below 16 for rope; DIM more for the norm's sum. */
static void rows_follow_the_contract(void **state)
{
    (void)state;
    bt_pool *pool;
    bt_device *dev = open_device(2, &pool);
    assert_int_equal(bt_device_cpu_reserve(dev, &limits, NULL), BT_OK);
    const int quarter = DIM / 4;
    const float *x = d.x + LAST * DIM, *up = d.up + LAST * DIM, *y = d.got + LAST * DIM;
    const double u = 0x1p-24;
    run_group_norm(dev, 0, ROWS, d.got);
    for (int i = 0; i < DIM; i++) {
        double sum = 0;
        for (int j = i / quarter * quarter; j < i / quarter * quarter + quarter; j++) {
            sum += (double)x[j] * (double)x[j];
        }
        double want = (double)x[i] / sqrt(sum / quarter + 1e-5) * (double)d.w[i % quarter];
        assert_near(y[i], want, (DIM + 8) * u * fabs(want));
    }
    const float *cos = d.cos + d.pos[LAST] * (ROT / 2), *sin = d.sin + d.pos[LAST] * (ROT / 2);
    run_rope_half(dev, 0, ROWS, d.got);
    for (int i = 0; i < ROT / 2; i++) {
        const double a = (double)x[HEAD_DIM + i], b = (double)x[HEAD_DIM + ROT / 2 + i];
        assert_near(y[HEAD_DIM + i], a * (double)cos[i] - b * (double)sin[i], 8 * u * 16);
        assert_near(y[HEAD_DIM + ROT / 2 + i], b * (double)cos[i] + a * (double)sin[i], 8 * u * 16);
    }
    assert_memory_equal(y + HEAD_DIM + ROT, x + HEAD_DIM + ROT, (HEAD_DIM - ROT) * sizeof *x);
    run_rope_pairs(dev, 0, ROWS, d.got);
    for (int i = 0; i < ROT / 2; i++) {
        const double a = (double)x[HEAD_DIM + 2 * i], b = (double)x[HEAD_DIM + 2 * i + 1];
        assert_near(y[HEAD_DIM + 2 * i], a * (double)cos[i] - b * (double)sin[i], 8 * u * 16);
        assert_near(y[HEAD_DIM + 2 * i + 1], b * (double)cos[i] + a * (double)sin[i], 8 * u * 16);
    }
    run_silu(dev, 0, ROWS, d.got);
    for (int i = 0; i < DIM; i++) {
        double want = (double)x[i] / (1 + exp(-(double)x[i])) * (double)up[i];
        assert_near(y[i], want, 8 * u * fabs(want));
    }
    run_gather(dev, 0, ROWS, d.got);
    assert_memory_equal(y, d.x + d.row[LAST] * DIM, DIM * sizeof(float));
    dev->ops->close(dev);
    bt_pool_close(pool);
}

static void memory_and_limits(void **state)
{
    (void)state;
    bt_pool *pool;
    bt_err err;
    bt_device *dev = open_device(1, &pool);
    assert_int_equal(strncmp(dev->name, "cpu ", 4), 0);
    bt_device_limits bad = limits;
    bad.heads_max = 0;
    assert_int_equal(bt_device_cpu_reserve(dev, &bad, &err), BT_E_INVALID);
    assert_non_null(strstr(err.message, "heads"));
    size_t before = bt_mem_used(BT_MEM_WORK);
    bt_status status = BT_E_NO_MEMORY;
    for (uint64_t n = 1; status != BT_OK && n < 20; n++) {
        assert_int_equal(bt_mem_used(BT_MEM_WORK), before);
        bt_mem_fail_after(n);
        status = bt_device_cpu_reserve(dev, &limits, &err);
        bt_mem_fail_after(0);
        assert_true(status == BT_OK || status == BT_E_NO_MEMORY);
        assert_true(status == BT_OK || n < 5); /* there are four blocks */
    }
    bt_device_limits larger = limits;
    larger.rows_max *= 2;
    assert_int_equal(bt_device_cpu_reserve(dev, &larger, &err), BT_OK);
    const float host[3] = {1, 2, 3};
    float back[3] = {0};
    float *memory = dev->ops->alloc(dev, BT_MEM_KV, sizeof host);
    assert_true(memory[0] == 0 && memory[2] == 0);
    dev->ops->write(dev, memory, host, sizeof host);
    dev->ops->read(dev, back, memory, sizeof back);
    assert_memory_equal(host, back, sizeof host);
    dev->ops->free(dev, memory);
    dev->ops->close(dev);
    bt_pool_close(pool);
}

/* The operations of a step run with the allocator frozen (a debug build aborts otherwise). */
static void operations_do_not_allocate(void **state)
{
    (void)state;
    bt_pool *pool;
    bt_device *dev = open_device(2, &pool);
    assert_int_equal(bt_device_cpu_reserve(dev, &limits, NULL), BT_OK);
    bt_mem_freeze_thread(true);
    for (size_t i = 0; i < BT_COUNT(operations); i++) {
        operations[i](dev, 0, ROWS, d.got);
    }
    bt_mem_freeze_thread(false);
    dev->ops->close(dev);
    bt_pool_close(pool);
}

static void an_unknown_level_is_refused(void **state)
{
    (void)state;
    bt_pool *pool;
    bt_device *dev = NULL;
    bt_err err;
    assert_int_equal(bt_pool_open(1, &pool, NULL), BT_OK);
    const char *had = getenv("BT_CPU");
    char kept[32] = "";
    if (had != NULL) {
        strncpy(kept, had, sizeof kept - 1);
    }
    setenv("BT_CPU", "avx1024", 1);
    assert_int_equal(bt_device_cpu_open(pool, &dev, &err), BT_E_INVALID);
    assert_non_null(strstr(err.message, "avx1024"));
    assert_null(dev);
    setenv("BT_CPU", kept, 1);
    bt_pool_close(pool);
}

static int fill(void **state)
{
    (void)state;
    uint64_t rng = 5;
    for (int i = 0; i < ROWS * DIM; i++) {
        d.x[i] = (float)(bt_rng_next(&rng) >> 40) * 0x1p-20f - 8.0f;
        d.up[i] = (float)(bt_rng_next(&rng) >> 40) * 0x1p-23f - 1.0f;
    }
    for (int i = 0; i < DIM; i++) {
        d.w[i] = (float)(bt_rng_next(&rng) >> 40) * 0x1p-23f;
    }
    for (int i = 0; i < POSITIONS * ROT / 2; i++) {
        d.cos[i] = cosf((float)i);
        d.sin[i] = sinf((float)i);
    }
    for (int i = 0; i < ROWS; i++) {
        d.pos[i] = (int32_t)(bt_rng_next(&rng) % POSITIONS);
        d.row[i] = (int32_t)(bt_rng_next(&rng) % ROWS);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_do_not_depend_on_batch_or_threads),
        cmocka_unit_test(rows_follow_the_contract),
        cmocka_unit_test(memory_and_limits),
        cmocka_unit_test(operations_do_not_allocate),
        cmocka_unit_test(an_unknown_level_is_refused),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
