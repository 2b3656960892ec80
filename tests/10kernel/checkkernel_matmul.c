/* SPDX-License-Identifier: MIT
 *
 * Packed weights and the matmul kernels of every ISA level that the machine has, against the
 * reference and, for the reference itself, against plain arithmetic on bt_tensor_read_f32. Fills
 * are random or adversarial; outputs stand between guard zones.
 *
 *   checkkernel_matmul                              tests, TAP
 *   checkkernel_matmul --bench [threads [format]]   speeds (bench_matmul.c) */
#include "bench_matmul.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kernel/matmul.h"
#include "tensor/half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 40, ROWS_MAX = 17 };

static const bt_dtype dtypes[] = {BT_DTYPE_F32,  BT_DTYPE_F16,  BT_DTYPE_BF16, BT_DTYPE_Q4_0,
                                  BT_DTYPE_Q4_1, BT_DTYPE_Q5_0, BT_DTYPE_Q5_1, BT_DTYPE_Q8_0};
/* N, K; the integer formats skip the K that are not whole groups. */
static const int shapes[][2] = {{1, 1},    {5, 7},    {16, 32},  {31, 64},  {17, 33},
                                {64, 172}, {512, 64}, {33, 96},  {40, 160}, {130, 32},
                                {1, 576},  {96, 576}, {49, 1056}};
static const bt_isa levels[] = {BT_ISA_AVX2, BT_ISA_AVX512, BT_ISA_AVX512VNNI, BT_ISA_NEON};

typedef enum fill { FILL_RANDOM, FILL_MAX_CODES, FILL_SIGNED_ZERO, FILL_EXTREME, FILL_COUNT } fill;

static int n_tests, n_failed;
static bt_pool *pools[4]; /* by threads, 1…3 */

static void report(bool ok, const char *what)
{
    n_tests++;
    n_failed += !ok;
    printf("%sok %d - %s\n", ok ? "" : "not ", n_tests, what);
    fflush(stdout);
}

static float uniform(uint64_t *seed)
{
    return (float)(int32_t)(uint32_t)bt_rng_next(seed) * 0x1p-31f;
}

static void put_half(unsigned char *p, float f)
{
    uint16_t h = bt_f32_to_f16(f);
    memcpy(p, &h, sizeof h);
}

/* One source block. */
static void fill_block(bt_dtype dtype, fill how, uint64_t *seed, unsigned char *p)
{
    int bytes = bt_dtype_get(dtype)->block_bytes;
    for (int i = 0; i < bytes; i++) {
        p[i] = how == FILL_MAX_CODES ? 0xFF : (unsigned char)bt_rng_next(seed);
    }
    if (how == FILL_MAX_CODES && dtype == BT_DTYPE_Q8_0) {
        memset(p, 0x80, (size_t)bytes);
    }
    float f = uniform(seed);
    f = how == FILL_SIGNED_ZERO ? copysignf(0.0f, f) : how == FILL_EXTREME ? f * 65504.0f : f;
    f = how == FILL_EXTREME && (bt_rng_next(seed) & 3) == 0 ? 0x1p-24f : f; /* subnormal f16 */
    if (dtype == BT_DTYPE_F32) {
        memcpy(p, &f, sizeof f);
    } else if (dtype == BT_DTYPE_BF16) {
        uint16_t h = bt_f32_to_bf16(f);
        memcpy(p, &h, sizeof h);
    } else {
        put_half(p, f);
        if (dtype == BT_DTYPE_Q4_1 || dtype == BT_DTYPE_Q5_1) {
            put_half(p + 2, how == FILL_SIGNED_ZERO ? -0.0f : uniform(seed));
        }
    }
}

typedef struct matrix {
    bt_tensor_view view;
    unsigned char *bytes; /* view.data - 1: deliberately unaligned */
    bt_panels panels;
} matrix;

