/* SPDX-License-Identifier: MIT
 *
 * rowscan.c: block maxima by integer comparison, which compilers vectorise where they must not
 * reorder a float maximum. */
#include "sample/rowscan.h"

/* Bits of a float as an integer of the same order. */
BT_INLINE int32_t ordered(int32_t bits)
{
    return bits ^ ((bits >> 31) & INT32_MAX);
}

BT_INLINE float unordered(int32_t key)
{
    int32_t bits = ordered(key);
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static const int32_t infinity_bits = 0x7f800000;

/* Largest ordered key of n logits; *magnitude: largest bits without the sign, to find NaN. */
BT_INLINE int32_t scan_block(const float *logits, int n, int32_t *magnitude)
{
    int32_t top = INT32_MIN, mag = *magnitude;
    for (int i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, logits + i, sizeof bits);
        int32_t key = ordered(bits), abs = bits & INT32_MAX;
        top = key > top ? key : top;
        mag = abs > mag ? abs : mag;
    }
    *magnitude = mag;
    return top;
}

bool bt_row_scan(const float *logits, int n, float *block_max, float *max)
{
    BT_ASSERT(n > 0);
    int32_t top = INT32_MIN, magnitude = 0;
    int b = 0;
    for (; (b + 1) * BT_ROW_BLOCK <= n; b++) {
        int32_t key = scan_block(logits + (ptrdiff_t)b * BT_ROW_BLOCK, BT_ROW_BLOCK, &magnitude);
        block_max[b] = unordered(key);
        top = BT_MAX(top, key);
    }
    if (b * BT_ROW_BLOCK < n) {
        int32_t key =
            scan_block(logits + (ptrdiff_t)b * BT_ROW_BLOCK, n - b * BT_ROW_BLOCK, &magnitude);
        block_max[b] = unordered(key);
        top = BT_MAX(top, key);
    }
    *max = unordered(top);
    return magnitude <= infinity_bits && top<infinity_bits && * max> - INFINITY;
}

int bt_row_find(const float *logits, int n, const float *block_max, float max)
{
    int b = 0;
    while (block_max[b] != max) {
        b++;
        BT_ASSERT(b < bt_row_blocks(n));
    }
    int i = b * BT_ROW_BLOCK;
    while (logits[i] != max) {
        i++;
        BT_ASSERT(i < n);
    }
    return i;
}
