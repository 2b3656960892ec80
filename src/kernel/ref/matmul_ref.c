/* SPDX-License-Identifier: MIT
 *
 * The reference matmul: plain C, on every machine. The integer formats define the bits of all ISA
 * levels; the float formats are summed in double. */
#include "kernel/matmul.h"

#include "tensor/half.h"

#include <math.h>
#include <string.h>

enum { PANEL = BT_PANEL_OUTPUTS, GROUP = BT_GROUP_INPUTS };

static void store(const bt_matmul_tile *t, int panel_idx, int r, const float acc[PANEL])
{
    int first = panel_idx * PANEL, n = BT_MIN(PANEL, t->w->n - first);
    float *y = t->y + (size_t)r * t->ldy + first;
    for (int o = 0; o < n; o++) {
        float v = t->bias != NULL ? acc[o] + t->bias[first + o] : acc[o];
        y[o] = t->accumulate ? y[o] + v : v;
    }
}

/* The offset with which the codes of a format are stored; 0 for those with a minimum. */
static int code_offset(bt_dtype dtype)
{
    switch (dtype) {
    case BT_DTYPE_Q4_0:
        return 8;
    case BT_DTYPE_Q5_0:
        return 16;
    case BT_DTYPE_Q8_0:
        return 128;
    default:
        return 0;
    }
}

/* code[i * PANEL + o] of one group, as stored (with its offset). */
static void unpack(bt_dtype dtype, const bt_pack_group *at, int16_t code[GROUP * PANEL])
{
    for (int i = 0; i < GROUP; i++) {
        for (int o = 0; o < PANEL; o++) {
            int byte = 4 * o + i % 4;
            if (dtype == BT_DTYPE_Q8_0) {
                code[i * PANEL + o] = at->codes[i / 4 * 64 + byte];
                continue;
            }
            int v = at->codes[i % 16 / 4 * 64 + byte] >> (i < 16 ? 0 : 4) & 15;
            if (at->high != NULL) {
                v |= (at->high[byte] >> (i / 4) & 1) << 4;
            }
            code[i * PANEL + o] = (int16_t)v;
        }
    }
}

/* lint: allow parameters: the inner step of a loop nest. */
/* Adds one group of one row to acc. x: the group's record in the tile. */
static void add_group(const int16_t code[GROUP * PANEL], const float dw[PANEL], const float *m,
                      const unsigned char *x, const bt_matmul_tile *t, int r, float acc[PANEL])
{
    int offset = code_offset(t->w->dtype);
    const signed char *xq = (const signed char *)x + GROUP * r;
    int32_t start = 0;
    float dx, sx;
    memcpy(&dx, x + bt_tile_scale_at(t->n_rows) + 4 * r, 4);
    memcpy(&sx, x + bt_tile_sum_at(t->n_rows) + 4 * r, 4);
    if (offset != 0) {
        memcpy(&start, x + bt_tile_correction_at(t->n_rows, offset) + 4 * r, 4);
    }
    int32_t sum[PANEL];
    for (int o = 0; o < PANEL; o++) {
        sum[o] = start;
    }
    for (int i = 0; i < GROUP; i++) {
        for (int o = 0; o < PANEL; o++) {
            sum[o] += code[i * PANEL + o] * xq[i];
        }
    }
    for (int o = 0; o < PANEL; o++) {
        acc[o] = fmaf((float)sum[o], dw[o] * dx, acc[o]);
        if (m != NULL) {
            acc[o] = fmaf(m[o], sx, acc[o]);
        }
    }
}

static void read_halves(const unsigned char *from, float to[PANEL])
{
    for (int o = 0; o < PANEL; o++) {
        uint16_t h;
        memcpy(&h, from + 2 * o, sizeof h);
        to[o] = bt_f16_to_f32(h);
    }
}

void bt_matmul_int_s8_ref(const bt_matmul_tile *t)
{
    size_t record = (size_t)t->n_rows * BT_TILE_GROUP_BYTES;
    for (int p = t->first; p < t->end; p++) {
        const unsigned char *panel = t->w->data + (size_t)p * t->w->panel_bytes;
        float acc[BT_TILE_ROWS][PANEL] = {{0}};
        for (int g = 0; g < t->w->k / GROUP; g++) {
            bt_pack_group at = bt_pack_find_group(t->w, panel, g);
            int16_t code[GROUP * PANEL];
            float dw[PANEL], m[PANEL];
            unpack(t->w->dtype, &at, code);
            read_halves(at.scales, dw);
            if (at.minima != NULL) {
                read_halves(at.minima, m);
            }
            const unsigned char *x = (const unsigned char *)t->x + (size_t)g * record;
            for (int r = 0; r < t->n_rows; r++) {
                add_group(code, dw, at.minima != NULL ? m : NULL, x, t, r, acc[r]);
            }
        }
        for (int r = 0; r < t->n_rows; r++) {
            store(t, p, r, acc[r]);
        }
    }
}

/* The 16 weights of input k. */
static void widen(bt_dtype dtype, const unsigned char *panel, int k, float w[PANEL])
{
    uint16_t h;
    switch (dtype) {
    case BT_DTYPE_F32:
        memcpy(w, panel + (size_t)k * PANEL * 4, PANEL * sizeof *w);
        break;
    case BT_DTYPE_F16:
        read_halves(panel + (size_t)k * PANEL * 2, w);
        break;
    default:
        for (int o = 0; o < PANEL; o++) {
            memcpy(&h, panel + ((size_t)(k / 2) * PANEL + (size_t)o) * 4 + k % 2 * 2, sizeof h);
            w[o] = bt_bf16_to_f32(h);
        }
    }
}

/* Its own function, so that gcc vectorises over the outputs and not, at a sixth of the speed, over
 * the rows. */
static BT_NOINLINE void add_input(const float w[PANEL], double x, double acc[PANEL])
{
    for (int o = 0; o < PANEL; o++) {
        acc[o] += (double)w[o] * x;
    }
}

void bt_matmul_float_f32_ref(const bt_matmul_tile *t)
{
    const float *x = t->x;
    for (int p = t->first; p < t->end; p++) {
        const unsigned char *panel = t->w->data + (size_t)p * t->w->panel_bytes;
        double acc[BT_TILE_ROWS][PANEL] = {{0}};
        for (int k = 0; k < t->w->k; k++) {
            float w[PANEL];
            widen(t->w->dtype, panel, k, w);
            for (int r = 0; r < t->n_rows; r++) {
                add_input(w, (double)x[(size_t)k * (size_t)t->n_rows + (size_t)r], acc[r]);
            }
        }
        for (int r = 0; r < t->n_rows; r++) {
            float rounded[PANEL];
            for (int o = 0; o < PANEL; o++) {
                rounded[o] = (float)acc[r][o];
            }
            store(t, p, r, rounded);
        }
    }
}
