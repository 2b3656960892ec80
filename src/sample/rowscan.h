/* SPDX-License-Identifier: MIT
 *
 * rowscan.h: the first look at a row of logits: is it a distribution, what are the maxima of its
 * blocks of 64 ids. And the fast exponential that weighs tokens. */
#ifndef BT_SAMPLE_ROWSCAN_H
#define BT_SAMPLE_ROWSCAN_H

#include "base/base.h"

#include <math.h>
#include <string.h>

/* Ids of one block share a draw of noise (gumbel.h) and a maximum. */
enum { BT_ROW_BLOCK = 64 };

BT_INLINE int bt_row_blocks(int n)
{
    return (n + BT_ROW_BLOCK - 1) / BT_ROW_BLOCK;
}

/* Writes the maximum of each block of 64 logits to block_max [bt_row_blocks(n)] and of the whole row
 * to *max. False, with what was written undefined, when the row holds a NaN or +infinity, or only
 * -infinity. */
bool bt_row_scan(const float *logits, int n, float *block_max, float *max);

/* The lowest index with logits[i] == max; the arguments as bt_row_scan left them. */
int bt_row_find(const float *logits, int n, const float *block_max, float max);

/* e^x for x <= 0, 0 below -87 (and for -infinity); relative error under 3e-7, exact for 0. Plain
 * arithmetic in a fixed order, so that it is the same on every machine and can be vectorised: range
 * reduction by Cody and Waite, Taylor polynomial of degree 7 on +-ln(2)/2. x > 0 and NaN are not
 * allowed. */
BT_INLINE float bt_row_exp(float x)
{
    float y = x < -87.0f ? -87.0f : x;
    float shifted =
        y * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: the integer sits in the low bits */
    float n = shifted - 12582912.0f;
    float r = (y - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.98412698e-4f;
    p = p * r + 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3f800000u; /* 2^n; the upper bits of `shifted` fall off */
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    float result = p * scale;
    return x < -87.0f ? 0.0f : result;
}

/* A weight rounded to a multiple of 2^-32: sums of up to 2^21 such weights <= 1 are exact in double,
 * whatever the order. */
BT_INLINE double bt_row_grain(float weight)
{
    const double big = 1572864.0; /* 1.5 * 2^20, whose unit in the last place is 2^-32 */
    return ((double)weight + big) - big;
}

#endif
