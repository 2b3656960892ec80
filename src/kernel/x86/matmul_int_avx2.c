/* SPDX-License-Identifier: MIT
 *
 * Integer matmul on AVX2, for machines without VNNI; the bits of the reference. A ymm holds 8
 * outputs × 4 inputs. vpmaddubsw adds two products in 16 saturating bits, so every sum is kept
 * below 2^15: 4 (5) bits give at most 2 * 15 (31) * 127 a pair, of which four fit; 8 bits are
 * multiplied as magnitudes, with the sign moved to the activation: 2 * 128 * 127 fits once. */
#include "kernel/matmul.h"

#include <immintrin.h>

enum {
    HALF = BT_PANEL_OUTPUTS / 2,
    LINE = BT_CACHE_LINE,
    SCALES = 2 * BT_PANEL_OUTPUTS,
    ROWS_AT_ONCE = 4, /* what 16 registers hold */
    AHEAD_BYTES = 2048,
};

#define HOT static inline __attribute__((always_inline))

/* What the compiler must know about a format to make a body for it. */
typedef struct format {
    int code_bytes; /* of one group: 512 (8 bit) or 256 (4 bit) */
    int offset;     /* 0: has minima */
    bool has_high;
} format;

/* Codes of inputs 4 q … 4 q + 3 for 8 outputs; body: of the group, moved to the half. */
HOT __m256i unpack(format f, const unsigned char *body, int q)
{
    const unsigned char *codes = body + (f.has_high ? 64 : 0);
    if (f.code_bytes == 512) {
        return _mm256_load_si256((const __m256i *)(const void *)(codes + 64 * q));
    }
    __m256i w = _mm256_load_si256((const __m256i *)(const void *)(codes + 64 * (q % 4)));
    w = _mm256_and_si256(q < 4 ? w : _mm256_srli_epi16(w, 4), _mm256_set1_epi8(15));
    if (f.has_high) {
        __m256i high = _mm256_load_si256((const __m256i *)(const void *)body);
        high = q < 4 ? _mm256_slli_epi16(high, 4 - q) : _mm256_srli_epi16(high, q - 4);
        w = _mm256_or_si256(w, _mm256_and_si256(high, _mm256_set1_epi8(16)));
    }
    return w;
}

HOT __m256i broadcast_i32(const unsigned char *p)
{
    int v;
    __builtin_memcpy(&v, p, sizeof v);
    return _mm256_set1_epi32(v);
}

HOT __m256 broadcast_f32(const unsigned char *p)
{
    float v;
    __builtin_memcpy(&v, p, sizeof v);
    return _mm256_set1_ps(v);
}

HOT __m256 halves(const unsigned char *p)
{
    return _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)p));
}

/* sum[r] += codes × activations of one group, without the correction for the offset of 4 and 5
 * bits. x: codes of the first row. */
HOT void dot_group(format f, int n_rows, const unsigned char *body, const unsigned char *x,
                   __m256i *sum)
{
    const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 2
    for (int part = 0; part < 2; part++) {
        __m256i pairs[ROWS_AT_ONCE];
#pragma GCC unroll 4
        for (int q = 4 * part; q < 4 * part + 4; q++) {
            __m256i w = unpack(f, body, q);
            __m256i sign = w;
            if (f.code_bytes == 512) {
                sign = _mm256_xor_si256(w, _mm256_set1_epi8(-128)); /* offset 128 to signed */
                w = _mm256_abs_epi8(sign);
            }
#pragma GCC unroll 4
            for (int r = 0; r < n_rows; r++) {
                __m256i four = broadcast_i32(x + 32 * r + 4 * q);
                if (f.code_bytes == 512) {
                    __m256i p = _mm256_maddubs_epi16(w, _mm256_sign_epi8(four, sign));
                    sum[r] = _mm256_add_epi32(sum[r], _mm256_madd_epi16(p, ones));
                } else {
                    __m256i p = _mm256_maddubs_epi16(w, four);
                    pairs[r] = q % 4 == 0 ? p : _mm256_add_epi16(pairs[r], p);
                }
            }
        }
        if (f.code_bytes != 512) {
#pragma GCC unroll 4
            for (int r = 0; r < n_rows; r++) {
                sum[r] = _mm256_add_epi32(sum[r], _mm256_madd_epi16(pairs[r], ones));
            }
        }
    }
}