static matrix make_matrix(bt_dtype dtype, int n, int k, fill how, uint64_t seed)
{
    matrix m = {0};
    const bt_dtype_info *info = bt_dtype_get(dtype);
    size_t row;
    BT_ASSERT(bt_dtype_bytes(dtype, (uint64_t)k, &row));
    size_t bytes = row * (size_t)n;
    m.bytes = bt_mem_alloc(BT_MEM_FILE, bytes + 1);
    BT_ASSERT(m.bytes != NULL);
    for (size_t at = 0; at < bytes; at += (size_t)info->block_bytes) {
        fill_block(dtype, how, &seed, m.bytes + 1 + at);
    }
    m.view = (bt_tensor_view){.name = BT_STR("test.weight"),
                              .dtype = dtype,
                              .n_dims = 2,
                              .shape = {n, k},
                              .n_elements = (uint64_t)n * (uint64_t)k,
                              .data = m.bytes + 1,
                              .bytes = bytes};
    bt_err err;
    if (bt_pack_open(pools[2], &m.view, NULL, NULL, &m.panels, &err) != BT_OK) {
        printf("Bail out! %s\n", err.message);
        exit(1);
    }
    return m;
}

static void free_matrix(matrix *m)
{
    bt_pack_close(&m->panels);
    bt_mem_free(m->bytes);
}

static float *make_rows(int n_rows, int k, fill how, uint64_t seed)
{
    float *x = bt_mem_alloc(BT_MEM_WORK, (size_t)n_rows * (size_t)k * sizeof *x);
    BT_ASSERT(x != NULL);
    for (int i = 0; i < n_rows * k; i++) {
        float u = uniform(&seed);
        x[i] = how == FILL_MAX_CODES     ? copysignf(1.0f, u)
               : how == FILL_SIGNED_ZERO ? (i / 32 % 2 == 0 ? copysignf(0.0f, u) : u)
               : how == FILL_EXTREME     ? ldexpf(u, (int)(bt_rng_next(&seed) % 90) - 60)
                                         : u;
    }
    return x;
}

/* y [n_rows, n + 3] between guards. */
typedef struct guarded {
    float *block, *y;
    size_t ldy, floats;
} guarded;

static const float guard_value = -12345.678f;

static guarded make_guarded(int n_rows, int n)
{
    guarded g = {.ldy = (size_t)n + 3};
    g.floats = (size_t)n_rows * g.ldy + 2 * GUARD;
    g.block = bt_mem_alloc(BT_MEM_WORK, g.floats * sizeof(float));
    BT_ASSERT(g.block != NULL);
    for (size_t i = 0; i < g.floats; i++) {
        g.block[i] = guard_value;
    }
    g.y = g.block + GUARD;
    return g;
}

static bool guards_hold(const guarded *g, int n_rows, int n)
{
    for (size_t i = 0; i < g->floats; i++) {
        size_t at = i - GUARD;
        bool inside = i >= GUARD && at < (size_t)n_rows * g->ldy && at % g->ldy < (size_t)n;
        if (!inside && g->block[i] != guard_value) {
            printf("# guard broken at float %zu of %zu\n", i, g->floats);
            return false;
        }
    }
    return true;
}

static bool same_bits(float a, float b)
{
    return bt_f32_bits(a) == bt_f32_bits(b) || (isnan(a) && isnan(b));
}

static void multiply(bt_pool *pool, bt_isa isa, const float *x, int n_rows,
                     const bt_matmul_part *parts, int n_parts)
{
    int k = parts[0].w->k;
    size_t bytes;
    BT_ASSERT(bt_matmul_work_bytes(n_rows, k, &bytes));
    void *work = bt_mem_alloc(BT_MEM_WORK, bytes);
    BT_ASSERT(work != NULL);
    bt_matmul_call call = {x, (size_t)k, n_rows, n_parts, parts, work};
    bt_matmul_run(pool, bt_matmul_kernels_for(isa), &call);
    bt_mem_free(work);
}

/* Goal: packing keeps every value, with its sign of zero, and is no larger than promised. Method:
 * read each row back and compare with the source's own reader, bit for bit. */
