/* SPDX-License-Identifier: MIT
 *
 * Row statistics in plain C. Maxima by integer comparison, which compilers vectorise where they must
 * not reorder a float maximum. */
#include "kernel/rowstat.h"

#include <math.h>

/* Bits of a float as an integer of the same order, and back. */
BT_INLINE int32_t ordered(int32_t bits)
{
    return bits ^ ((bits >> 31) & INT32_MAX);
}

BT_INLINE float from_ordered(int32_t key)
{
    int32_t bits = ordered(key);
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Largest key of n values; *magnitude: largest bits without the sign, to find NaN. */
BT_INLINE int32_t scan_block(const float *x, int n, int32_t *magnitude)
{
    int32_t top = INT32_MIN, most = *magnitude;
    for (int i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        int32_t key = ordered(bits), abs = bits & INT32_MAX;
        top = key > top ? key : top;
        most = abs > most ? abs : most;
    }
    *magnitude = most;
    return top;
}

bool bt_row_scan_ref(const float *x, int n, float *block_max, float *max)
{
    BT_ASSERT(n > 0);
    const int32_t infinity_bits = 0x7f800000;
    int32_t top = INT32_MIN, magnitude = 0;
    for (int b = 0; b < bt_row_blocks(n); b++) {
        const float *block = x + (ptrdiff_t)b * BT_ROW_BLOCK;
        int left = n - b * BT_ROW_BLOCK;
        int32_t key = left >= BT_ROW_BLOCK ? scan_block(block, BT_ROW_BLOCK, &magnitude)
                                           : scan_block(block, left, &magnitude);
        block_max[b] = from_ordered(key);
        top = BT_MAX(top, key);
    }
    *max = from_ordered(top);
    return magnitude <= infinity_bits && top<infinity_bits && * max> - INFINITY;
}

double bt_row_exp_ref(const float *x, int n, float max, float scale, float *out)
{
    BT_ASSERT(n <= BT_ROW_MASS_MAX);
    for (int i = 0; i < n; i++) {
        out[i] = bt_row_exp((x[i] - max) * scale);
    }
    double sum[4] = {0};
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        for (int lane = 0; lane < 4; lane++) {
            sum[lane] += bt_row_grain(out[i + lane]);
        }
    }
    for (; i < n; i++) {
        sum[0] += bt_row_grain(out[i]);
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}
