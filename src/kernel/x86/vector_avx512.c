/* SPDX-License-Identifier: MIT
 *
 * kernel/vector.h for AVX-512 (F BW VL DQ). Long sums run in four chains of 16 lanes; remainders
 * are masked, so that no element beyond the length is touched. */
#include "kernel/vector.h"

#include "kernel/attention.h"
#include "kernel/x86/exp_avx512.h"

#include <math.h>

static float sum_squares(const float *x, size_t n)
{
    __m512 sum[4];
    for (int c = 0; c < 4; c++) {
        sum[c] = _mm512_setzero_ps();
    }
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        for (size_t c = 0; c < 4; c++) {
            __m512 v = _mm512_loadu_ps(x + i + 16 * c);
            sum[c] = _mm512_fmadd_ps(v, v, sum[c]);
        }
    }
    for (; i < n; i += 16) {
        __m512 v = _mm512_maskz_loadu_ps(bt_mask_avx512(n - i), x + i);
        sum[0] = _mm512_fmadd_ps(v, v, sum[0]);
    }
    return bt_sum_avx512(
        _mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])));
}

static void rmsnorm_avx512(const float *x, const float *w, float eps, float w_offset, int dim,
                           float *y)
{
    size_t n = (size_t)dim;
    __m512 factor = _mm512_set1_ps(1.0f / sqrtf(sum_squares(x, n) / (float)dim + eps));
    __m512 offset = _mm512_set1_ps(w_offset);
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = bt_mask_avx512(n - i);
        __m512 weight = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, w + i), offset);
        __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), factor);
        _mm512_mask_storeu_ps(y + i, mask, _mm512_mul_ps(v, weight));
    }
}

static void rope_half_avx512(float *x, const float *cos, const float *sin, int n_heads,
                             int head_dim, int n_rot)
{
    size_t n = (size_t)n_rot / 2;
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = bt_mask_avx512(n - i);
        __m512 c = _mm512_maskz_loadu_ps(mask, cos + i), s = _mm512_maskz_loadu_ps(mask, sin + i);
        for (int h = 0; h < n_heads; h++) {
            float *lower = x + (size_t)h * (size_t)head_dim + i, *upper = lower + n;
            __m512 a = _mm512_maskz_loadu_ps(mask, lower), b = _mm512_maskz_loadu_ps(mask, upper);
            _mm512_mask_storeu_ps(lower, mask, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
            _mm512_mask_storeu_ps(upper, mask, _mm512_fmadd_ps(b, c, _mm512_mul_ps(a, s)));
        }
    }
}

static void rope_pairs_avx512(float *x, const float *cos, const float *sin, int n_heads,
                              int head_dim, int n_rot)
{
    size_t n = (size_t)n_rot;
    const __m512i twice = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = bt_mask_avx512(n - i), pairs = bt_mask_avx512((n - i) / 2);
        pairs &= 0xFF; /* 8 angles for 16 elements */
        __m512 c = _mm512_permutexvar_ps(twice, _mm512_maskz_loadu_ps(pairs, cos + i / 2));
        __m512 s = _mm512_permutexvar_ps(twice, _mm512_maskz_loadu_ps(pairs, sin + i / 2));
        for (int h = 0; h < n_heads; h++) {
            float *p = x + (size_t)h * (size_t)head_dim + i;
            __m512 v = _mm512_maskz_loadu_ps(mask, p);
            __m512 swapped = _mm512_permute_ps(v, 0xB1);
            /* even: v c - swapped s, odd: v c + swapped s */
            v = _mm512_fmaddsub_ps(v, c, _mm512_mul_ps(swapped, s));
            _mm512_mask_storeu_ps(p, mask, v);
        }
    }
}

static void silu_mul_avx512(const float *gate, const float *up, size_t n, float *y)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = bt_mask_avx512(n - i);
        __m512 g = _mm512_maskz_loadu_ps(mask, gate + i);
        __m512 e = bt_exp_avx512(_mm512_sub_ps(_mm512_setzero_ps(), g));
        __m512 silu = _mm512_div_ps(g, _mm512_add_ps(one, e));
        _mm512_mask_storeu_ps(y + i, mask,
                              _mm512_mul_ps(silu, _mm512_maskz_loadu_ps(mask, up + i)));
    }
}

static void kv_put_f16_avx512(const float *k, const float *v, int head_dim, void *k_column,
                              void *v_row)
{
    uint16_t *column = k_column, *row = v_row;
    for (size_t i = 0, n = (size_t)head_dim; i < n; i += 16) {
        __mmask16 mask = bt_mask_avx512(n - i);
        __m256i h = _mm512_cvtps_ph(_mm512_maskz_loadu_ps(mask, v + i), _MM_FROUND_TO_NEAREST_INT);
        _mm256_mask_storeu_epi16(row + i, mask, h);
        h = _mm512_cvtps_ph(_mm512_maskz_loadu_ps(mask, k + i), _MM_FROUND_TO_NEAREST_INT);
        uint16_t lanes[16];
        _mm256_storeu_si256((__m256i *)lanes, h);
        for (size_t j = 0; j < 16 && i + j < n; j++) {
            column[(i + j) * BT_ATTN_BLOCK] = lanes[j];
        }
    }
}

void bt_vector_fill_avx512(bt_vector *table)
{
    table->rmsnorm = rmsnorm_avx512;
    table->rope_half = rope_half_avx512;
    table->rope_pairs = rope_pairs_avx512;
    table->silu_mul = silu_mul_avx512;
    table->kv_put_f16 = kv_put_f16_avx512;
}