static bool check_pack(bt_dtype dtype, int n, int k, fill how)
{
    matrix m = make_matrix(dtype, n, k, how, (uint64_t)(n * 1000 + k));
    float *want = make_rows(2, k, FILL_RANDOM, 1), *got = want + k;
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        bt_tensor_read_f32(&m.view, (uint64_t)i * (uint64_t)k, (uint64_t)k, want);
        bt_pack_read_row(&m.panels, i, got);
        for (int j = 0; j < k && ok; j++) {
            ok = same_bits(want[j], got[j]);
            if (!ok) {
                printf("# [%d, %d]: %a became %a\n", i, j, (double)want[j], (double)got[j]);
            }
        }
    }
    if (n % 16 == 0 && k >= 64 && (double)m.panels.bytes > 1.05 * (double)m.view.bytes) {
        printf("# packed %zu bytes of %zu\n", m.panels.bytes, m.view.bytes);
        ok = false;
    }
    bt_mem_free(want);
    free_matrix(&m);
    return ok;
}

/* Largest error that y[t, i] may have: of float formats, the rounding of a chain of k fused steps,
 * (k + 2) 2^-24 sum |w x| (Higham, Accuracy and Stability of Numerical Algorithms, 3.1); of integer
 * formats half a code (max|x| / 254 of the group, a little more for the rounding of d and x / d) on
 * each weight, and the chain's rounding of terms up to 4 times as large (d q and m apart). */
static double error_bound(bool integer, const float *w, const float *x, int k)
{
    double sum = 0.0, codes = 0.0;
    for (int g = 0; g < k; g += 32) {
        double most = 0.0, weights = 0.0;
        for (int i = g; i < k && i < g + 32; i++) {
            sum += fabs((double)w[i] * (double)x[i]);
            most = fmax(most, fabs((double)x[i]));
            weights += fabs((double)w[i]);
        }
        codes += most * weights;
    }
    double chain = (k + 2) * 0x1p-24;
    return integer ? codes * (1.001 / 254.0 + 4.0 * chain) : sum * chain + 1e-37;
}

/* Goal: y is the product. Method: every element against a sum in double over the source's own
 * values, within the derived bound; with bias, on top of what y held (zeros). */
static bool check_truth(bt_isa isa, bt_dtype dtype, int n, int k, int n_rows)
{
    matrix m = make_matrix(dtype, n, k, FILL_RANDOM, (uint64_t)(n + k));
    float *x = make_rows(n_rows, k, FILL_RANDOM, 5), *w = make_rows(1, k, FILL_RANDOM, 6);
    float *bias = make_rows(1, n, FILL_RANDOM, 7);
    guarded g = make_guarded(n_rows, n);
    bool integer = bt_pack_is_integer(dtype), ok = true;
    for (int t = 0; t < n_rows; t++) {
        memset(g.y + (size_t)t * g.ldy, 0, (size_t)n * sizeof(float));
    }
    multiply(pools[2], isa, x, n_rows, &(bt_matmul_part){&m.panels, bias, g.y, g.ldy, true}, 1);
    for (int i = 0; i < n; i++) {
        bt_tensor_read_f32(&m.view, (uint64_t)i * (uint64_t)k, (uint64_t)k, w);
        for (int t = 0; t < n_rows && ok; t++) {
            double want = 0.0, got = (double)g.y[(size_t)t * g.ldy + (size_t)i];
            for (int j = 0; j < k; j++) {
                want += (double)w[j] * (double)x[t * k + j];
            }
            double bound = error_bound(integer, w, x + t * k, k) + 4 * 0x1p-24 * fabs(want);
            want += (double)bias[i];
            bound += 2 * 0x1p-24 * (fabs(want) + fabs((double)bias[i]));
            ok = fabs(want - got) <= bound;
            if (!ok) {
                printf("# [%d, %d]: %g, not %g; bound %g\n", t, i, got, want, bound);
            }
        }
    }
    ok = ok && guards_hold(&g, n_rows, n);
    bt_mem_free(x);
    bt_mem_free(w);
    bt_mem_free(bias);
    bt_mem_free(g.block);
    free_matrix(&m);
    return ok;
}

/* Goal: an ISA level gives the reference's bits for integer formats, on fills that reach the ends
 * of every range, and for float formats the bits of the lowest SIMD level. Method: same call on
 * both, compared bitwise, guards intact. */
