/* SPDX-License-Identifier: MIT
 *
 * quantize.h: activation rows in the form that the matmul kernels read. Rows are taken in tiles of
 * 1 to 8, and a tile holds them interleaved, so that a kernel walks one stream for all its rows.
 *
 * Integer tile of R rows: per group of 32 inputs one record of 52 R bytes
 *
 *   int8  code[R][32]   round(x / d), to nearest even, -127…127
 *   float d[R]          max|x| / 127 over the group
 *   float s[R]          d * sum(code)
 *   int32 c8[R], c16[R], c128[R]   -8, -16, -128 times sum(code): the correction for weights that
 *                                  are stored with that offset
 *
 * Float tile of R rows: float [k padded to 4][R], zeros in the padding.
 *
 * Everything is a function of the row alone (law 1). A NaN in a group makes its d NaN, an infinity
 * infinite, so that neither is lost; groups below 2^-120 count as zero. */
#ifndef BT_KERNEL_QUANTIZE_H
#define BT_KERNEL_QUANTIZE_H

#include "base/base.h"

enum {
    BT_TILE_ROWS = 8,
    BT_TILE_GROUP_BYTES = 32 + 5 * 4, /* of one row in one group */
};

/* Parts of the record of one group in a tile of n_rows rows, as byte offsets. */
BT_INLINE size_t bt_tile_scale_at(int n_rows)
{
    return 32 * (size_t)n_rows;
}
BT_INLINE size_t bt_tile_sum_at(int n_rows)
{
    return 36 * (size_t)n_rows;
}
/* offset: 8, 16 or 128. */
BT_INLINE size_t bt_tile_correction_at(int n_rows, int offset)
{
    return (offset == 8 ? 40u : offset == 16 ? 44u : 48u) * (size_t)n_rows;
}

/* Writes the integer tile of rows x[r * ldx + 0…k-1], r < n_rows <= 8; k a multiple of 32. */
typedef void bt_quantize_fn(const float *x, size_t ldx, int n_rows, int k, unsigned char *tile);

void bt_quantize_s8_ref(const float *x, size_t ldx, int n_rows, int k, unsigned char *tile);
#if defined(__x86_64__)
void bt_quantize_s8_avx512(const float *x, size_t ldx, int n_rows, int k, unsigned char *tile);
#endif

/* Writes the float tile. */
void bt_quantize_interleave(const float *x, size_t ldx, int n_rows, int k, float *tile);

#endif