/* lint: allow parameters: inlined; all of them live in registers. */
/* One group of half a panel times rows row … row + n_rows - 1 of the tile. */
HOT void add_group(format f, int n_rows, const unsigned char *scales, const unsigned char *body,
                   const unsigned char *record, const bt_matmul_tile *t, int row, __m256 *acc)
{
    __m256i sum[ROWS_AT_ONCE];
    bool corrected = f.offset == 8 || f.offset == 16;
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) {
        size_t at = corrected ? bt_tile_correction_at(t->n_rows, f.offset) : 0;
        sum[r] = corrected ? broadcast_i32(record + at + 4 * (row + r)) : _mm256_setzero_si256();
    }
    dot_group(f, n_rows, body, record + 32 * row, sum);
    __m256 dw = halves(scales);
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) {
        __m256 dx = broadcast_f32(record + bt_tile_scale_at(t->n_rows) + 4 * (row + r));
        acc[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[r]), _mm256_mul_ps(dw, dx), acc[r]);
        if (f.offset == 0) {
            __m256 sx = broadcast_f32(record + bt_tile_sum_at(t->n_rows) + 4 * (row + r));
            acc[r] = _mm256_fmadd_ps(halves(scales + SCALES), sx, acc[r]);
        }
    }
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

HOT void run_panel(format f, int n_rows, const bt_matmul_tile *t, int panel_idx, int row)
{
    const int group_count = t->w->k / BT_GROUP_INPUTS;
    const int body = f.code_bytes + (f.has_high ? 64 : 0), per_unit = f.offset == 0 ? 1 : 2;
    const size_t record = (size_t)t->n_rows * BT_TILE_GROUP_BYTES;
    const unsigned char *p = t->w->data + (size_t)panel_idx * t->w->panel_bytes;
    const unsigned char *x = t->x;
    __m256 acc[2][ROWS_AT_ONCE];
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) {
        acc[0][r] = acc[1][r] = _mm256_setzero_ps();
    }
    for (int g = 0; g < group_count; g++, x += record) {
        const int odd = g % per_unit;
        const unsigned char *scales = p + odd * SCALES, *codes = p + LINE + odd * body;
        for (int at = 0; at < body; at += LINE) {
            _mm_prefetch((const char *)codes + AHEAD_BYTES + at, _MM_HINT_T0);
        }
        add_group(f, n_rows, scales, codes, x, t, row, acc[0]);
        add_group(f, n_rows, scales + 2 * HALF, codes + LINE / 2, x, t, row, acc[1]);
        p += odd == per_unit - 1 ? LINE + per_unit * body : 0;
    }
    for (int h = 0; h < 2 && panel_idx * 2 * HALF + h * HALF < t->w->n; h++) {
        for (int r = 0; r < n_rows; r++) {
            store(t, panel_idx * 2 * HALF + h * HALF, row + r, &acc[h][r]);
        }
    }
}

HOT void run(format f, const bt_matmul_tile *t)
{
    for (int p = t->first; p < t->end; p++) {
        for (int row = 0; row < t->n_rows; row += ROWS_AT_ONCE) {
            switch (BT_MIN(t->n_rows - row, (int)ROWS_AT_ONCE)) {
            case 1:
                run_panel(f, 1, t, p, row);
                break;
            case 2:
                run_panel(f, 2, t, p, row);
                break;
            case 3:
                run_panel(f, 3, t, p, row);
                break;
            default:
                run_panel(f, 4, t, p, row);
            }
        }
    }
}

void bt_matmul_q4_0_s8_avx2(const bt_matmul_tile *tile)
{
    run((format){256, 8, false}, tile);
}

void bt_matmul_q4_1_s8_avx2(const bt_matmul_tile *tile)
{
    run((format){256, 0, false}, tile);
}

void bt_matmul_q5_0_s8_avx2(const bt_matmul_tile *tile)
{
    run((format){256, 16, true}, tile);
}

void bt_matmul_q5_1_s8_avx2(const bt_matmul_tile *tile)
{
    run((format){256, 0, true}, tile);
}

void bt_matmul_q8_0_s8_avx2(const bt_matmul_tile *tile)
{
    run((format){512, 128, false}, tile);
}