static bool check_isa_bits(bt_isa isa, bt_dtype dtype, int n, int k, fill how)
{
    bt_isa like = bt_pack_is_integer(dtype) ? BT_ISA_REF : BT_ISA_AVX2;
    matrix m = make_matrix(dtype, n, k, how, (uint64_t)(3 * n + k));
    bool ok = true;
    for (int n_rows = 1; n_rows <= ROWS_MAX && ok; n_rows++) {
        float *x = make_rows(n_rows, k, how, (uint64_t)n_rows);
        guarded a = make_guarded(n_rows, n), b = make_guarded(n_rows, n);
        bool accumulate = n_rows % 2 == 0; /* onto the guard value, which both hold */
        multiply(pools[1], like, x, n_rows,
                 &(bt_matmul_part){&m.panels, NULL, a.y, a.ldy, accumulate}, 1);
        multiply(pools[2], isa, x, n_rows,
                 &(bt_matmul_part){&m.panels, NULL, b.y, b.ldy, accumulate}, 1);
        for (size_t i = 0; i < a.floats && ok; i++) {
            ok = same_bits(a.block[i], b.block[i]);
            if (!ok) {
                printf("# %d rows, float %zu: %a, not %a\n", n_rows, i, (double)b.block[i],
                       (double)a.block[i]);
            }
        }
        ok = ok && guards_hold(&b, n_rows, n);
        bt_mem_free(a.block);
        bt_mem_free(b.block);
        bt_mem_free(x);
    }
    free_matrix(&m);
    return ok;
}

/* Goal (law 1): a row's bits do not depend on the rows beside it, on threads, or on the matrices
 * in the same call. Method: each row alone on one thread, against 1…17 rows on 1, 2 and 3 threads
 * with a second matrix of another class in the call. */
static bool check_invariance(bt_isa isa, bt_dtype dtype, int n, int k)
{
    matrix m = make_matrix(dtype, n, k, FILL_RANDOM, 11);
    bt_dtype other_type = bt_pack_is_integer(dtype) ? BT_DTYPE_BF16 : BT_DTYPE_F32;
    matrix other = make_matrix(other_type, 20, k, FILL_RANDOM, 12);
    float *x = make_rows(ROWS_MAX, k, FILL_RANDOM, 13);
    guarded one = make_guarded(ROWS_MAX, n), beside = make_guarded(ROWS_MAX, 20);
    bool ok = true;
    for (int t = 0; t < ROWS_MAX; t++) {
        multiply(pools[1], isa, x + t * k, 1,
                 &(bt_matmul_part){&m.panels, NULL, one.y + (size_t)t * one.ldy, one.ldy, false},
                 1);
    }
    for (int n_rows = 1; n_rows <= ROWS_MAX && ok; n_rows++) {
        for (int threads = 1; threads <= 3 && ok; threads++) {
            guarded all = make_guarded(n_rows, n);
            bt_matmul_part parts[2] = {{&other.panels, NULL, beside.y, beside.ldy, false},
                                       {&m.panels, NULL, all.y, all.ldy, false}};
            multiply(pools[threads], isa, x, n_rows, parts, 2);
            for (int t = 0; t < n_rows && ok; t++) {
                ok = memcmp(all.y + (size_t)t * all.ldy, one.y + (size_t)t * one.ldy,
                            (size_t)n * sizeof(float)) == 0;
            }
            if (!ok) {
                printf("# differs with %d rows, %d threads\n", n_rows, threads);
            }
            bt_mem_free(all.block);
        }
    }
    ok = ok && guards_hold(&beside, ROWS_MAX, 20);
    bt_mem_free(x);
    bt_mem_free(one.block);
    bt_mem_free(beside.block);
    free_matrix(&m);
    free_matrix(&other);
    return ok;
}

/* Goal: quantised rows have the reference's bits on every level, also for infinities, NaN and
 * subnormals, which must survive as a scale that is not finite. Method: random bit patterns. */
