/* SPDX-License-Identifier: MIT
 *
 * matmul.h: y = x W^T (+ bias) (+ y) with packed weights (pack.h), for few rows above all.
 *
 * Arithmetic class, fixed by the format and never by timing:
 *
 *   integer formats  rows quantised per group of 32 (quantize.h), products summed exactly in int32,
 *                    then y = fma(sum, dw * dx, y) group after group, and after each group
 *                    y = fma(m, dx * sum(x), y) for formats with a minimum. Every ISA level gives
 *                    the same bits.
 *   float formats    weights widened to f32, y = fma(w, x, y) over k = 0, 1, …: every SIMD level
 *                    gives the same bits; the reference sums in double.
 *
 * Law 1: these orders hold for every output element, whatever the number of rows, chunks or
 * threads. */
#ifndef BT_KERNEL_MATMUL_H
#define BT_KERNEL_MATMUL_H

#include "base/cpu.h"
#include "kernel/pack.h"
#include "kernel/quantize.h"

/* One row tile times some panels. */
typedef struct bt_matmul_tile {
    const bt_panels *w;
    int first, end; /* panels */
    const void *x;  /* integer or float tile of n_rows rows */
    int n_rows;     /* 1…BT_TILE_ROWS */
    float *y;       /* [n_rows, ldy]: first row of the tile, output 0 of the matrix */
    size_t ldy;
    const float *bias; /* [N] or NULL */
    bool accumulate;
} bt_matmul_tile;

typedef void bt_matmul_fn(const bt_matmul_tile *tile);

/* The kernels of one ISA level. */
typedef struct bt_matmul_kernels {
    bt_matmul_fn *tile[BT_DTYPE_COUNT]; /* NULL for types that hold no weights */
    bt_quantize_fn *quantize;
    const char *integer_name, *float_name; /* the ISA levels behind them, for the log */
} bt_matmul_kernels;

/* The best kernels for a level: those of lower levels where it has none. Static memory. */
const bt_matmul_kernels *bt_matmul_kernels_for(bt_isa isa);

/* One matrix of a call. */
typedef struct bt_matmul_part {
    const bt_panels *w;
    const float *bias; /* [N], NULL: none */
    float *y;          /* [T, ldy] */
    size_t ldy;        /* >= N */
    bool accumulate;   /* adds to what y holds */
} bt_matmul_part;

enum { BT_MATMUL_PARTS_MAX = 8 };

typedef struct bt_matmul_call {
    const float *x; /* [T, ldx] */
    size_t ldx;     /* >= K */
    int n_rows;     /* T >= 0 */
    int n_parts;    /* matrices of the same K, 1…BT_MATMUL_PARTS_MAX */
    const bt_matmul_part *parts;
    void *work; /* 64-byte aligned, bt_matmul_work_bytes(T, K) */
} bt_matmul_call;

/* Work space of a call; false when the size does not fit. */
bool bt_matmul_work_bytes(int n_rows, int k, size_t *bytes);

/* One region of the pool for all parts (and one before it for the rows, when they are many). */
void bt_matmul_run(bt_pool *pool, const bt_matmul_kernels *kernels, const bt_matmul_call *call);

/* The kernels themselves, for checkkernel. */
void bt_matmul_int_s8_ref(const bt_matmul_tile *tile);
void bt_matmul_float_f32_ref(const bt_matmul_tile *tile);
#if defined(__x86_64__)
void bt_matmul_q4_0_s8_avx2(const bt_matmul_tile *tile);
void bt_matmul_q4_1_s8_avx2(const bt_matmul_tile *tile);
void bt_matmul_q5_0_s8_avx2(const bt_matmul_tile *tile);
void bt_matmul_q5_1_s8_avx2(const bt_matmul_tile *tile);
void bt_matmul_q8_0_s8_avx2(const bt_matmul_tile *tile);
void bt_matmul_f32_f32_avx2(const bt_matmul_tile *tile);
void bt_matmul_f16_f32_avx2(const bt_matmul_tile *tile);
void bt_matmul_bf16_f32_avx2(const bt_matmul_tile *tile);
void bt_matmul_q4_0_s8_avx512vnni(const bt_matmul_tile *tile);
void bt_matmul_q4_1_s8_avx512vnni(const bt_matmul_tile *tile);
void bt_matmul_q5_0_s8_avx512vnni(const bt_matmul_tile *tile);
void bt_matmul_q5_1_s8_avx512vnni(const bt_matmul_tile *tile);
void bt_matmul_q8_0_s8_avx512vnni(const bt_matmul_tile *tile);
void bt_matmul_f32_f32_avx512(const bt_matmul_tile *tile);
void bt_matmul_f16_f32_avx512(const bt_matmul_tile *tile);
void bt_matmul_bf16_f32_avx512(const bt_matmul_tile *tile);
#endif

#endif
