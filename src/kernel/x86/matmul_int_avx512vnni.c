/* SPDX-License-Identifier: MIT
 *
 * Integer matmul on AVX-512 VNNI. One zmm holds 16 outputs × 4 inputs of unsigned codes; vpdpbusd
 * multiplies it with 4 signed codes of an activation row, broadcast from memory. The sums start at
 * the correction for the codes' offset, so that it costs nothing.
 *
 * The body is instantiated for each number of rows: the codes of a group are loaded and unpacked
 * once and used for all rows. Several panels, far apart in memory, advance side by side: a core
 * reaches its full bandwidth only with several streams and prefetch (docs/kernels.md). */
#include "kernel/matmul.h"

#include <immintrin.h>

enum {
    PANEL = BT_PANEL_OUTPUTS,
    LINE = BT_CACHE_LINE,
    SCALES = 2 * PANEL,
    STREAMS_MAX = 4,
    AHEAD_BYTES = 8192, /* prefetch distance, of all streams together */
};

#define HOT static inline __attribute__((always_inline))

/* What the compiler must know about a format to make a body for it. */
typedef struct format {
    int code_bytes; /* of one group: 512 (8 bit) or 256 (4 bit) */
    int offset;     /* 0: has minima */
    bool has_high;
} format;

HOT int body_bytes(format f)
{
    return f.code_bytes + (f.has_high ? 64 : 0);
}

/* Codes of inputs 4 q … 4 q + 3 of the group at body. */
HOT __m512i unpack(format f, const unsigned char *body, int q)
{
    const unsigned char *codes = body + (f.has_high ? 64 : 0);
    if (f.code_bytes == 512) {
        return _mm512_load_si512(codes + 64 * q);
    }
    __m512i w = _mm512_load_si512(codes + 64 * (q % 4));
    w = _mm512_and_si512(q < 4 ? w : _mm512_srli_epi16(w, 4), _mm512_set1_epi8(15));
    if (f.has_high) {
        __m512i high = _mm512_load_si512(body);
        /* A type that converts silently to gcc's int and to clang's unsigned parameter. */
        uint8_t left = (uint8_t)(4 - q), right = (uint8_t)(q - 4);
        high = q < 4 ? _mm512_slli_epi16(high, left) : _mm512_srli_epi16(high, right);
        w = _mm512_ternarylogic_epi32(w, high, _mm512_set1_epi8(16), 0xF8); /* w | high & 16 */
    }
    return w;
}

HOT __m512i broadcast_i32(const unsigned char *p)
{
    int v;
    __builtin_memcpy(&v, p, sizeof v);
    return _mm512_set1_epi32(v);
}

HOT __m512 broadcast_f32(const unsigned char *p)
{
    float v;
    __builtin_memcpy(&v, p, sizeof v);
    return _mm512_set1_ps(v);
}

HOT __m512 halves(const unsigned char *p)
{
    return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)p));
}

/* lint: allow parameters: inlined; all of them live in registers. */
/* One group of n_streams panels times n_rows rows. at: the first panel's unit, whose scales and body
 * lie at the given offsets; x: the group's record. The panels advance together, so that there are
 * enough independent chains of vpdpbusd, and each broadcast serves all of them. */
