/* SPDX-License-Identifier: MIT
 *
 *   checkkernel_vector                     tests, TAP
 *   checkkernel_vector --bench [threads] [f32|f16]
 *
 * Goal: each vector and attention kernel of each level agrees with the reference, touches nothing
 * beyond its operands, and sums in an order that its neighbours do not change.
 * Method: random operands of awkward lengths between guard zones; bounds derived from the number of
 * roundings (u = 2^-24) and printed with a failure; exp over a dense set of arguments. */
#include "bench_vector.h"

#include "base/cpu.h"
#include "base/rng.h"
#include "kernel/attention.h"
#include "kernel/vector.h"
#include "tensor/half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 32, FLOATS_MAX = 1 << 15, DIM_MAX = 256 };
#define U 0x1p-24

static uint64_t rng = 11;
static int n_tests, n_failed;

static void report(bool ok, const char *what, bt_isa isa)
{
    n_tests++;
    n_failed += !ok;
    printf("%sok %d - %s %s\n", ok ? "" : "not ", n_tests, what, bt_cpu_isa_name(isa));
}

static float random_float(void)
{
    return (float)(bt_rng_next(&rng) >> 40) * 0x1p-23f - 1.0f;
}

static int random_int(int lo, int hi)
{
    return lo + (int)(bt_rng_next(&rng) % (uint64_t)(hi - lo + 1));
}

/* Floats between guard zones. */
typedef struct guarded {
    float room[GUARD + FLOATS_MAX + GUARD];
    size_t n;
} guarded;

static const uint32_t guard_bits = 0x7FC0ABCDu; /* a NaN: what reads it shows */

static float *guarded_open(guarded *g, size_t n)
{
    BT_ASSERT(n <= FLOATS_MAX);
    g->n = n;
    for (size_t i = 0; i < n + 2 * GUARD; i++) {
        bool inside = i >= GUARD && i < GUARD + n;
        g->room[i] = inside ? random_float() : bt_f32_from_bits(guard_bits);
    }
    return g->room + GUARD;
}

static bool guarded_intact(const guarded *g)
{
    for (size_t i = 0; i < g->n + 2 * GUARD; i++) {
        bool inside = i >= GUARD && i < GUARD + g->n;
        if (!inside && bt_f32_bits(g->room[i]) != guard_bits) {
            printf("# guard broken at float %td of %zu\n", (ptrdiff_t)i - GUARD, g->n);
            return false;
        }
    }
    return true;
}

static bool near(const char *what, size_t i, float got, float want, double bound)
{
    if (fabs((double)got - (double)want) <= bound) {
        return true;
    }
    printf("# %s [%zu]: %.9g, not %.9g; bound %.3g\n", what, i, (double)got, (double)want, bound);
    return false;
}

static guarded a, b, c, y, z;
static const int dims[] = {1, 2, 7, 16, 17, 64, 65, 100, 172, 256, 576, 1000, 1537};

/* dim + 8 roundings, of relative size, for the sum of squares and the formula. */
static bool check_rmsnorm(const bt_vector *k, const bt_vector *ref)
{
    bool ok = true;
    for (size_t i = 0; i < BT_COUNT(dims) && ok; i++) {
        const size_t n = (size_t)dims[i];
        const float *x = guarded_open(&a, n), *w = guarded_open(&b, n);
        float *got = guarded_open(&y, n), *want = guarded_open(&z, n);
        ref->rmsnorm(x, w, 1e-6f, 1, dims[i], want);
        k->rmsnorm(x, w, 1e-6f, 1, dims[i], got);
        for (size_t j = 0; j < n; j++) { /* w + 1 may cancel: its rounding is absolute */
            double bound = ((double)dims[i] + 8) * U * (fabs((double)want[j]) + 1e-3);
            ok = near("rmsnorm", j, got[j], want[j], bound) && ok;
        }
        memcpy(want, got, n * sizeof *got);
        memcpy(got, x, n * sizeof *got);
        k->rmsnorm(got, w, 1e-6f, 1, dims[i], got);
        ok = ok && memcmp(got, want, n * sizeof *got) == 0 && guarded_intact(&y);
    }
    return ok;
}

