/* SPDX-License-Identifier: MIT
 *
 * Activation quantisation on AVX-512; the same bits as ref/quantize_ref.c. */
#include "kernel/quantize.h"

#include <immintrin.h>
#include <string.h>

static inline __m512 clamp(__m512 v)
{
    /* The second operand where the first is NaN, as in the reference. */
    v = _mm512_max_ps(v, _mm512_set1_ps(-127.0f));
    return _mm512_min_ps(v, _mm512_set1_ps(127.0f));
}

void bt_quantize_s8_avx512(const float *x, size_t ldx, int n_rows, int k, unsigned char *tile)
{
    BT_DEBUG_ASSERT(n_rows >= 1 && n_rows <= BT_TILE_ROWS && k % 32 == 0);
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
    for (int g = 0; g < k / 32; g++, tile += (size_t)n_rows * BT_TILE_GROUP_BYTES) {
        for (int r = 0; r < n_rows; r++) {
            const float *from = x + (size_t)r * ldx + (size_t)g * 32;
            __m512 a = _mm512_loadu_ps(from), b = _mm512_loadu_ps(from + 16);
            __m512i top = _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(a), magnitude),
                                           _mm512_and_si512(_mm512_castps_si512(b), magnitude));
            uint32_t top_bits = _mm512_reduce_max_epu32(top);
            float most, d = 0.0f;
            memcpy(&most, &top_bits, sizeof most);
            __m512i qa = _mm512_setzero_si512(), qb = qa;
            if (!(most < 0x1p-120f)) {
                __m512 inverse = _mm512_set1_ps(127.0f / most);
                qa = _mm512_cvtps_epi32(clamp(_mm512_mul_ps(a, inverse)));
                qb = _mm512_cvtps_epi32(clamp(_mm512_mul_ps(b, inverse)));
                d = most / 127.0f;
            }
            int sum = _mm512_reduce_add_epi32(_mm512_add_epi32(qa, qb));
            _mm_storeu_si128((__m128i *)(void *)(tile + 32 * r), _mm512_cvtepi32_epi8(qa));
            _mm_storeu_si128((__m128i *)(void *)(tile + 32 * r + 16), _mm512_cvtepi32_epi8(qb));
            float s = d * (float)sum;
            int32_t c8 = -8 * sum, c16 = -16 * sum, c128 = -128 * sum;
            memcpy(tile + bt_tile_scale_at(n_rows) + 4 * r, &d, 4);
            memcpy(tile + bt_tile_sum_at(n_rows) + 4 * r, &s, 4);
            memcpy(tile + bt_tile_correction_at(n_rows, 8) + 4 * r, &c8, 4);
            memcpy(tile + bt_tile_correction_at(n_rows, 16) + 4 * r, &c16, 4);
            memcpy(tile + bt_tile_correction_at(n_rows, 128) + 4 * r, &c128, 4);
        }
    }
}
