/* SPDX-License-Identifier: MIT
 *
 * Float matmul on AVX-512: weights widened to f32 once for all rows of the tile, then fused
 * multiply-adds, k after k, one chain for each output. bf16 is widened by shift and mask: on the
 * CPUs at hand twice as fast as vdpbf16ps, and the activations stay f32.
 *
 * Instantiated for each number of rows; several panels advance side by side, which also covers the
 * latency of the chains (see matmul_int_avx512vnni.c). */
#include "kernel/matmul.h"

#include <immintrin.h>

enum {
    PANEL = BT_PANEL_OUTPUTS,
    LINE = BT_CACHE_LINE,
    STREAMS_MAX = 4,
    AHEAD_BYTES = 8192, /* prefetch distance, of all streams together */
};

#define HOT static inline __attribute__((always_inline))

/* Inputs of one step: BT_FLOAT_INPUTS, so that K needs no tail. */
enum { STEP = BT_FLOAT_INPUTS };

HOT int step_bytes(bt_dtype dtype)
{
    return STEP * PANEL * (dtype == BT_DTYPE_F32 ? 4 : 2);
}

/* The 16 weights of input i of the step at p. */
HOT __m512 widen(bt_dtype dtype, const unsigned char *p, int i)
{
    if (dtype == BT_DTYPE_F32) {
        return _mm512_load_ps(p + 64 * i);
    }
    if (dtype == BT_DTYPE_F16) {
        return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)(p + 32 * i)));
    }
    __m512i two = _mm512_load_si512(p + 64 * (i / 2));
    return _mm512_castsi512_ps(i % 2 == 0 ? _mm512_slli_epi32(two, 16)
                                          : _mm512_and_si512(two, _mm512_set1_epi32(-65536)));
}

HOT void store(const bt_matmul_tile *t, int panel_idx, int n_rows, const __m512 *acc)
{
    int first = panel_idx * PANEL, n = t->w->n - first;
    __mmask16 mask = (__mmask16)(n >= PANEL ? 0xFFFFu : (1u << n) - 1u);
    __m512 bias = _mm512_setzero_ps();
    if (t->bias != NULL) {
        bias = _mm512_maskz_loadu_ps(mask, t->bias + first);
    }
    for (int r = 0; r < n_rows; r++) {
        float *y = t->y + (size_t)r * t->ldy + first;
        __m512 v = t->bias != NULL ? _mm512_add_ps(acc[r], bias) : acc[r];
        if (t->accumulate) {
            v = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, y), v);
        }
        _mm512_mask_storeu_ps(y, mask, v);
    }
}

/* Panels panel_idx + s * apart, s < n_streams, side by side. */
HOT void run_panels(bt_dtype dtype, int n_rows, int n_streams, const bt_matmul_tile *t,
                    int panel_idx, int apart)
{
    const float *x = t->x;
    const unsigned char *p = t->w->data + (size_t)panel_idx * t->w->panel_bytes;
    const size_t stride = (size_t)apart * t->w->panel_bytes;
    __m512 acc[STREAMS_MAX][BT_TILE_ROWS];
#pragma GCC unroll 4
    for (int s = 0; s < n_streams; s++) {
#pragma GCC unroll 8
        for (int r = 0; r < n_rows; r++) {
            acc[s][r] = _mm512_setzero_ps();
        }
    }
    for (int k = 0; k < t->w->k; k += STEP) {
#pragma GCC unroll 4
        for (int s = 0; s < n_streams; s++) {
#pragma GCC unroll 4
            for (int line = 0; line < step_bytes(dtype) / LINE; line++) {
                _mm_prefetch((const char *)p + (size_t)s * stride + AHEAD_BYTES / n_streams +
                                 line * LINE,
                             _MM_HINT_T0);
            }
        }
#pragma GCC unroll 4
        for (int i = 0; i < STEP; i++) {
            __m512 w[STREAMS_MAX];
#pragma GCC unroll 4
            for (int s = 0; s < n_streams; s++) {
                w[s] = widen(dtype, p + (size_t)s * stride, i);
            }
#pragma GCC unroll 8
            for (int r = 0; r < n_rows; r++) {
                __m512 xk = _mm512_set1_ps(x[i * n_rows + r]);
#pragma GCC unroll 4
                for (int s = 0; s < n_streams; s++) {
                    acc[s][r] = _mm512_fmadd_ps(w[s], xk, acc[s][r]);
                }
            }
        }
        p += step_bytes(dtype);
        x += STEP * n_rows;
    }
#pragma GCC unroll 4
    for (int s = 0; s < n_streams; s++) {
        store(t, panel_idx + s * apart, n_rows, acc[s]);
    }
}

HOT void run_rows(bt_dtype dtype, int n_rows, int n_streams, const bt_matmul_tile *t)
{
    const int apart = (t->end - t->first) / n_streams;
    for (int i = 0; i < apart; i++) {
        run_panels(dtype, n_rows, n_streams, t, t->first + i, apart);
    }
    for (int p = t->first + apart * n_streams; p < t->end; p++) {
        run_panels(dtype, n_rows, 1, t, p, 0);
    }
}

HOT void run(bt_dtype dtype, const bt_matmul_tile *t)
{
    switch (t->n_rows) {
    case 1:
        run_rows(dtype, 1, 4, t);
        break;
    case 2:
        run_rows(dtype, 2, 4, t);
        break;
    case 3:
        run_rows(dtype, 3, 2, t);
        break;
    case 4:
        run_rows(dtype, 4, 2, t);
        break;
    case 5:
        run_rows(dtype, 5, 2, t);
        break;
    case 6:
        run_rows(dtype, 6, 2, t);
        break;
    case 7:
        run_rows(dtype, 7, 2, t);
        break;
    default:
        BT_DEBUG_ASSERT(t->n_rows == 8);
        run_rows(dtype, 8, 2, t);
    }
}

void bt_matmul_f32_f32_avx512(const bt_matmul_tile *tile)
{
    run(BT_DTYPE_F32, tile);
}

void bt_matmul_f16_f32_avx512(const bt_matmul_tile *tile)
{
    run(BT_DTYPE_F16, tile);
}

void bt_matmul_bf16_f32_avx512(const bt_matmul_tile *tile)
{
    run(BT_DTYPE_BF16, tile);
}
