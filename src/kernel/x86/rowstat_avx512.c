/* SPDX-License-Identifier: MIT
 *
 * Row statistics on AVX-512; the same bits as ref/rowstat_ref.c. */
#include "kernel/rowstat.h"

#include <immintrin.h>
#include <math.h>

/* Bits of floats as integers of the same order. */
static inline __m512i ordered(__m512i bits)
{
    __m512i sign = _mm512_srai_epi32(bits, 31);
    return _mm512_xor_si512(bits, _mm512_srli_epi32(sign, 1));
}

static inline float from_ordered(int32_t key)
{
    int32_t bits = key ^ ((key >> 31) & INT32_MAX);
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

bool bt_row_scan_avx512(const float *x, int n, float *block_max, float *max)
{
    BT_ASSERT(n > 0);
    const __m512i no_sign = _mm512_set1_epi32(INT32_MAX), lowest = _mm512_set1_epi32(INT32_MIN);
    const int32_t infinity_bits = 0x7f800000;
    __m512i magnitude = _mm512_setzero_si512();
    int32_t top = INT32_MIN;
    for (int b = 0; b < bt_row_blocks(n); b++) {
        const float *block = x + (ptrdiff_t)b * BT_ROW_BLOCK;
        int left = BT_MIN(n - b * BT_ROW_BLOCK, BT_ROW_BLOCK);
        __m512i best = lowest;
        for (int i = 0; i < left; i += 16) {
            __mmask16 live = (__mmask16)(left - i >= 16 ? 0xffffu : (1u << (left - i)) - 1);
            __m512i bits = _mm512_maskz_loadu_epi32(live, block + i);
            best = _mm512_mask_max_epi32(best, live, best, ordered(bits));
            magnitude = _mm512_max_epi32(magnitude, _mm512_and_si512(bits, no_sign));
        }
        int32_t key = _mm512_reduce_max_epi32(best);
        block_max[b] = from_ordered(key);
        top = BT_MAX(top, key);
    }
    *max = from_ordered(top);
    return _mm512_reduce_max_epi32(magnitude) <= infinity_bits &&
           top<infinity_bits && * max> - INFINITY;
}

/* bt_row_exp of 16 values. */
static inline __m512 exp16(__m512 x)
{
    const __m512 lowest = _mm512_set1_ps(BT_EXP_LOWEST), shift = _mm512_set1_ps(BT_EXP_SHIFT);
    const __m512 one = _mm512_set1_ps(1.0f);
    __mmask16 live = _mm512_cmp_ps_mask(x, lowest, _CMP_NLT_UQ);
    __m512 y = _mm512_mask_mov_ps(lowest, live, x);
    __m512 shifted = _mm512_add_ps(_mm512_mul_ps(y, _mm512_set1_ps(BT_EXP_LOG2E)), shift);
    __m512 n = _mm512_sub_ps(shifted, shift);
    __m512 r = _mm512_add_ps(_mm512_sub_ps(y, _mm512_mul_ps(n, _mm512_set1_ps(BT_EXP_LN2_HIGH))),
                             _mm512_mul_ps(n, _mm512_set1_ps(BT_EXP_LN2_LOW)));
    __m512 p = _mm512_set1_ps(BT_EXP_C7);
    p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(BT_EXP_C6));
    p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(BT_EXP_C5));
    p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(BT_EXP_C4));
    p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(BT_EXP_C3));
    p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(0.5f));
    p = _mm512_add_ps(_mm512_mul_ps(p, r), one);
    p = _mm512_add_ps(_mm512_mul_ps(p, r), one);
    __m512i power = _mm512_add_epi32(_mm512_slli_epi32(_mm512_castps_si512(shifted), 23),
                                     _mm512_castps_si512(one));
    return _mm512_maskz_mul_ps(live, p, _mm512_castsi512_ps(power));
}

static inline __m512d grain8(__m256 weight)
{
    const __m512d shift = _mm512_set1_pd(BT_GRAIN_SHIFT);
    return _mm512_sub_pd(_mm512_add_pd(_mm512_cvtps_pd(weight), shift), shift);
}

double bt_row_exp_avx512(const float *x, int n, float max, float scale, float *out)
{
    BT_ASSERT(n <= BT_ROW_MASS_MAX);
    const __m512 vmax = _mm512_set1_ps(max), vscale = _mm512_set1_ps(scale);
    __m512d low = _mm512_setzero_pd(), high = low;
    for (int i = 0; i < n; i += 16) {
        __mmask16 live = (__mmask16)(n - i >= 16 ? 0xffffu : (1u << (n - i)) - 1);
        __m512 v = _mm512_mask_loadu_ps(vmax, live, x + i);
        __m512 w = exp16(_mm512_mul_ps(_mm512_sub_ps(v, vmax), vscale));
        w = _mm512_maskz_mov_ps(live, w);
        _mm512_mask_storeu_ps(out + i, live, w);
        low = _mm512_add_pd(low, grain8(_mm512_castps512_ps256(w)));
        high = _mm512_add_pd(high, grain8(_mm512_extractf32x8_ps(w, 1)));
    }
    return _mm512_reduce_add_pd(_mm512_add_pd(low, high));
}
