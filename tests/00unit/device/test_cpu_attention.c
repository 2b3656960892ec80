/* SPDX-License-Identifier: MIT
 *
 * Goal: attention of the CPU device is right, and a row's bits depend on the row alone.
 * Method: a cache with shuffled blocks whose unused places hold infinity; random rows of two
 * sequences, read through tables or through tails; a plain softmax in double as the reference, and
 * bitwise comparison of one row alone, many rows, 1 to 3 threads, and tails of different lengths.
 * All on the best kernel level of this CPU and on the reference level. */
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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 3, LEVELS = 2, SEQS = 2, KEYS_MAX = 1500, ROWS_MAX = 40, SPARE = 8 };

static bt_pool *pools[THREADS];
static bt_device *devices[LEVELS][THREADS]; /* best level, reference */

typedef struct shape {
    int n_heads, n_kv_heads, head_dim, n_keys, window;
    float softcap;
    bt_dtype dtype;
} shape;

/* A cache of one layer: each sequence has table_blocks blocks and SPARE blocks for tails. */
typedef struct world {
    shape s;
    uint64_t rng;
    bt_kv_layer kv;
    int table_blocks, n_blocks;
    int32_t table[SEQS][KEYS_MAX / BT_KV_BLOCK + 1], spare[SEQS][SPARE];
    float *k[SEQS], *v[SEQS]; /* [n_keys, G, d] as the cache holds them */
    float *q;                 /* [ROWS_MAX, H, d] */
    int32_t *slots;           /* [ROWS_MAX, SPARE * B]: tails */
} world;

typedef struct rows {
    int n, seq[ROWS_MAX];
    int32_t n_ctx[ROWS_MAX], n_tail[ROWS_MAX];
    const int32_t *blocks[ROWS_MAX], *tail[ROWS_MAX];
} rows;

static float random_float(uint64_t *rng)
{
    return (float)(bt_rng_next(rng) >> 40) * 0x1p-23f - 1.0f;
}

static int random_below(uint64_t *rng, int n)
{
    return (int)(bt_rng_next(rng) % (uint64_t)n);
}

static size_t row_floats(const world *w)
{
    return (size_t)w->s.n_kv_heads * (size_t)w->s.head_dim;
}

static void poison(const world *w)
{
    size_t n = (size_t)w->n_blocks * row_floats(w) * BT_KV_BLOCK;
    for (size_t i = 0; i < n; i++) {
        if (w->kv.dtype == BT_DTYPE_F32) {
            ((float *)w->kv.k)[i] = ((float *)w->kv.v)[i] = INFINITY;
        } else {
            ((uint16_t *)w->kv.k)[i] = ((uint16_t *)w->kv.v)[i] = 0x7C00;
        }
    }
}

static float *random_rows(world *w, size_t n, float size)
{
    float *x = bt_mem_calloc(BT_MEM_WORK, n, sizeof(float));
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        x[i] = size * random_float(&w->rng);
    }
    return x;
}

/* Random keys and values of one sequence, stored through its table in chunks as in a prefill. */
static void fill_sequence(world *w, int seq)
{
    const int n_keys = w->s.n_keys;
    const size_t n = (size_t)n_keys * row_floats(w);
    static int32_t slot[KEYS_MAX];
    float *k = w->k[seq] = random_rows(w, n, 1), *v = w->v[seq] = random_rows(w, n, 1);
    for (int i = 0; i < n_keys; i++) {
        slot[i] = w->table[seq][i / BT_KV_BLOCK] * BT_KV_BLOCK + i % BT_KV_BLOCK;
    }
    for (int i = 0; i < n_keys; i += ROWS_MAX) {
        const size_t at = (size_t)i * row_floats(w);
        devices[0][1]->ops->kv_store(devices[0][1], &w->kv, k + at, v + at, (int)row_floats(w),
                                     slot + i, BT_MIN(ROWS_MAX, n_keys - i));
    }
    for (size_t i = 0; i < n && w->s.dtype == BT_DTYPE_F16; i++) {
        k[i] = bt_f16_to_f32(bt_f32_to_f16(k[i]));
        v[i] = bt_f16_to_f32(bt_f32_to_f16(v[i]));
    }
}

