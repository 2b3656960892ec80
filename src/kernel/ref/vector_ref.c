/* SPDX-License-Identifier: MIT
 *
 * The reference of kernel/vector.h: scalar, in double, with libm's functions. */
#include "kernel/vector.h"

#include "kernel/attention.h"
#include "tensor/half.h"

#include <math.h>

static void rmsnorm_ref(const float *x, const float *w, float eps, float w_offset, int dim,
                        float *y)
{
    double sum = 0;
    for (int i = 0; i < dim; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    double factor = 1 / sqrt(sum / dim + (double)eps);
    for (int i = 0; i < dim; i++) {
        y[i] = (float)((double)x[i] * factor * ((double)w[i] + (double)w_offset));
    }
}

static void rotate(float *a, float *b, float cos, float sin)
{
    double x = (double)*a, y = (double)*b;
    *a = (float)(x * (double)cos - y * (double)sin);
    *b = (float)(y * (double)cos + x * (double)sin);
}

static void rope_half_ref(float *x, const float *cos, const float *sin, int n_heads, int head_dim,
                          int n_rot)
{
    for (int h = 0; h < n_heads; h++) {
        float *head = x + (size_t)h * (size_t)head_dim;
        for (int i = 0; i < n_rot / 2; i++) {
            rotate(&head[i], &head[i + n_rot / 2], cos[i], sin[i]);
        }
    }
}

static void rope_pairs_ref(float *x, const float *cos, const float *sin, int n_heads, int head_dim,
                           int n_rot)
{
    for (int h = 0; h < n_heads; h++) {
        float *head = x + (size_t)h * (size_t)head_dim;
        for (int i = 0; i < n_rot / 2; i++) {
            rotate(&head[2 * i], &head[2 * i + 1], cos[i], sin[i]);
        }
    }
}

static void silu_mul_ref(const float *gate, const float *up, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++) {
        double g = (double)gate[i];
        y[i] = (float)(g / (1 + exp(-g)) * (double)up[i]);
    }
}

static void kv_put_f32_ref(const float *k, const float *v, int head_dim, void *k_column,
                           void *v_row)
{
    float *column = k_column, *row = v_row;
    for (int i = 0; i < head_dim; i++) {
        column[i * BT_ATTN_BLOCK] = k[i];
        row[i] = v[i];
    }
}

static void kv_put_f16_ref(const float *k, const float *v, int head_dim, void *k_column,
                           void *v_row)
{
    uint16_t *column = k_column, *row = v_row;
    for (int i = 0; i < head_dim; i++) {
        column[i * BT_ATTN_BLOCK] = bt_f32_to_f16(k[i]);
        row[i] = bt_f32_to_f16(v[i]);
    }
}

void bt_vector_fill_ref(bt_vector *table)
{
    *table = (bt_vector){
        .rmsnorm = rmsnorm_ref,
        .rope_half = rope_half_ref,
        .rope_pairs = rope_pairs_ref,
        .silu_mul = silu_mul_ref,
        .kv_put_f32 = kv_put_f32_ref,
        .kv_put_f16 = kv_put_f16_ref,
    };
}
