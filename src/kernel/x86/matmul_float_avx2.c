/* SPDX-License-Identifier: MIT
 *
 * Float matmul on AVX2 and FMA: the chains of matmul_float_avx512.c, and so its bits, in half
 * panels of 8 outputs and at most 4 rows at once. */
#include "kernel/matmul.h"

#include <immintrin.h>

enum {
    HALF = BT_PANEL_OUTPUTS / 2,
    STEP = BT_FLOAT_INPUTS, /* inputs of one step, so that K needs no tail */
    ROWS_AT_ONCE = 4,       /* what 16 registers hold */
    AHEAD_BYTES = 2048,
};

#define HOT static inline __attribute__((always_inline))

HOT int step_bytes(bt_dtype dtype)
{
    return STEP * BT_PANEL_OUTPUTS * (dtype == BT_DTYPE_F32 ? 4 : 2);
}

/* Weights of input i of the step at p for the outputs of half h. */
HOT __m256 widen(bt_dtype dtype, const unsigned char *p, int i, int h)
{
    if (dtype == BT_DTYPE_F32) {
        return _mm256_load_ps((const float *)(const void *)(p + 64 * i + 32 * h));
    }
    if (dtype == BT_DTYPE_F16) {
        return _mm256_cvtph_ps(
            _mm_load_si128((const __m128i *)(const void *)(p + 32 * i + 16 * h)));
    }
    __m256i two = _mm256_load_si256((const __m256i *)(const void *)(p + 64 * (i / 2) + 32 * h));
    return _mm256_castsi256_ps(i % 2 == 0 ? _mm256_slli_epi32(two, 16)
                                          : _mm256_and_si256(two, _mm256_set1_epi32(-65536)));
}

static void store(const bt_matmul_tile *t, int first, int row, const __m256 *acc)
{
    float v[HALF];
    int n = BT_MIN(t->w->n - first, (int)HALF);
    float *y = t->y + (size_t)row * t->ldy + first;
    _mm256_storeu_ps(v, *acc);
    for (int o = 0; o < n; o++) {
        float sum = t->bias != NULL ? v[o] + t->bias[first + o] : v[o];
        y[o] = t->accumulate ? y[o] + sum : sum;
    }
}

HOT void run_panel(bt_dtype dtype, int n_rows, const bt_matmul_tile *t, int panel_idx, int row)
{
    const unsigned char *p = t->w->data + (size_t)panel_idx * t->w->panel_bytes;
    const float *x = (const float *)t->x + row;
    __m256 acc[2][ROWS_AT_ONCE];
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) {
        acc[0][r] = acc[1][r] = _mm256_setzero_ps();
    }
    for (int k = 0; k < t->w->k; k += STEP) {
        for (int at = 0; at < step_bytes(dtype); at += BT_CACHE_LINE) {
            _mm_prefetch((const char *)p + AHEAD_BYTES + at, _MM_HINT_T0);
        }
#pragma GCC unroll 4
        for (int i = 0; i < STEP; i++) {
            __m256 w0 = widen(dtype, p, i, 0), w1 = widen(dtype, p, i, 1);
#pragma GCC unroll 4
            for (int r = 0; r < n_rows; r++) {
                __m256 xk = _mm256_set1_ps(x[i * t->n_rows + r]);
                acc[0][r] = _mm256_fmadd_ps(w0, xk, acc[0][r]);
                acc[1][r] = _mm256_fmadd_ps(w1, xk, acc[1][r]);
            }
        }
        p += step_bytes(dtype);
        x += STEP * t->n_rows;
    }
    for (int h = 0; h < 2 && panel_idx * 2 * HALF + h * HALF < t->w->n; h++) {
        for (int r = 0; r < n_rows; r++) {
            store(t, panel_idx * 2 * HALF + h * HALF, row + r, &acc[h][r]);
        }
    }
}

HOT void run(bt_dtype dtype, const bt_matmul_tile *t)
{
    for (int p = t->first; p < t->end; p++) {
        for (int row = 0; row < t->n_rows; row += ROWS_AT_ONCE) {
            switch (BT_MIN(t->n_rows - row, (int)ROWS_AT_ONCE)) {
            case 1:
                run_panel(dtype, 1, t, p, row);
                break;
            case 2:
                run_panel(dtype, 2, t, p, row);
                break;
            case 3:
                run_panel(dtype, 3, t, p, row);
                break;
            default:
                run_panel(dtype, 4, t, p, row);
            }
        }
    }
}

void bt_matmul_f32_f32_avx2(const bt_matmul_tile *tile)
{
    run(BT_DTYPE_F32, tile);
}

void bt_matmul_f16_f32_avx2(const bt_matmul_tile *tile)
{
    run(BT_DTYPE_F16, tile);
}

void bt_matmul_bf16_f32_avx2(const bt_matmul_tile *tile)
{
    run(BT_DTYPE_BF16, tile);
}