static void world_open(world *w, const shape *s, uint64_t seed)
{
    *w = (world){.s = *s, .rng = seed};
    w->table_blocks = (s->n_keys - 1) / BT_KV_BLOCK + 1;
    w->n_blocks = SEQS * (w->table_blocks + SPARE);
    size_t bytes = (size_t)w->n_blocks * row_floats(w) * BT_KV_BLOCK * sizeof(float);
    w->kv = (bt_kv_layer){.k = bt_mem_calloc(BT_MEM_KV, 1, bytes),
                          .v = bt_mem_calloc(BT_MEM_KV, 1, bytes),
                          .dtype = s->dtype,
                          .n_kv_heads = s->n_kv_heads,
                          .head_dim = s->head_dim};
    w->q = random_rows(w, (size_t)ROWS_MAX * (size_t)(s->n_heads * s->head_dim), 3);
    w->slots = bt_mem_calloc(BT_MEM_WORK, ROWS_MAX * SPARE * BT_KV_BLOCK, sizeof(int32_t));
    poison(w);
    static int32_t ids[SEQS * (KEYS_MAX / BT_KV_BLOCK + 1 + SPARE)];
    for (int i = 0; i < w->n_blocks; i++) { /* shuffled as it grows */
        int j = random_below(&w->rng, i + 1);
        ids[i] = ids[j];
        ids[j] = i;
    }
    const int32_t *next = ids;
    for (int seq = 0; seq < SEQS; seq++) {
        memcpy(w->table[seq], next, (size_t)w->table_blocks * sizeof *next);
        memcpy(w->spare[seq], next + w->table_blocks, SPARE * sizeof *next);
        next += w->table_blocks + SPARE;
        fill_sequence(w, seq);
    }
}

static void world_close(world *w)
{
    bt_mem_free(w->kv.k);
    bt_mem_free(w->kv.v);
    for (int seq = 0; seq < SEQS; seq++) {
        bt_mem_free(w->k[seq]);
        bt_mem_free(w->v[seq]);
    }
    bt_mem_free(w->q);
    bt_mem_free(w->slots);
}

/* Appends a row of sequence seq with n_keys keys, the last n_tail of them in random spare slots,
 * to which they are copied. Rows may share spare slots only when their positions agree: row t owns
 * the spare blocks afresh, so tails are filled again before each use (see attend). */
static void add_row(world *w, rows *r, int seq, int n_keys, int n_tail)
{
    const int t = r->n++, room = SPARE * BT_KV_BLOCK;
    int32_t *tail = w->slots + (size_t)t * (size_t)room;
    const int start = random_below(&w->rng, room);
    for (int i = 0; i < n_tail; i++) {
        const int place = (start + i * (t % 2 == 0 ? 1 : 5)) % room;
        tail[i] = w->spare[seq][place / BT_KV_BLOCK] * BT_KV_BLOCK + place % BT_KV_BLOCK;
    }
    r->seq[t] = seq;
    r->n_ctx[t] = n_keys - n_tail;
    r->n_tail[t] = n_tail;
    r->blocks[t] = w->table[seq];
    r->tail[t] = tail;
}

/* Copies the tail of row t from the table's slots. */
static void fill_tail(const world *w, const rows *r, int t)
{
    int32_t from[SPARE * BT_KV_BLOCK];
    for (int i = 0; i < r->n_tail[t]; i++) {
        const int p = r->n_ctx[t] + i;
        from[i] = r->blocks[t][p / BT_KV_BLOCK] * BT_KV_BLOCK + p % BT_KV_BLOCK;
    }
    devices[0][0]->ops->kv_copy(devices[0][0], &w->kv, from, r->tail[t], r->n_tail[t]);
}

static void attend(const world *w, bt_device *dev, const rows *r, int first, int n, float *out)
{
    const size_t row = (size_t)(w->s.n_heads * w->s.head_dim);
    const bt_attention_args args = {.q = w->q + (size_t)first * row,
                                    .out = out + (size_t)first * row,
                                    .kv = &w->kv,
                                    .n_rows = n,
                                    .n_heads = w->s.n_heads,
                                    .scale = 1 / sqrtf((float)w->s.head_dim),
                                    .softcap = w->s.softcap,
                                    .window = w->s.window,
                                    .n_ctx = r->n_ctx + first,
                                    .blocks = (const int32_t *const *)r->blocks + first,
                                    .n_tail = r->n_tail + first,
                                    .tail = (const int32_t *const *)r->tail + first};
    dev->ops->attention(dev, &args);
}

/* Attention of row t, head h in double; *bound: what f32 may be off for each element.
 *
 * With u = 2^-24: a score is off by (d + 3) u sum|q k| scale + 4 u cap, so the weights by a factor
 * of 1 + 2 times that + 8e-7 (exp twice, in a merge too); the sums over n keys by n u each. */
