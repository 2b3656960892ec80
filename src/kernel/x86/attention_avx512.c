/* SPDX-License-Identifier: MIT
 *
 * kernel/attention.h for AVX-512 (F BW VL DQ). Both products are register tiles of n_q queries by
 * four vectors: up to 24 chains of fused multiply-adds, enough to cover their latency. Every tile
 * is the same inline function with constant bounds, so that each result runs through the same
 * chain whatever tile it falls into. */
#include "kernel/attention.h"

#include "kernel/x86/exp_avx512.h"

#include <math.h>

enum {
    WIDE = 4,  /* vectors of a tile */
    AHEAD = 4, /* blocks of values from the one in use to the one being fetched */
};

BT_INLINE __m512 load_vector(const void *base, size_t idx, __mmask16 mask, bool half)
{
    if (half) {
        const uint16_t *p = (const uint16_t *)base + idx;
        return _mm512_cvtph_ps(mask == 0xFFFF ? _mm256_loadu_si256((const __m256i *)p)
                                              : _mm256_maskz_loadu_epi16(mask, p));
    }
    const float *p = (const float *)base + idx;
    return mask == 0xFFFF ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(mask, p);
}

/* lint: allow parameters: inlined; all of them live in registers. */
/* n_q queries by n_b blocks. `ahead`: blocks to bring near meanwhile, those of the next tile. */
BT_INLINE void scores_tile(const float *const *q, const void *const *k, const void *const *ahead,
                           int head_dim, float *out, const int shape[2], bool half)
{
    const int n_q = shape[0], n_b = shape[1];
    const size_t row_bytes = BT_ATTN_BLOCK * (half ? 2u : 4u);
    __m512 acc[BT_ATTN_QUERIES][WIDE];
#pragma GCC unroll 8
    for (int j = 0; j < n_q; j++) {
#pragma GCC unroll 8
        for (int b = 0; b < n_b; b++) {
            acc[j][b] = _mm512_setzero_ps();
        }
    }
    for (size_t e = 0; e < (size_t)head_dim; e++) {
        __m512 keys[WIDE];
#pragma GCC unroll 8
        for (int b = 0; b < n_b; b++) {
            keys[b] = load_vector(k[b], e * BT_ATTN_BLOCK, 0xFFFF, half);
            if (!half || e % 2 == 0) { /* once a cache line */
                _mm_prefetch((const char *)ahead[b] + e * row_bytes, _MM_HINT_T0);
            }
        }
#pragma GCC unroll 8
        for (int j = 0; j < n_q; j++) {
            __m512 query = _mm512_set1_ps(q[j][e]);
#pragma GCC unroll 8
            for (int b = 0; b < n_b; b++) {
                acc[j][b] = _mm512_fmadd_ps(query, keys[b], acc[j][b]);
            }
        }
    }
#pragma GCC unroll 8
    for (int j = 0; j < n_q; j++) {
#pragma GCC unroll 8
        for (int b = 0; b < n_b; b++) {
            _mm512_storeu_ps(out + j * BT_ATTN_SEGMENT + b * BT_ATTN_BLOCK, acc[j][b]);
        }
    }
}

/* lint: allow parameters: inlined; all of them live in registers. */
BT_INLINE void scores_queries(const float *const *q, int n_q, const void *const *k, int n_blocks,
                              int head_dim, float *out, bool half)
{
    int b = 0;
    for (; b + WIDE <= n_blocks; b += WIDE) {
        scores_tile(q, k + b, b + 2 * WIDE <= n_blocks ? k + b + WIDE : k + b, head_dim,
                    out + b * BT_ATTN_BLOCK, (const int[2]){n_q, WIDE}, half);
    }
    for (; b + 2 <= n_blocks; b += 2) {
        scores_tile(q, k + b, k + b, head_dim, out + b * BT_ATTN_BLOCK, (const int[2]){n_q, 2},
                    half);
    }
    if (b < n_blocks) {
        scores_tile(q, k + b, k + b, head_dim, out + b * BT_ATTN_BLOCK, (const int[2]){n_q, 1},
                    half);
    }
}