/* Two products and a sum of operands below 1: 4 roundings. */
static bool check_rope(const bt_vector *k, const bt_vector *ref, bool pairs)
{
    bool ok = true;
    for (int trial = 0; trial < 60 && ok; trial++) {
        const int heads = random_int(1, 5), d = random_int(1, 70) * 2;
        const int rot = random_int(0, d / 2) * 2;
        const size_t n = (size_t)(heads * d);
        const float *cos = guarded_open(&a, (size_t)rot / 2);
        const float *sin = guarded_open(&b, (size_t)rot / 2);
        float *want = guarded_open(&z, n), *got = guarded_open(&y, n);
        memcpy(got, want, n * sizeof *got);
        (pairs ? ref->rope_pairs : ref->rope_half)(want, cos, sin, heads, d, rot);
        (pairs ? k->rope_pairs : k->rope_half)(got, cos, sin, heads, d, rot);
        for (size_t j = 0; j < n; j++) {
            double bound = (int)j % d < rot ? 4 * U : 0;
            ok = near(pairs ? "rope_pairs" : "rope_half", j, got[j], want[j], bound) && ok;
        }
        ok = ok && guarded_intact(&y);
    }
    return ok;
}

static bool check_silu(const bt_vector *k, const bt_vector *ref)
{
    bool ok = true;
    for (size_t i = 0; i < BT_COUNT(dims) && ok; i++) {
        const size_t n = (size_t)dims[i];
        float *gate = guarded_open(&a, n);
        const float *up = guarded_open(&b, n);
        for (size_t j = 0; j < n; j++) {
            gate[j] *= j % 3 == 0 ? 100 : 4;
        }
        float *got = guarded_open(&y, n), *want = guarded_open(&z, n);
        ref->silu_mul(gate, up, n, want);
        k->silu_mul(gate, up, n, got);
        for (size_t j = 0; j < n; j++) { /* exp(88.8) is infinite: 0 instead of 2^-121 */
            double bound = 8 * U * fabs((double)want[j]) + 0x1p-121;
            ok = near("silu_mul", j, got[j], want[j], bound) && ok;
        }
        ok = ok && guarded_intact(&y);
        k->silu_mul(gate, up, n, gate);
        ok = ok && memcmp(gate, got, n * sizeof *got) == 0 && guarded_intact(&a);
    }
    return ok;
}

/* Bit for bit: conversions have one right answer; also subnormals, ties, infinity, overflow. */
static bool check_kv_put(const bt_vector *k, const bt_vector *ref, bool half)
{
    bool ok = true;
    for (int trial = 0; trial < 100 && ok; trial++) {
        const int d = random_int(1, 130), at = random_int(0, BT_ATTN_BLOCK - 1);
        const size_t bytes = half ? 2 : 4, n = (size_t)d;
        float *key = guarded_open(&a, n), *value = guarded_open(&b, n);
        for (size_t j = 0; j < n; j++) {
            key[j] = ldexpf(key[j], random_int(-30, 18));
            value[j] = j % 5 == 0 ? 1 + (float)random_int(0, 8) * 0x1p-11f : ldexpf(value[j], 17);
        }
        float *got = guarded_open(&y, n * (BT_ATTN_BLOCK + 1));
        float *want = guarded_open(&z, n * (BT_ATTN_BLOCK + 1));
        memcpy(want, got, n * (BT_ATTN_BLOCK + 1) * sizeof *got);
        char *g = (char *)got, *w = (char *)want;
        const size_t row = n * BT_ATTN_BLOCK * bytes;
        (half ? k->kv_put_f16 : k->kv_put_f32)(key, value, d, g + (size_t)at * bytes, g + row);
        (half ? ref->kv_put_f16 : ref->kv_put_f32)(key, value, d, w + (size_t)at * bytes, w + row);
        ok = memcmp(got, want, n * (BT_ATTN_BLOCK + 1) * sizeof *got) == 0 && guarded_intact(&y);
    }
    return ok;
}