static void reference(const world *w, const rows *r, int t, int h, double *out, double *bound)
{
    const int d = w->s.head_dim, g = h / (w->s.n_heads / w->s.n_kv_heads), seq = r->seq[t];
    const int n = r->n_ctx[t] + r->n_tail[t];
    const int lo = w->s.window > 0 ? BT_MAX(0, n - w->s.window) : 0;
    const float *q = w->q + (size_t)(t * w->s.n_heads + h) * (size_t)d;
    const double scale = (double)(1 / sqrtf((float)d)), cap = (double)w->s.softcap;
    static double score[KEYS_MAX];
    double max = -INFINITY, sum = 0, off = 0;
    for (int i = lo; i < n; i++) {
        const float *k = w->k[seq] + (size_t)i * row_floats(w) + (size_t)(g * d);
        double dot = 0, size = 0;
        for (int e = 0; e < d; e++) {
            dot += (double)q[e] * (double)k[e];
            size += fabs((double)q[e] * (double)k[e]);
        }
        score[i] = cap > 0 ? cap * tanh(dot * scale / cap) : dot * scale;
        off = fmax(off, (d + 3) * 0x1p-24 * size * scale + 4 * 0x1p-24 * cap);
        max = fmax(max, score[i]);
    }
    memset(out, 0, (size_t)d * sizeof *out);
    memset(bound, 0, (size_t)d * sizeof *bound);
    for (int i = lo; i < n; i++) {
        const float *v = w->v[seq] + (size_t)i * row_floats(w) + (size_t)(g * d);
        const double p = exp(score[i] - max);
        sum += p;
        for (int e = 0; e < d; e++) {
            out[e] += p * (double)v[e];
            bound[e] += p * fabs((double)v[e]);
        }
    }
    for (int e = 0; e < d; e++) {
        out[e] /= sum;
        bound[e] = bound[e] / sum * (2 * off + 8e-7 + 2 * n * 0x1p-24);
    }
}

static void check_row(const world *w, const rows *r, int t, const float *out)
{
    double want[256], bound[256];
    for (int h = 0; h < w->s.n_heads; h++) {
        reference(w, r, t, h, want, bound);
        for (int e = 0; e < w->s.head_dim; e++) {
            const double got = (double)out[(t * w->s.n_heads + h) * w->s.head_dim + e];
            if (!(fabs(got - want[e]) <= bound[e])) {
                print_error("row %d head %d element %d: %.9g, not %.9g +- %.3g (H %d G %d d %d "
                            "keys %d tail %d window %d cap %g %s)\n",
                            t, h, e, got, want[e], bound[e], w->s.n_heads, w->s.n_kv_heads,
                            w->s.head_dim, r->n_ctx[t] + r->n_tail[t], r->n_tail[t], w->s.window,
                            (double)w->s.softcap, bt_dtype_get(w->s.dtype)->name);
                fail();
            }
        }
    }
}

/* Rows as in a prefill, in decoding, and in a tree; the rows with tails come last and share the
 * spare blocks of sequence 1: a tree of one context, whose longest path fills the tail. */
static void make_rows(world *w, rows *r)
{
    const int n = w->s.n_keys;
    r->n = 0;
    for (int i = 0; i < 20; i++) {
        add_row(w, r, 0, BT_MAX(1, n - 19 + i), 0);
    }
    for (int i = 0; i < 5; i++) {
        add_row(w, r, i % SEQS, 1 + random_below(&w->rng, n), 0);
    }
    int n_keys = 1 + random_below(&w->rng, n);
    add_row(w, r, 0, n_keys, 1 + random_below(&w->rng, BT_MIN(n_keys, SPARE * BT_KV_BLOCK)));
    fill_tail(w, r, r->n - 1);
    const int depth = BT_MIN(n, 13), first = r->n;
    for (int i = 1; i <= depth; i++) {
        add_row(w, r, 1, n - depth + i, i);
        r->tail[first + i - 1] = r->tail[first];
    }
    int32_t *path = w->slots + (size_t)first * SPARE * BT_KV_BLOCK;
    for (int i = 0; i < depth; i++) { /* scattered, but for a run at the end */
        const int place = i < 7 ? 5 * i + 3 : 40 + i;
        path[i] = w->spare[1][place / BT_KV_BLOCK] * BT_KV_BLOCK + place % BT_KV_BLOCK;
    }
    fill_tail(w, r, r->n - 1);
}

static const shape shapes[] = {
    {9, 3, 64, 1, 0, 0, BT_DTYPE_F16},       {9, 3, 64, 40, 0, 0, BT_DTYPE_F16},
    {9, 3, 64, 512, 0, 0, BT_DTYPE_F16},     {9, 3, 64, 513, 0, 0, BT_DTYPE_F32},
    {9, 3, 64, 1500, 0, 0, BT_DTYPE_F16},    {4, 4, 10, 77, 0, 0, BT_DTYPE_F32},
    {8, 1, 8, 600, 17, 0, BT_DTYPE_F32},     {30, 1, 72, 100, 0, 50, BT_DTYPE_F16},
    {4, 2, 128, 1100, 600, 0, BT_DTYPE_F16}, {5, 5, 80, 530, 1, 0, BT_DTYPE_F16},
    {2, 1, 256, 700, 520, 30, BT_DTYPE_F32}, {7, 7, 2, 1030, 0, 0, BT_DTYPE_F16},
};
static float want[ROWS_MAX * 4096], got[ROWS_MAX * 4096];