HOT void add_group(format f, int n_rows, int n_streams, const unsigned char *at, size_t stride,
                   int scales, int body, const unsigned char *x,
                   __m512 acc[STREAMS_MAX][BT_TILE_ROWS])
{
    __m512i sum[STREAMS_MAX][BT_TILE_ROWS], w[STREAMS_MAX];
#pragma GCC unroll 8
    for (int r = 0; r < n_rows; r++) {
        __m512i start = f.offset == 0
                            ? _mm512_setzero_si512()
                            : broadcast_i32(x + bt_tile_correction_at(n_rows, f.offset) + 4 * r);
#pragma GCC unroll 4
        for (int s = 0; s < n_streams; s++) {
            sum[s][r] = start;
        }
    }
#pragma GCC unroll 8
    for (int q = 0; q < 8; q++) {
#pragma GCC unroll 4
        for (int s = 0; s < n_streams; s++) {
            w[s] = unpack(f, at + (size_t)s * stride + body, q);
        }
#pragma GCC unroll 8
        for (int r = 0; r < n_rows; r++) {
            __m512i four = broadcast_i32(x + 32 * r + 4 * q);
#pragma GCC unroll 4
            for (int s = 0; s < n_streams; s++) {
                sum[s][r] = _mm512_dpbusd_epi32(sum[s][r], w[s], four);
            }
        }
    }
    __m512 dw[STREAMS_MAX], m[STREAMS_MAX];
#pragma GCC unroll 4
    for (int s = 0; s < n_streams; s++) {
        dw[s] = halves(at + (size_t)s * stride + scales);
        m[s] = f.offset == 0 ? halves(at + (size_t)s * stride + scales + SCALES) : dw[s];
    }
#pragma GCC unroll 8
    for (int r = 0; r < n_rows; r++) {
        __m512 dx = broadcast_f32(x + bt_tile_scale_at(n_rows) + 4 * r);
        __m512 sx = broadcast_f32(x + bt_tile_sum_at(n_rows) + 4 * r);
#pragma GCC unroll 4
        for (int s = 0; s < n_streams; s++) {
            acc[s][r] =
                _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[s][r]), _mm512_mul_ps(dw[s], dx), acc[s][r]);
            if (f.offset == 0) {
                acc[s][r] = _mm512_fmadd_ps(m[s], sx, acc[s][r]);
            }
        }
    }
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
HOT void run_panels(format f, int n_rows, int n_streams, const bt_matmul_tile *t, int panel_idx,
                    int apart)
{
    const int group_count = t->w->k / BT_GROUP_INPUTS, body = body_bytes(f);
    /* Groups that share a line of scales, and the bytes of such a unit. */
    const int per_unit = f.offset == 0 ? 1 : 2, unit_bytes = LINE + per_unit * body;
    const int ahead = BT_ROUND_UP(AHEAD_BYTES / n_streams, unit_bytes);
    const size_t record = (size_t)n_rows * BT_TILE_GROUP_BYTES;
    const unsigned char *x = t->x;
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
    for (int g = 0; g + per_unit <= group_count; g += per_unit) {
#pragma GCC unroll 4
        for (int s = 0; s < n_streams; s++) {
#pragma GCC unroll 17
            for (int line = 0; line < unit_bytes / LINE; line++) {
                _mm_prefetch((const char *)p + (size_t)s * stride + ahead + line * LINE,
                             _MM_HINT_T0);
            }
        }
        add_group(f, n_rows, n_streams, p, stride, 0, LINE, x, acc);
        if (per_unit == 2) {
            add_group(f, n_rows, n_streams, p, stride, SCALES, LINE + body, x + record, acc);
        }
        p += unit_bytes;
        x += (size_t)per_unit * record;
    }
    if (per_unit == 2 && group_count % 2 == 1) {
        add_group(f, n_rows, n_streams, p, stride, 0, LINE, x, acc);
    }
#pragma GCC unroll 4
    for (int s = 0; s < n_streams; s++) {
        store(t, panel_idx + s * apart, n_rows, acc[s]);
    }
}

HOT void run_rows(format f, int n_rows, int n_streams, const bt_matmul_tile *t)
{
    const int apart = (t->end - t->first) / n_streams;
    for (int i = 0; i < apart; i++) {
        run_panels(f, n_rows, n_streams, t, t->first + i, apart);
    }
    for (int p = t->first + apart * n_streams; p < t->end; p++) {
        run_panels(f, n_rows, 1, t, p, 0);
    }
}

HOT void run(format f, const bt_matmul_tile *t)
{
    switch (t->n_rows) {
    case 1:
        run_rows(f, 1, 4, t);
        break;
    case 2:
        run_rows(f, 2, 2, t);
        break;
    case 3:
        run_rows(f, 3, 2, t);
        break;
    case 4:
        run_rows(f, 4, 2, t);
        break;
    case 5:
        run_rows(f, 5, 2, t);
        break;
    case 6:
        run_rows(f, 6, 2, t);
        break;
    case 7:
        run_rows(f, 7, 2, t);
        break;
    default:
        BT_DEBUG_ASSERT(t->n_rows == 8);
        run_rows(f, 8, 2, t);
    }
}

void bt_matmul_q4_0_s8_avx512vnni(const bt_matmul_tile *tile)
{
    run((format){256, 8, false}, tile);
}

void bt_matmul_q4_1_s8_avx512vnni(const bt_matmul_tile *tile)
{
    run((format){256, 0, false}, tile);
}

void bt_matmul_q5_0_s8_avx512vnni(const bt_matmul_tile *tile)
{
    run((format){256, 16, true}, tile);
}

void bt_matmul_q5_1_s8_avx512vnni(const bt_matmul_tile *tile)
{
    run((format){256, 0, true}, tile);
}

void bt_matmul_q8_0_s8_avx512vnni(const bt_matmul_tile *tile)
{
    run((format){512, 128, false}, tile);
}