/* Makes `call` with a constant N for each possible number of queries. */
#define FOR_QUERIES(n_q, call)                                                                     \
    switch (n_q) {                                                                                 \
    case 1:                                                                                        \
        call(1);                                                                                   \
        break;                                                                                     \
    case 2:                                                                                        \
        call(2);                                                                                   \
        break;                                                                                     \
    case 3:                                                                                        \
        call(3);                                                                                   \
        break;                                                                                     \
    case 4:                                                                                        \
        call(4);                                                                                   \
        break;                                                                                     \
    case 5:                                                                                        \
        call(5);                                                                                   \
        break;                                                                                     \
    default:                                                                                       \
        BT_DEBUG_ASSERT((n_q) == BT_ATTN_QUERIES);                                                 \
        call(BT_ATTN_QUERIES);                                                                     \
        break;                                                                                     \
    }

static void scores_f32_avx512(const float *const *q, int n_q, const void *const *k, int n_blocks,
                              int head_dim, float *out)
{
#define SCORES(n) scores_queries(q, n, k, n_blocks, head_dim, out, false)
    FOR_QUERIES(n_q, SCORES)
#undef SCORES
}

static void scores_f16_avx512(const float *const *q, int n_q, const void *const *k, int n_blocks,
                              int head_dim, float *out){
#define SCORES(n) scores_queries(q, n, k, n_blocks, head_dim, out, true)
    FOR_QUERIES(n_q, SCORES)
#undef SCORES
}

/* cap * tanh(s / cap) = cap * (1 - 2 / (exp(2 s / cap) + 1)); its error is absolute, some
 * 2^-23 * cap, which is what a score of that size has anyway. */
BT_INLINE __m512 soft_cap(__m512 s, float cap)
{
    const __m512 one = _mm512_set1_ps(1.0f), two = _mm512_set1_ps(2.0f);
    __m512 e = bt_exp_avx512(_mm512_mul_ps(s, _mm512_set1_ps(2.0f / cap)));
    __m512 t = _mm512_sub_ps(one, _mm512_div_ps(two, _mm512_add_ps(e, one)));
    return _mm512_mul_ps(t, _mm512_set1_ps(cap));
}

/* Lanes of the block at `base` that lie in lo…hi-1. */
BT_INLINE __mmask16 lanes_between(int base, int lo, int hi)
{
    __mmask16 below_hi = bt_mask_avx512((size_t)(hi - base));
    return lo <= base ? below_hi : (__mmask16)(below_hi & ~bt_mask_avx512((size_t)(lo - base)));
}

static void softmax_avx512(float *s, int lo, int hi, float scale, float softcap, float max_sum[2])
{
    const __m512 factor = _mm512_set1_ps(scale);
    const int first = lo - lo % BT_ATTN_BLOCK;
    __m512 max = _mm512_set1_ps(-INFINITY);
    for (int i = first; i < hi; i += BT_ATTN_BLOCK) {
        __m512 v = _mm512_mul_ps(_mm512_load_ps(s + i), factor);
        if (softcap > 0) {
            v = soft_cap(v, softcap);
        }
        _mm512_store_ps(s + i, v);
        max = _mm512_mask_max_ps(max, lanes_between(i, lo, hi), max, v);
    }
    float top = _mm512_reduce_max_ps(max);
    max = _mm512_set1_ps(top);
    __m512 sum = _mm512_setzero_ps();
    for (int i = first; i < hi; i += BT_ATTN_BLOCK) {
        __m512 p = bt_exp_avx512(_mm512_sub_ps(_mm512_load_ps(s + i), max));
        _mm512_store_ps(s + i, p);
        sum = _mm512_mask_add_ps(sum, lanes_between(i, lo, hi), sum, p);
    }
    max_sum[0] = top;
    max_sum[1] = bt_sum_avx512(sum);
}