static void values_match_a_plain_softmax(void **state)
{
    (void)state;
    for (size_t i = 0; i < BT_COUNT(shapes); i++) {
        world w;
        rows r;
        world_open(&w, &shapes[i], 100 + i);
        make_rows(&w, &r);
        for (int level = 0; level < LEVELS; level++) {
            attend(&w, devices[level][i % THREADS], &r, 0, r.n, got);
            for (int t = 0; t < r.n; t += level == 0 ? 1 : 5) {
                check_row(&w, &r, t, got);
            }
        }
        world_close(&w);
    }
}

static void check_bits(const world *w, const rows *r, bt_device *dev)
{
    const size_t row = (size_t)(w->s.n_heads * w->s.head_dim);
    memset(got, 0xFF, sizeof got);
    attend(w, dev, r, 0, r->n, got);
    for (int t = 0; t < r->n; t++) {
        if (memcmp(got + (size_t)t * row, want + (size_t)t * row, row * 4) != 0) {
            print_error("row %d of %d keys, %d in the tail, differs on %s (H %d G %d d %d)\n", t,
                        r->n_ctx[t] + r->n_tail[t], r->n_tail[t], dev->name, w->s.n_heads,
                        w->s.n_kv_heads, w->s.head_dim);
            fail();
        }
    }
    memset(got, 0xFF, sizeof got);
    for (int t = 0, n; t < r->n; t += n) { /* chunks of a prefill */
        n = BT_MIN(1 + t % 7, r->n - t);
        attend(w, dev, r, t, n, got);
    }
    assert_memory_equal(got, want, (size_t)r->n * row * sizeof(float));
}

static void bits_depend_on_the_row_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < BT_COUNT(shapes); i++) {
        world w;
        rows r;
        world_open(&w, &shapes[i], 200 + i);
        make_rows(&w, &r);
        rows plain = r;
        for (int t = 0; t < r.n; t++) {
            plain.n_ctx[t] += plain.n_tail[t];
            plain.n_tail[t] = 0;
        }
        for (int level = 0; level < LEVELS; level++) {
            for (int t = 0; t < r.n; t++) { /* each alone, through the table only */
                attend(&w, devices[level][0], &plain, t, 1, want);
            }
            for (int threads = 0; threads < (level == 0 ? THREADS : 1); threads++) {
                check_bits(&w, &r, devices[level][threads]);
            }
        }
        world_close(&w);
    }
}

/* Accepted nodes are copied in the order of the list, so that chains of moves may overlap. */
static void copies_run_in_order(void **state)
{
    (void)state;
    const shape s = {2, 2, 16, 64, 0, 0, BT_DTYPE_F16};
    world w;
    rows r = {.n = 0};
    world_open(&w, &s, 7);
    add_row(&w, &r, 0, 64, 3);
    fill_tail(&w, &r, 0);
    attend(&w, devices[0][0], &r, 0, 1, want);
    int32_t at[4];
    for (int i = 0; i < 4; i++) {
        at[i] = w.spare[1][0] * BT_KV_BLOCK + 3 * i;
    }
    devices[0][0]->ops->kv_copy(devices[0][0], &w.kv, r.tail[0], at + 1, 3);
    devices[0][0]->ops->kv_copy(devices[0][0], &w.kv, at + 1, at, 3);
    r.tail[0] = at;
    attend(&w, devices[0][0], &r, 0, 1, got);
    assert_memory_equal(got, want, 32 * sizeof(float));
    world_close(&w);
}

static int open_devices(void **state)
{
    (void)state;
    const bt_device_limits limits = {.rows_max = ROWS_MAX,
                                     .inputs_max = 64,
                                     .heads_max = 32,
                                     .head_dim_max = 256,
                                     .positions_max = KEYS_MAX};
    for (int level = 0; level < LEVELS; level++) {
        for (int t = 0; t < THREADS; t++) {
            if ((level == 0 && bt_pool_open(t + 1, &pools[t], NULL) != BT_OK) ||
                bt_device_cpu_open(pools[t], &devices[level][t], NULL) != BT_OK ||
                bt_device_cpu_reserve(devices[level][t], &limits, NULL) != BT_OK) {
                return -1;
            }
        }
        setenv("BT_CPU", "ref", 1); /* lowers the level of the devices opened next */
    }
    return 0;
}

static int close_devices(void **state)
{
    (void)state;
    for (int t = 0; t < THREADS; t++) {
        for (int level = 0; level < LEVELS; level++) {
            devices[level][t]->ops->close(devices[level][t]);
        }
        bt_pool_close(pools[t]);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_match_a_plain_softmax),
        cmocka_unit_test(bits_depend_on_the_row_alone),
        cmocka_unit_test(copies_run_in_order),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
