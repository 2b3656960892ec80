/* SPDX-License-Identifier: MIT
 *
 * Method: the operations of the CPU device at the shapes of a 135M model (D 576, H 9, G 3, d 64,
 * F 1536), many calls a measurement, the best of several: other load only ever slows a call. Each
 * attention call reads the next of several caches, as the layers of a model do. */
#include "bench_vector.h"

#include "base/clock.h"
#include "base/mem.h"
#include "device/device.h"

#include <math.h>
#include <stdio.h>

enum { D = 576, H = 9, G = 3, HEAD = 64, F = 1536, ROWS_MAX = 512, KEYS_MAX = 4096, LAYERS = 8 };
enum { PASSES = 7, PASS_NS = 3000000 };

typedef struct bench {
    bt_device *dev;
    float *x, *y, *up, *cos, *sin;
    bt_kv_layer kv[LAYERS];
    int32_t slot[ROWS_MAX], pos[ROWS_MAX], n_ctx[ROWS_MAX], n_tail[ROWS_MAX];
    int32_t table[KEYS_MAX / BT_KV_BLOCK], tail[ROWS_MAX];
    const int32_t *blocks[ROWS_MAX], *tails[ROWS_MAX];
    int n_rows, layer;
} bench;

static void norm(bench *b)
{
    b->dev->ops->rmsnorm(b->dev, b->x, b->up, 1e-5f, 0, b->n_rows, 1, D, b->y);
}

static void rope(bench *b)
{
    const bt_rope_args args = {.x = b->y,
                               .pos = b->pos,
                               .n_rows = b->n_rows,
                               .n_heads = H,
                               .head_dim = HEAD,
                               .row_stride = D,
                               .cos = b->cos,
                               .sin = b->sin,
                               .n_pos = KEYS_MAX,
                               .n_rot = HEAD};
    b->dev->ops->rope(b->dev, &args);
}

static void store(bench *b)
{
    b->layer = (b->layer + 1) % LAYERS;
    b->dev->ops->kv_store(b->dev, &b->kv[b->layer], b->x, b->x, G * HEAD, b->slot, b->n_rows);
}

static void silu(bench *b)
{
    b->dev->ops->silu_mul(b->dev, b->x, b->up, b->n_rows, F, b->y);
}

static void attention(bench *b)
{
    b->layer = (b->layer + 1) % LAYERS;
    const bt_attention_args args = {.q = b->x,
                                    .out = b->y,
                                    .kv = &b->kv[b->layer],
                                    .n_rows = b->n_rows,
                                    .n_heads = H,
                                    .scale = 0.125f,
                                    .n_ctx = b->n_ctx,
                                    .blocks = b->blocks,
                                    .n_tail = b->n_tail,
                                    .tail = b->tails};
    b->dev->ops->attention(b->dev, &args);
}

/* Nanoseconds of a call. */
static double measure(bench *b, void (*call)(bench *b))
{
    double best = INFINITY;
    for (int pass = 0; pass < PASSES; pass++) {
        int64_t start = bt_clock_now_ns(), now = start;
        int n = 0;
        for (; now - start < PASS_NS; n++) {
            call(b);
            now = bt_clock_now_ns();
        }
        best = fmin(best, (double)(now - start) / n);
    }
    return best;
}

static void rows_at(bench *b, int n_rows, int n_keys, bool tree)
{
    b->n_rows = n_rows;
    for (int t = 0; t < n_rows; t++) {
        const int n = BT_MAX(1, n_keys - n_rows + 1 + t);
        b->pos[t] = n - 1;
        b->n_tail[t] = tree ? t + 1 : 0;
        b->n_ctx[t] = n - b->n_tail[t];
        b->blocks[t] = b->table;
        b->tails[t] = b->tail;
        b->slot[t] = b->tail[t] =
            b->table[(n - 1) / BT_KV_BLOCK] * BT_KV_BLOCK + (n - 1) % BT_KV_BLOCK;
    }
}