/* n_q queries by n_c vectors of values from element `e` on; mask: lanes of the last vector. */
BT_INLINE void mix_tile(const bt_attn_mix_args *a, size_t e, const int shape[2], __mmask16 mask,
                        bool half)
{
    const int n_q = shape[0], n_c = shape[1];
    const size_t d = (size_t)a->head_dim;
    __m512 acc[BT_ATTN_QUERIES][WIDE];
#pragma GCC unroll 8
    for (int j = 0; j < n_q; j++) {
#pragma GCC unroll 8
        for (int c = 0; c < n_c; c++) {
            acc[j][c] =
                load_vector(a->acc + (size_t)j * a->acc_stride + e, (size_t)c * 16, mask, false);
        }
    }
    const int last = (a->hi - 1) / BT_ATTN_BLOCK;
    for (int i = a->lo; i < a->hi;) {
        const void *block = a->v[i / BT_ATTN_BLOCK];
        const char *ahead = a->v[BT_MIN(i / BT_ATTN_BLOCK + AHEAD, last)];
        const int end = BT_MIN(a->hi, (i / BT_ATTN_BLOCK + 1) * BT_ATTN_BLOCK);
        size_t idx = (size_t)(i % BT_ATTN_BLOCK) * d + e;
        for (; i < end; i++, idx += d) {
            __m512 values[WIDE];
#pragma GCC unroll 8
            for (int c = 0; c < n_c; c++) {
                values[c] = load_vector(block, idx + (size_t)c * 16, mask, half);
                if (!half || c % 2 == 0) {
                    _mm_prefetch(ahead + (idx + (size_t)c * 16) * (half ? 2 : 4), _MM_HINT_T0);
                }
            }
#pragma GCC unroll 8
            for (int j = 0; j < n_q; j++) {
                __m512 p = _mm512_set1_ps(a->p[j * BT_ATTN_SEGMENT + i]);
#pragma GCC unroll 8
                for (int c = 0; c < n_c; c++) {
                    acc[j][c] = _mm512_fmadd_ps(p, values[c], acc[j][c]);
                }
            }
        }
    }
#pragma GCC unroll 8
    for (int j = 0; j < n_q; j++) {
#pragma GCC unroll 8
        for (int c = 0; c < n_c; c++) {
            float *to = a->acc + (size_t)j * a->acc_stride + e + (size_t)c * 16;
            _mm512_mask_storeu_ps(to, mask, acc[j][c]);
        }
    }
}

BT_INLINE void mix_queries(const bt_attn_mix_args *a, int n_q, bool half)
{
    const size_t d = (size_t)a->head_dim;
    size_t e = 0;
    for (; e + 16 * WIDE <= d; e += 16 * WIDE) {
        mix_tile(a, e, (const int[2]){n_q, WIDE}, 0xFFFF, half);
    }
    for (; e < d; e += 16) {
        mix_tile(a, e, (const int[2]){n_q, 1}, bt_mask_avx512(d - e), half);
    }
}

static void mix_f32_avx512(const bt_attn_mix_args *a)
{
#define MIX(n) mix_queries(a, n, false)
    FOR_QUERIES(a->n_q, MIX)
#undef MIX
}

static void mix_f16_avx512(const bt_attn_mix_args *a)
{
#define MIX(n) mix_queries(a, n, true)
    FOR_QUERIES(a->n_q, MIX)
#undef MIX
}

static void merge_avx512(float *into, const float *part, int head_dim)
{
    const size_t d = (size_t)head_dim, m = bt_attn_part_max(head_dim);
    const float top = fmaxf(into[m], part[m]);
    const __m512 a = bt_exp_avx512(_mm512_set1_ps(into[m] - top));
    const __m512 b = bt_exp_avx512(_mm512_set1_ps(part[m] - top));
    for (size_t e = 0; e < d; e += 16) {
        __mmask16 mask = bt_mask_avx512(d - e);
        __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, into + e), a);
        v = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, part + e), b, v);
        _mm512_mask_storeu_ps(into + e, mask, v);
    }
    into[m + 1] = fmaf(part[m + 1], _mm512_cvtss_f32(b), into[m + 1] * _mm512_cvtss_f32(a));
    into[m] = top;
}

static void finish_avx512(const float *part, int head_dim, float *out)
{
    const size_t d = (size_t)head_dim;
    const __m512 sum = _mm512_set1_ps(part[bt_attn_part_max(head_dim) + 1]);
    for (size_t e = 0; e < d; e += 16) {
        __mmask16 mask = bt_mask_avx512(d - e);
        _mm512_mask_storeu_ps(out + e, mask,
                              _mm512_div_ps(_mm512_maskz_loadu_ps(mask, part + e), sum));
    }
}

void bt_attention_fill_avx512(bt_attention *table)
{
    table->scores_f32 = scores_f32_avx512;
    table->scores_f16 = scores_f16_avx512;
    table->mix_f32 = mix_f32_avx512;
    table->mix_f16 = mix_f16_avx512;
    table->softmax = softmax_avx512;
    table->merge = merge_avx512;
    table->finish = finish_avx512;
}
