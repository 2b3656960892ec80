/* SPDX-License-Identifier: MIT
 *
 * The reference of activation quantisation. The magnitudes are compared as bit patterns: their
 * order is that of the numbers, with infinity and then NaN at the top, whatever the order of the
 * comparisons. */
#include "kernel/quantize.h"

#include "tensor/half.h"

#include <math.h>
#include <string.h>

/* Codes of one group; *sum is their sum. Returns d. */
static float quantize_group(const float *x, signed char *code, int *sum)
{
    uint32_t top = 0;
    for (int i = 0; i < 32; i++) {
        uint32_t bits = bt_f32_bits(x[i]) & 0x7FFFFFFFu;
        top = BT_MAX(bits, top);
    }
    float most = bt_f32_from_bits(top);
    *sum = 0;
    if (most < 0x1p-120f) {
        memset(code, 0, 32);
        return 0.0f;
    }
    float inverse = 127.0f / most;
    for (int i = 0; i < 32; i++) {
        float v = x[i] * inverse;
        v = v > -127.0f ? v : -127.0f; /* NaN (of an infinity) too */
        v = v < 127.0f ? v : 127.0f;
        code[i] = (signed char)lrintf(v);
        *sum += code[i];
    }
    return most / 127.0f;
}

void bt_quantize_s8_ref(const float *x, size_t ldx, int n_rows, int k, unsigned char *tile)
{
    BT_DEBUG_ASSERT(n_rows >= 1 && n_rows <= BT_TILE_ROWS && k % 32 == 0);
    for (int g = 0; g < k / 32; g++, tile += (size_t)n_rows * BT_TILE_GROUP_BYTES) {
        for (int r = 0; r < n_rows; r++) {
            signed char code[32];
            int sum;
            float d = quantize_group(x + (size_t)r * ldx + (size_t)g * 32, code, &sum);
            float s = d * (float)sum;
            int32_t c8 = -8 * sum, c16 = -16 * sum, c128 = -128 * sum;
            memcpy(tile + 32 * r, code, 32);
            memcpy(tile + bt_tile_scale_at(n_rows) + 4 * r, &d, 4);
            memcpy(tile + bt_tile_sum_at(n_rows) + 4 * r, &s, 4);
            memcpy(tile + bt_tile_correction_at(n_rows, 8) + 4 * r, &c8, 4);
            memcpy(tile + bt_tile_correction_at(n_rows, 16) + 4 * r, &c16, 4);
            memcpy(tile + bt_tile_correction_at(n_rows, 128) + 4 * r, &c128, 4);
        }
    }
}
