/* SPDX-License-Identifier: MIT
 *
 * rowstat.h: what sampling asks of a whole row of logits: maxima of blocks, and masses.
 *
 * The same bits on every instruction set: maxima are exact, the exponential is plain multiplication
 * and addition in a fixed order without fusing, and masses are rounded so that their sums are exact
 * in whatever order they are taken. */
#ifndef BT_KERNEL_ROWSTAT_H
#define BT_KERNEL_ROWSTAT_H

#include "base/cpu.h"

#include <string.h>

/* Ids of a block share a maximum, and in sampling a draw of noise. */
enum { BT_ROW_BLOCK = 64, BT_ROW_MASS_MAX = 1 << 21 };

BT_INLINE int bt_row_blocks(int n)
{
    return (n + BT_ROW_BLOCK - 1) / BT_ROW_BLOCK;
}

/* Writes the maximum of each block of 64 values x [n], n > 0, to block_max [bt_row_blocks(n)] and of
 * the whole row to *max. False, with what was written undefined, when the row holds a NaN or
 * +infinity, or only -infinity. A maximum of 0 and -0 is 0. */
typedef bool bt_row_scan_fn(const float *x, int n, float *block_max, float *max);

/* out[i] = e^((x[i] - max) * scale) for x [n], n <= BT_ROW_MASS_MAX; every x <= max, finite or
 * -infinity; max finite, scale > 0. Returns the sum of the masses bt_row_grain(out[i]), exactly. */
typedef double bt_row_exp_fn(const float *x, int n, float max, float scale, float *out);

typedef struct bt_row_kernels {
    bt_row_scan_fn *scan;
    bt_row_exp_fn *exp;
} bt_row_kernels;

/* The best for a level. */
const bt_row_kernels *bt_row_kernels_for(bt_isa isa);

bt_row_scan_fn bt_row_scan_ref;
bt_row_exp_fn bt_row_exp_ref;
#if defined(__x86_64__)
bt_row_scan_fn bt_row_scan_avx512;
bt_row_exp_fn bt_row_exp_avx512;
#endif

/* Constants of the exponential: range reduction by Cody and Waite, Taylor polynomial of degree 7 on
 * +-ln(2)/2. */
#define BT_EXP_LOWEST (-87.0f) /* below this the result is 0; 2^n stays a normal number */
#define BT_EXP_LOG2E 1.44269504f
#define BT_EXP_SHIFT 12582912.0f /* 1.5 * 2^23: adding it leaves the integer in the low bits */
#define BT_EXP_LN2_HIGH 0.693359375f
#define BT_EXP_LN2_LOW 2.12194440e-4f /* high - low = ln 2 */
#define BT_EXP_C7 1.98412698e-4f
#define BT_EXP_C6 1.38888889e-3f
#define BT_EXP_C5 8.33333333e-3f
#define BT_EXP_C4 4.16666667e-2f
#define BT_EXP_C3 1.66666667e-1f

/* 1.5 * 2^20, whose unit in the last place is 2^-32. */
#define BT_GRAIN_SHIFT 1572864.0

/* e^x for x <= 0, 0 below -87 (and for -infinity); relative error under 3e-7, exact for 0. x > 0 and
 * NaN are not allowed. */
BT_INLINE float bt_row_exp(float x)
{
    float y = x < BT_EXP_LOWEST ? BT_EXP_LOWEST : x;
    float shifted = y * BT_EXP_LOG2E + BT_EXP_SHIFT;
    float n = shifted - BT_EXP_SHIFT;
    float r = (y - n * BT_EXP_LN2_HIGH) + n * BT_EXP_LN2_LOW;
    float p = BT_EXP_C7;
    p = p * r + BT_EXP_C6;
    p = p * r + BT_EXP_C5;
    p = p * r + BT_EXP_C4;
    p = p * r + BT_EXP_C3;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3f800000u; /* 2^n; the upper bits of `shifted` fall off */
    float power;
    memcpy(&power, &bits, sizeof power);
    float result = p * power;
    return x < BT_EXP_LOWEST ? 0.0f : result;
}

/* A weight in 0 … 1 rounded to a multiple of 2^-32: sums of up to 2^21 of them are exact in double,
 * whatever the order. */
BT_INLINE double bt_row_grain(float weight)
{
    return ((double)weight + BT_GRAIN_SHIFT) - BT_GRAIN_SHIFT;
}

#endif