static bool check_quantize(bt_isa isa, int n_rows)
{
    enum { K = 256 };
    float x[BT_TILE_ROWS * K];
    unsigned char a[BT_TILE_ROWS * K / 32 * BT_TILE_GROUP_BYTES], b[sizeof a];
    uint64_t seed = 17;
    bool ok = true;
    for (int round = 0; round < 200 && ok; round++) {
        for (int i = 0; i < n_rows * K; i++) {
            uint32_t bits = (uint32_t)bt_rng_next(&seed);
            /* Rounds with finite numbers of any size, close ones, and whatever the bits say. */
            x[i] = round % 3 == 0   ? bt_f32_from_bits(bits & 0xBFFFFFFFu)
                   : round % 3 == 1 ? (float)(int32_t)bits * 0x1p-31f
                                    : bt_f32_from_bits(bits);
        }
        size_t used = (size_t)n_rows * (K / 32 * BT_TILE_GROUP_BYTES);
        bt_quantize_s8_ref(x, K, n_rows, K, a);
        bt_matmul_kernels_for(isa)->quantize(x, K, n_rows, K, b);
        ok = memcmp(a, b, used) == 0;
    }
    x[5] = NAN;
    bt_quantize_s8_ref(x, K, n_rows, K, a);
    float d;
    memcpy(&d, a + bt_tile_scale_at(n_rows), sizeof d);
    return ok && isnan(d);
}

/* Goal: hostile or odd views are refused with a message that names the tensor. Method: one wrong
 * thing at a time. */
static bool check_refusals(void)
{
    unsigned char bytes[4096] = {0};
    bt_tensor_view good = {.name = BT_STR("w"),
                           .dtype = BT_DTYPE_Q8_0,
                           .n_dims = 2,
                           .shape = {4, 64},
                           .data = bytes,
                           .bytes = 4 * 2 * 34};
    bt_tensor_view bad[7];
    for (size_t i = 0; i < BT_COUNT(bad); i++) {
        bad[i] = good;
    }
    bad[0].n_dims = 3;
    bad[1].dtype = BT_DTYPE_I32;
    bad[2].shape[1] = 33;
    bad[3].shape[0] = 0;
    bad[4].shape[0] = INT64_MAX / 2;
    bad[5].bytes--;
    bad[6].shape[1] = -64;
    bt_panels plan;
    bt_err err;
    bool ok = bt_pack_plan(&good, &plan, &err) == BT_OK && plan.n == 4 && plan.k == 64;
    for (size_t i = 0; i < BT_COUNT(bad); i++) {
        bt_status status = bt_pack_plan(&bad[i], &plan, &err);
        if (status == BT_OK || strstr(err.message, "tensor w") == NULL) {
            printf("# view %zu: %s\n", i, status == BT_OK ? "accepted" : err.message);
            ok = false;
        }
    }
    bt_mem_fail_after(1);
    ok = ok && bt_pack_open(pools[1], &good, NULL, NULL, &plan, &err) == BT_E_NO_MEMORY;
    bt_mem_fail_after(0);
    return ok;
}

static void count_progress(void *ctx, int64_t rows_done)
{
    int64_t *last = ctx;
    *last = rows_done > *last ? rows_done : -1;
}

/* Goal: packing reports growing row counts that end at N. Method: a matrix of several rounds. */
static bool check_progress(void)
{
    int64_t last = 0;
    bt_panels panels;
    size_t bytes = (size_t)70000 * 576 * 2;
    bt_tensor_view view = {.name = BT_STR("w"),
                           .dtype = BT_DTYPE_BF16,
                           .n_dims = 2,
                           .shape = {70000, 576},
                           .bytes = bytes};
    unsigned char *source = bt_mem_calloc(BT_MEM_FILE, bytes, 1);
    BT_ASSERT(source != NULL);
    view.data = source;
    bool ok = bt_pack_open(pools[2], &view, count_progress, &last, &panels, NULL) == BT_OK;
    ok = ok && last == 70000;
    bt_pack_close(&panels);
    bt_mem_free(source);
    return ok;
}