static void run_all(bench *b, int n_threads)
{
    static const int row_counts[] = {1, 6, 512}, contexts[] = {1, 128, 512, 1024, 4096};
    printf("%s, %d threads: ns a call\n", b->dev->name, n_threads);
    for (size_t i = 0; i < BT_COUNT(row_counts); i++) {
        rows_at(b, row_counts[i], KEYS_MAX, false);
        printf("%4d rows: rmsnorm %.0f, rope %.0f, kv_store %.0f, silu_mul %.0f\n", b->n_rows,
               measure(b, norm), measure(b, rope), measure(b, store), measure(b, silu));
        for (size_t c = 0; c < BT_COUNT(contexts); c++) {
            if (contexts[c] < row_counts[i]) {
                continue;
            }
            rows_at(b, row_counts[i], contexts[c], false);
            const double ns = measure(b, attention);
            double macs = 0;
            for (int t = 0; t < b->n_rows; t++) {
                macs += 2.0 * H * HEAD * b->n_ctx[t];
            }
            printf("%4d rows, %4d keys: attention %.0f (%.1f GFLOP/s)", b->n_rows, contexts[c], ns,
                   2 * macs / ns);
            if (row_counts[i] == 6) {
                rows_at(b, row_counts[i], contexts[c], true);
                printf(", as a tree %.0f", measure(b, attention));
            }
            printf("\n");
        }
    }
}

static bool claim(bench *b, bt_dtype dtype)
{
    const size_t floats = (size_t)ROWS_MAX * F, cache = (size_t)KEYS_MAX * G * HEAD;
    float **const buffers[] = {&b->x, &b->y, &b->up, &b->cos, &b->sin};
    for (size_t i = 0; i < BT_COUNT(buffers); i++) {
        float *p = *buffers[i] = b->dev->ops->alloc(b->dev, BT_MEM_WORK, floats * sizeof(float));
        if (p == NULL) {
            return false;
        }
        for (size_t j = 0; j < floats; j++) {
            p[j] = sinf((float)j);
        }
    }
    for (size_t i = 0; i < (size_t)KEYS_MAX * HEAD / 2; i++) { /* true angles: lengths stay */
        b->cos[i] = cosf((float)i);
    }
    for (int l = 0; l < LAYERS; l++) {
        b->kv[l] = (bt_kv_layer){.k = b->dev->ops->alloc(b->dev, BT_MEM_KV, cache * 4),
                                 .v = b->dev->ops->alloc(b->dev, BT_MEM_KV, cache * 4),
                                 .dtype = dtype,
                                 .n_kv_heads = G,
                                 .head_dim = HEAD};
        if (b->kv[l].k == NULL || b->kv[l].v == NULL) {
            return false;
        }
    }
    for (int i = 0; i < KEYS_MAX / BT_KV_BLOCK; i++) { /* odd factor: a permutation */
        b->table[i] = (i * 37) % (KEYS_MAX / BT_KV_BLOCK);
    }
    return true;
}

static void give_back(bench *b)
{
    float *const buffers[] = {b->x, b->y, b->up, b->cos, b->sin};
    for (size_t i = 0; i < BT_COUNT(buffers); i++) {
        b->dev->ops->free(b->dev, buffers[i]);
    }
    for (int l = 0; l < LAYERS; l++) {
        b->dev->ops->free(b->dev, b->kv[l].k);
        b->dev->ops->free(b->dev, b->kv[l].v);
    }
}

bt_status bench_vector(int n_threads, bt_dtype dtype, bt_err *err)
{
    const bt_device_limits limits = {.rows_max = ROWS_MAX,
                                     .inputs_max = F,
                                     .heads_max = H,
                                     .head_dim_max = HEAD,
                                     .positions_max = KEYS_MAX};
    static bench b;
    bt_pool *pool;
    BT_TRY(bt_pool_open(n_threads, &pool, err));
    bt_status status = bt_device_cpu_open(pool, &b.dev, err);
    if (status == BT_OK) {
        status = bt_device_cpu_reserve(b.dev, &limits, err);
        if (status == BT_OK && claim(&b, dtype)) {
            printf("cache %s, ", bt_dtype_get(dtype)->name);
            run_all(&b, n_threads);
        } else if (status == BT_OK) {
            status = bt_fail(err, BT_E_NO_MEMORY, "no memory for the benchmark");
        }
        give_back(&b);
        b.dev->ops->close(b.dev);
    }
    bt_pool_close(pool);
    return status;
}
