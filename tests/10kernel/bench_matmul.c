/* SPDX-License-Identifier: MIT
 *
 * Method: copies of one matrix fill a working set far beyond the caches that a model's weights do
 * not fit either; a pass multiplies with each copy in turn, as decoding does. Row counts are
 * interleaved (1, 2, 4, 8, 1, 2, …), and the best of several passes is printed: other load on the
 * machine only ever slows a pass. */
#include "bench_matmul.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kernel/matmul.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SET_BYTES = 256 << 20, PASSES = 7, COPIES_MAX = 2048, ROWS_MAX = 512 };

static const int row_counts[] = {1, 2, 3, 4, 5, 6, 8, 16};
static const int sizes[][2] = {{1536, 576}, {2048, 2048}}; /* N, K */
static const bt_dtype dtypes[] = {BT_DTYPE_Q8_0, BT_DTYPE_Q4_0, BT_DTYPE_Q4_1, BT_DTYPE_Q5_0,
                                  BT_DTYPE_Q5_1, BT_DTYPE_BF16, BT_DTYPE_F16,  BT_DTYPE_F32};

typedef struct set {
    int n_copies;
    bt_panels copies[COPIES_MAX];
} set;

static bool open_set(bt_pool *pool, bt_dtype dtype, int n, int k, set *out)
{
    size_t bytes;
    if (!bt_dtype_bytes(dtype, (uint64_t)n * (uint64_t)k, &bytes)) {
        return false;
    }
    unsigned char *source = bt_mem_calloc(BT_MEM_FILE, bytes, 1); /* zeros: speed depends on none */
    if (source == NULL) {
        return false;
    }
    bt_tensor_view view = {.name = BT_STR("bench"),
                           .dtype = dtype,
                           .n_dims = 2,
                           .shape = {n, k},
                           .data = source,
                           .bytes = bytes};
    out->n_copies = 0;
    int want = (int)BT_MIN((size_t)SET_BYTES / bytes + 1, (size_t)COPIES_MAX);
    while (out->n_copies < want &&
           bt_pack_open(pool, &view, NULL, NULL, &out->copies[out->n_copies], NULL) == BT_OK) {
        out->n_copies++;
    }
    bt_mem_free(source);
    return out->n_copies == want;
}

/* lint: allow parameters: a test helper called with all of a case. */
/* Seconds of one pass. */
static double pass(bt_pool *pool, const bt_matmul_kernels *kernels, const set *s, int n_rows,
                   const float *x, float *y, void *work)
{
    int64_t start = bt_clock_now_ns();
    for (int i = 0; i < s->n_copies; i++) {
        const bt_panels *w = &s->copies[i];
        bt_matmul_part part = {w, NULL, y, (size_t)w->n, false};
        bt_matmul_call call = {x, (size_t)w->k, n_rows, 1, &part, work};
        bt_matmul_run(pool, kernels, &call);
    }
    return (double)(bt_clock_now_ns() - start) * 1e-9;
}

static void bench_size(bt_pool *pool, bt_dtype dtype, int n, int k, set *s)
{
    const bt_matmul_kernels *kernels = bt_matmul_kernels_for(bt_cpu_isa());
    double best[BT_COUNT(row_counts)];
    size_t work_bytes, rows = 16;
    if (!bt_matmul_work_bytes((int)rows, k, &work_bytes) || !open_set(pool, dtype, n, k, s)) {
        printf("no memory\n");
        return;
    }
    float *x = bt_mem_alloc(BT_MEM_WORK, rows * (size_t)k * sizeof *x);
    float *y = bt_mem_alloc(BT_MEM_WORK, rows * (size_t)n * sizeof *y);
    void *work = bt_mem_alloc(BT_MEM_WORK, work_bytes);
    BT_ASSERT(x != NULL && y != NULL && work != NULL);
    uint64_t seed = 1;
    for (size_t i = 0; i < rows * (size_t)k; i++) {
        x[i] = (float)(int32_t)(uint32_t)bt_rng_next(&seed) * 0x1p-31f;
    }
    for (int p = 0; p < PASSES; p++) {
        for (size_t i = 0; i < BT_COUNT(row_counts); i++) {
            double t = pass(pool, kernels, s, row_counts[i], x, y, work);
            best[i] = p == 0 ? t : BT_MIN(best[i], t);
        }
    }
    double bytes = (double)s->copies[0].bytes * s->n_copies;
    printf("%-5s %4d x %4d  %6.2f GB/s ", bt_dtype_get(dtype)->name, n, k, bytes / best[0] * 1e-9);
    for (size_t i = 1; i < BT_COUNT(row_counts); i++) {
        printf(" %d: %.2f", row_counts[i], best[i] / best[0]);
    }
    printf("\n");
    fflush(stdout);
    for (int i = 0; i < s->n_copies; i++) {
        bt_pack_close(&s->copies[i]);
    }
    bt_mem_free(x);
    bt_mem_free(y);
    bt_mem_free(work);
}

int bench_matmul(int n_threads, const char *only)
{
    bt_pool *pool;
    set *s = bt_mem_alloc(BT_MEM_WORK, sizeof *s);
    if (s == NULL || bt_pool_open(n_threads, &pool, NULL) != BT_OK) {
        bt_mem_free(s);
        return 1;
    }
    printf("%s, %d threads; GB/s at 1 row, then the time of r rows over that of 1\n",
           bt_cpu_isa_name(bt_cpu_isa()), n_threads);
    for (size_t i = 0; i < BT_COUNT(dtypes); i++) {
        bool wanted = only == NULL || strcmp(only, bt_dtype_get(dtypes[i])->name) == 0;
        for (size_t j = 0; wanted && j < BT_COUNT(sizes); j++) {
            bench_size(pool, dtypes[i], sizes[j][0], sizes[j][1], s);
        }
    }
    bt_pool_close(pool);
    bt_mem_free(s);
    return 0;
}