static void check_dtype(bt_dtype dtype)
{
    char what[128];
    const char *name = bt_dtype_get(dtype)->name;
    bool integer = bt_pack_is_integer(dtype), pack = true, truth = true, rows = true;
    for (size_t s = 0; s < BT_COUNT(shapes); s++) {
        int n = shapes[s][0], k = shapes[s][1];
        if (integer && k % 32 != 0) {
            continue;
        }
        for (int how = 0; how < FILL_COUNT; how++) {
            pack = check_pack(dtype, n, k, (fill)how) && pack;
        }
        truth = check_truth(BT_ISA_REF, dtype, n, k, 3) && truth;
        rows = (n > 100 || check_invariance(BT_ISA_REF, dtype, n, k)) && rows;
    }
    snprintf(what, sizeof what, "%s packs without loss", name);
    report(pack, what);
    snprintf(what, sizeof what, "%s ref within the bound of the plain sum", name);
    report(truth, what);
    snprintf(what, sizeof what, "%s ref rows are independent", name);
    report(rows, what);
}

/* True when the level has its own kernel for the format: others are tested already. */
static bool is_new(bt_isa isa, bt_dtype dtype)
{
    bool differs = true;
    for (int lower = BT_ISA_REF; lower < (int)isa && differs; lower++) {
        differs = bt_matmul_kernels_for((bt_isa)lower)->tile[dtype] !=
                  bt_matmul_kernels_for(isa)->tile[dtype];
    }
    return differs;
}

static void check_level(bt_isa isa, bt_dtype dtype)
{
    char what[128];
    const char *name = bt_dtype_get(dtype)->name, *level = bt_cpu_isa_name(isa);
    bool integer = bt_pack_is_integer(dtype), right = true, rows = true;
    for (size_t s = 0; s < BT_COUNT(shapes); s++) {
        int n = shapes[s][0], k = shapes[s][1];
        if (integer && k % 32 != 0) {
            continue;
        }
        for (int how = 0; (integer || isa > BT_ISA_AVX2) && how < FILL_COUNT; how++) {
            right = check_isa_bits(isa, dtype, n, k, (fill)how) && right;
        }
        for (int n_rows = 1; n_rows <= 9; n_rows++) {
            right = check_truth(isa, dtype, n, k, n_rows) && right;
        }
        rows = check_invariance(isa, dtype, n, k) && rows;
    }
    snprintf(what, sizeof what, "%s %s %s", name, level,
             integer ? "equals ref bit for bit" : "within the derived bound");
    report(right, what);
    snprintf(what, sizeof what, "%s %s rows are independent", name, level);
    report(rows, what);
}

int main(int argc, char **argv)
{
    bt_cpu_init(NULL);
    if (argc > 1 && strcmp(argv[1], "--bench") == 0) {
        return bench_matmul(argc > 2 ? atoi(argv[2]) : bt_cpu_threads(), argc > 3 ? argv[3] : NULL);
    }
    for (int threads = 1; threads <= 3; threads++) {
        if (bt_pool_open(threads, &pools[threads], NULL) != BT_OK) {
            return 1;
        }
    }
    report(check_refusals(), "hostile views are refused");
    report(check_progress(), "packing reports its progress");
    for (size_t i = 0; i < BT_COUNT(dtypes); i++) {
        check_dtype(dtypes[i]);
    }
    for (size_t l = 0; l < BT_COUNT(levels); l++) {
        const char *name = bt_cpu_isa_name(levels[l]);
        if (!bt_cpu_has(levels[l])) {
            printf("# this machine has no %s\n", name);
            continue;
        }
        bool quantize = true;
        for (int n_rows = 1; n_rows <= BT_TILE_ROWS; n_rows++) {
            quantize = check_quantize(levels[l], n_rows) && quantize;
        }
        char what[64];
        snprintf(what, sizeof what, "%s quantises like ref", name);
        report(quantize, what);
        for (size_t i = 0; i < BT_COUNT(dtypes); i++) {
            if (is_new(levels[l], dtypes[i])) {
                check_level(levels[l], dtypes[i]);
            }
        }
    }
    printf("1..%d\n", n_tests);
    for (int threads = 1; threads <= 3; threads++) {
        bt_pool_close(pools[threads]);
    }
    return n_failed == 0 ? 0 : 1;
}