enum { BLOCKS = 7 };

/* A random cache for one head, between guards, and its blocks in a shuffled order. */
static void make_blocks(guarded *room, int d, bool half, const void *blocks[BLOCKS])
{
    const size_t elements = (size_t)(BLOCKS * BT_ATTN_BLOCK * d);
    float *p = guarded_open(room, half ? (elements + 1) / 2 : elements);
    if (half) {
        uint16_t *h = (uint16_t *)(void *)p;
        for (size_t i = 0; i < elements; i++) {
            h[i] = bt_f32_to_f16(random_float());
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = (char *)p + (size_t)((i * 3) % BLOCKS * BT_ATTN_BLOCK * d) * (half ? 2 : 4);
    }
}

/* Against the reference within d roundings of sum |q k|, here at most d; each query and block alone
 * gives the same bits. */
static bool check_scores(const bt_attention *k, const bt_attention *ref, bool half)
{
    bt_attn_scores_fn *fn = half ? k->scores_f16 : k->scores_f32;
    bt_attn_scores_fn *ref_fn = half ? ref->scores_f16 : ref->scores_f32;
    const void *blocks[BLOCKS];
    bool ok = true;
    for (int trial = 0; trial < 120 && ok; trial++) {
        const int d = random_int(1, 80), n_q = 1 + trial % BT_ATTN_QUERIES;
        const int n_b = random_int(1, BLOCKS);
        make_blocks(&a, d, half, blocks);
        const float *q[BT_ATTN_QUERIES];
        for (int j = 0; j < n_q; j++) { /* overlapping: no kernel may care */
            q[j] = j == 0 ? guarded_open(&b, (size_t)(d + n_q - 1)) : q[0] + j;
        }
        const size_t n = (size_t)((n_q - 1) * BT_ATTN_SEGMENT + n_b * BT_ATTN_BLOCK);
        float *got = guarded_open(&y, n), *want = guarded_open(&z, n);
        ref_fn(q, n_q, blocks, n_b, d, want);
        fn(q, n_q, blocks, n_b, d, got);
        for (int j = 0; j < n_q && ok; j++) {
            for (int i = 0; i < n_b * BT_ATTN_BLOCK; i++) {
                size_t at = (size_t)(j * BT_ATTN_SEGMENT + i);
                ok = near("scores", at, got[at], want[at], (d + 1) * U * d) && ok;
            }
        }
        ok = ok && guarded_intact(&y);
        for (int j = 0; j < n_q && ok; j++) {
            for (int i = 0; i < n_b && ok; i++) {
                float alone[BT_ATTN_BLOCK];
                fn(q + j, 1, blocks + i, 1, d, alone);
                ok =
                    memcmp(alone, got + j * BT_ATTN_SEGMENT + i * BT_ATTN_BLOCK, sizeof alone) == 0;
            }
        }
    }
    return ok;
}

/* Against the reference within one rounding a position; continued calls, other queries beside it
 * and NaN outside lo…hi-1 change no bit. */
static bool check_mix(const bt_attention *k, const bt_attention *ref, bool half)
{
    const void *blocks[BLOCKS];
    bool ok = true;
    for (int trial = 0; trial < 150 && ok; trial++) {
        const int d = random_int(1, 140), n_q = 1 + trial % BT_ATTN_QUERIES;
        const int lo = random_int(0, 30), hi = random_int(lo, BLOCKS * BT_ATTN_BLOCK);
        const size_t stride = (size_t)d + 3, n = (size_t)(n_q - 1) * stride + (size_t)d;
        make_blocks(&a, d, half, blocks);
        float *got = guarded_open(&y, n), *want = guarded_open(&z, n);
        memcpy(want, got, n * sizeof *got);
        float *start = guarded_open(&c, n);
        memcpy(start, got, n * sizeof *got);
        bt_attn_mix_args m = {.p = guarded_open(&b, BT_ATTN_QUERIES * BT_ATTN_SEGMENT),
                              .v = blocks,
                              .acc = want,
                              .acc_stride = stride,
                              .n_q = n_q,
                              .lo = lo,
                              .hi = hi,
                              .head_dim = d};
        (half ? ref->mix_f16 : ref->mix_f32)(&m);
        m.acc = got;
        bt_attn_mix_fn *fn = half ? k->mix_f16 : k->mix_f32;
        fn(&m);
        for (size_t i = 0; i < n; i++) {
            ok = near("mix", i, got[i], want[i], 2 * (hi - lo + 1) * U * (hi - lo + 1)) && ok;
        }
        ok = ok && guarded_intact(&y);
        const int cut = random_int(lo, hi);
        for (int j = 0; j < n_q && ok; j++) {
            bt_attn_mix_args one = m;
            one.acc = start + (size_t)j * stride;
            one.p = m.p + j * BT_ATTN_SEGMENT;
            one.n_q = 1;
            one.hi = cut;
            fn(&one);
            one.lo = cut;
            one.hi = hi;
            fn(&one);
        }
        ok = ok && memcmp(start, got, n * sizeof *got) == 0;
    }
    return ok;
}

/* Weights within 3 u |score| (the difference to the maximum is rounded) plus exp's own 1.8e-7, or
 * 4 u cap more with a soft cap. */
static bool check_softmax(const bt_attention *k, const bt_attention *ref)
{
    static _Alignas(64) float got[BT_ATTN_SEGMENT], want[BT_ATTN_SEGMENT];
    bool ok = true;
    for (int trial = 0; trial < 300 && ok; trial++) {
        const int lo = trial % 3 == 0 ? random_int(0, BT_ATTN_SEGMENT - 1) : 0,
                  hi = random_int(lo + 1, BT_ATTN_SEGMENT);
        const float cap = trial % 2 == 0 ? 0 : 20, size = trial % 5 == 0 ? 1000 : 30;
        for (int i = 0; i < BT_ATTN_SEGMENT; i++) { /* what lies outside must not matter */
            bool inside = i >= lo && i < hi;
            got[i] = want[i] = inside ? size * random_float() : NAN;
        }
        float m[2], m_ref[2];
        k->softmax(got, lo, hi, 0.125f, cap, m);
        ref->softmax(want, lo, hi, 0.125f, cap, m_ref);
        const double off = 3 * U * 0.125 * (double)size + 4 * U * (double)cap;
        ok = near("max", 0, m[0], m_ref[0], off);
        ok = ok && near("sum", 0, m[1], m_ref[1], (double)m_ref[1] * (2 * off + 5e-7));
        for (int i = lo; i < hi; i++) {
            ok = near("weight", (size_t)i, got[i], want[i],
                      (2 * off + 5e-7) * (double)want[i] + 0x1p-126) &&
                 ok;
        }
    }
    return ok;
}

/* exp of x in -90…0 to 1.8e-7 where e^x is a normal number, exp(0) = 1: a softmax beside a 0. */
static bool check_exp(const bt_attention *k)
{
    static _Alignas(64) float s[BT_ATTN_BLOCK], x[BT_ATTN_BLOCK];
    double worst = 0;
    float m[2];
    bool ok = true;
    for (int i = 0; i < 1000000; i += BT_ATTN_BLOCK - 1) {
        for (int j = 0; j < BT_ATTN_BLOCK; j++) {
            s[j] = x[j] = j == 0 ? 0 : -(float)(i + j) * 8.7e-5f;
        }
        k->softmax(s, 0, BT_ATTN_BLOCK, 1, 0, m);
        ok = ok && s[0] == 1.0f && m[0] == 0.0f;
        for (int j = 1; j < BT_ATTN_BLOCK; j++) {
            worst = fmax(worst, fabs((double)s[j] / exp((double)x[j]) - 1));
        }
    }
    printf("# exp: largest relative error %.3g, bound 1.8e-7\n", worst);
    return ok && worst < 1.8e-7;
}

static bool check_merge(const bt_attention *k, const bt_attention *ref)
{
    bool ok = true;
    for (int trial = 0; trial < 100 && ok; trial++) {
        const int d = random_int(1, DIM_MAX);
        const size_t n = bt_attn_part_size(d), m = bt_attn_part_max(d);
        float *got = guarded_open(&y, n), *want = guarded_open(&z, n), *part = guarded_open(&a, n);
        got[m] *= 20;
        part[m] *= 20;
        got[m + 1] = 1.5f + got[m + 1];
        part[m + 1] = 1.5f + part[m + 1];
        memcpy(want, got, n * sizeof *got);
        k->merge(got, part, d);
        ref->merge(want, part, d);
        for (size_t i = 0; i <= m + 1; i++) {
            ok = i >= (size_t)d && i < m
                     ? ok
                     : near("merge", i, got[i], want[i], 6e-7 * 4 + 20 * U) && ok;
        }
        float *out = guarded_open(&b, (size_t)d), *out_ref = guarded_open(&c, (size_t)d);
        k->finish(want, d, out);
        ref->finish(want, d, out_ref);
        ok = ok && memcmp(out, out_ref, (size_t)d * sizeof *out) == 0; /* one division */
        ok = ok && guarded_intact(&y) && guarded_intact(&b);
    }
    return ok;
}

static void check_level(bt_isa isa)
{
    bt_vector k, ref;
    bt_attention ak, aref;
    bt_vector_init(&k, isa);
    bt_vector_init(&ref, BT_ISA_REF);
    bt_attention_init(&ak, isa);
    bt_attention_init(&aref, BT_ISA_REF);
    report(check_rmsnorm(&k, &ref), "rmsnorm", isa);
    report(check_rope(&k, &ref, false), "rope_half", isa);
    report(check_rope(&k, &ref, true), "rope_pairs", isa);
    report(check_silu(&k, &ref), "silu_mul", isa);
    report(check_kv_put(&k, &ref, false), "kv_put_f32", isa);
    report(check_kv_put(&k, &ref, true), "kv_put_f16", isa);
    report(check_scores(&ak, &aref, false), "scores_f32", isa);
    report(check_scores(&ak, &aref, true), "scores_f16", isa);
    report(check_mix(&ak, &aref, false), "mix_f32", isa);
    report(check_mix(&ak, &aref, true), "mix_f16", isa);
    report(check_softmax(&ak, &aref), "softmax", isa);
    report(check_exp(&ak), "exp", isa);
    report(check_merge(&ak, &aref), "merge and finish", isa);
}

static int bench(int argc, char **argv)
{
    bt_err err;
    int n_threads = argc > 2 ? atoi(argv[2]) : bt_cpu_threads();
    bt_dtype dtype = argc > 3 && strcmp(argv[3], "f32") == 0 ? BT_DTYPE_F32 : BT_DTYPE_F16;
    if (bench_vector(n_threads, dtype, &err) != BT_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (!bt_cpu_init(NULL)) {
        fprintf(stderr, "BT_CPU is no level\n");
        return 2;
    }
    if (argc > 1 && strcmp(argv[1], "--bench") == 0) {
        return bench(argc, argv);
    }
    for (int isa = 0; isa <= (int)bt_cpu_isa(); isa++) {
        if (bt_cpu_has((bt_isa)isa)) {
            check_level((bt_isa)isa);
        }
    }
    printf("1..%d\n", n_tests);
    return n_failed > 0;
}
