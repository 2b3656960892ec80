/* SPDX-License-Identifier: MIT
 *
 * The reference of kernel/attention.h: scalar, in double, with libm's functions. Only what a call
 * must leave in memory for the next one (the weighted values) is rounded to f32 at every step, for
 * the bits must not depend on where one call ends and the next begins. */
#include "kernel/attention.h"

#include "tensor/half.h"

#include <math.h>

BT_INLINE double load(const void *p, size_t idx, bool half)
{
    return half ? (double)bt_f16_to_f32(((const uint16_t *)p)[idx])
                : (double)((const float *)p)[idx];
}

/* lint: allow parameters: inlined; all of them live in registers. */
BT_INLINE void scores(const float *const *q, int n_q, const void *const *k, int n_positions,
                      int head_dim, float *out, bool half)
{
    for (int j = 0; j < n_q; j++) {
        for (int i = 0; i < n_positions; i++) {
            const void *block = k[i / BT_ATTN_BLOCK];
            double sum = 0;
            for (int e = 0; e < head_dim; e++) {
                sum += (double)q[j][e] *
                       load(block, (size_t)(e * BT_ATTN_BLOCK + i % BT_ATTN_BLOCK), half);
            }
            out[j * BT_ATTN_SEGMENT + i] = (float)sum;
        }
    }
}

static void scores_f32_ref(const float *const *q, int n_q, const void *const *k, int n_blocks,
                           int head_dim, float *out)
{
    scores(q, n_q, k, n_blocks * BT_ATTN_BLOCK, head_dim, out, false);
}

static void scores_f16_ref(const float *const *q, int n_q, const void *const *k, int n_blocks,
                           int head_dim, float *out)
{
    scores(q, n_q, k, n_blocks * BT_ATTN_BLOCK, head_dim, out, true);
}

static void softmax_ref(float *s, int lo, int hi, float scale, float softcap, float max_sum[2])
{
    float max = -INFINITY;
    for (int i = lo; i < hi; i++) {
        double x = (double)s[i] * (double)scale;
        s[i] = (float)(softcap > 0 ? (double)softcap * tanh(x / (double)softcap) : x);
        max = s[i] > max ? s[i] : max;
    }
    double sum = 0;
    for (int i = lo; i < hi; i++) {
        s[i] = expf(s[i] - max);
        sum += (double)s[i];
    }
    max_sum[0] = max;
    max_sum[1] = (float)sum;
}

BT_INLINE void mix(const bt_attn_mix_args *a, bool half)
{
    for (int j = 0; j < a->n_q; j++) {
        float *acc = a->acc + (size_t)j * a->acc_stride;
        for (int i = a->lo; i < a->hi; i++) {
            double p = (double)a->p[j * BT_ATTN_SEGMENT + i];
            for (int e = 0; e < a->head_dim; e++) {
                size_t idx = (size_t)((i % BT_ATTN_BLOCK) * a->head_dim + e);
                acc[e] = (float)((double)acc[e] + p * load(a->v[i / BT_ATTN_BLOCK], idx, half));
            }
        }
    }
}

static void mix_f32_ref(const bt_attn_mix_args *args)
{
    mix(args, false);
}

static void mix_f16_ref(const bt_attn_mix_args *args)
{
    mix(args, true);
}

static void merge_ref(float *into, const float *part, int head_dim)
{
    size_t m = bt_attn_part_max(head_dim);
    float max = fmaxf(into[m], part[m]);
    double a = exp((double)into[m] - (double)max), b = exp((double)part[m] - (double)max);
    for (int e = 0; e < head_dim; e++) {
        into[e] = (float)((double)into[e] * a + (double)part[e] * b);
    }
    into[m + 1] = (float)((double)into[m + 1] * a + (double)part[m + 1] * b);
    into[m] = max;
}

static void finish_ref(const float *part, int head_dim, float *out)
{
    float sum = part[bt_attn_part_max(head_dim) + 1];
    for (int e = 0; e < head_dim; e++) {
        out[e] = part[e] / sum;
    }
}

void bt_attention_fill_ref(bt_attention *table)
{
    *table = (bt_attention){
        .scores_f32 = scores_f32_ref,
        .scores_f16 = scores_f16_ref,
        .mix_f32 = mix_f32_ref,
        .mix_f16 = mix_f16_ref,
        .softmax = softmax_ref,
        .merge = merge_ref,
        .finish = finish_ref,
    };
}
