/* SPDX-License-Identifier: MIT */
#include "kernel/quantize.h"

#include "kernel/pack.h"

#include <string.h>

void bt_quantize_interleave(const float *x, size_t ldx, int n_rows, int k, float *tile)
{
    BT_DEBUG_ASSERT(n_rows >= 1 && n_rows <= BT_TILE_ROWS);
    size_t padded = BT_ROUND_UP((size_t)k, BT_FLOAT_INPUTS);
    if (n_rows == 1) {
        memcpy(tile, x, (size_t)k * sizeof *tile);
    } else {
        for (int r = 0; r < n_rows; r++) {
            const float *from = x + (size_t)r * ldx;
            for (size_t i = 0; i < (size_t)k; i++) {
                tile[i * (size_t)n_rows + (size_t)r] = from[i];
            }
        }
    }
    size_t used = (size_t)k * (size_t)n_rows;
    memset(tile + used, 0, (padded * (size_t)n_rows - used) * sizeof *tile);
}
