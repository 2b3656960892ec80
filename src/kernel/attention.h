/* SPDX-License-Identifier: MIT
 *
 * attention.h: the inner loops of attention over the blocked cache, as a table of function
 * pointers; who calls them in which order is device/cpu/cpu_attention.c.
 *
 * A cache block holds BT_ATTN_BLOCK positions of one key/value head:
 *
 *   keys    [d, 16]  element e of position i at e * 16 + i: one load gives one element of 16 keys,
 *                    so that scores need no sum across lanes and any d has no remainder
 *   values  [16, d]  element e of position i at i * d + e
 *
 * Positions are cut into segments of BT_ATTN_SEGMENT from position 0. A segment of a row gives a
 * part: the largest score, the sum of exp(score - largest), and the values weighted by these (not
 * yet divided by the sum); parts are merged in the order of positions (the online softmax of
 * Milakov and Gimelshein, arXiv 1805.02867, at fixed places).
 *
 * Order of every sum, the same for any number of queries, blocks and calls: a score runs over e
 * upward in one chain; a weighted value runs over positions upward in one chain that may be
 * continued by a later call; the sum of exponentials runs in lanes (position % 16) upward, then
 * over the lanes in one fixed tree. Any thread, no state. */
#ifndef BT_KERNEL_ATTENTION_H
#define BT_KERNEL_ATTENTION_H

#include "base/cpu.h"

enum {
    BT_ATTN_BLOCK = 16,
    BT_ATTN_SEGMENT = 256,
    BT_ATTN_SEGMENT_BLOCKS = BT_ATTN_SEGMENT / BT_ATTN_BLOCK,
    BT_ATTN_QUERIES = 6, /* queries of one call: 6 x 4 accumulators of 16 floats in registers */
};

/* scores[j * BT_ATTN_SEGMENT + 16 * b + i] = sum over e of q[j][e] * k[b][e * 16 + i] for
 * j < n_q <= BT_ATTN_QUERIES, b < n_blocks, i < 16. q[j]: [head_dim]. */
typedef void bt_attn_scores_fn(const float *const *q, int n_q, const void *const *k, int n_blocks,
                               int head_dim, float *scores);

/* Turns the raw scores of positions lo…hi-1 of a segment (0 <= lo < hi) into weights:
 * s * scale, then softcap * tanh(s / softcap) unless softcap is 0, then exp(s - max). s is 64-byte
 * aligned; other places of the blocks that hold lo…hi-1 become undefined. */
typedef void bt_attn_softmax_fn(float *s, int lo, int hi, float scale, float softcap,
                                float max_sum[2]);

/* acc[j * acc_stride + e] += sum over positions lo…hi-1 of p[j * BT_ATTN_SEGMENT + position] *
 * v[position / 16][(position % 16) * head_dim + e], for j < n_q, e < head_dim. */
typedef struct bt_attn_mix_args {
    const float *p;
    const void *const *v; /* blocks of the segment; only those of lo…hi-1 are read */
    float *acc;
    size_t acc_stride; /* floats */
    int n_q;           /* 1…BT_ATTN_QUERIES */
    int lo, hi;
    int head_dim;
} bt_attn_mix_args;
typedef void bt_attn_mix_fn(const bt_attn_mix_args *args);

/* A part of one query: head_dim weighted values, then (from bt_attn_part_max on) the largest score
 * and the sum. A part whose sum is 0 holds no position. */
BT_INLINE size_t bt_attn_part_max(int head_dim)
{
    return BT_ROUND_UP((size_t)head_dim, (size_t)16);
}
/* Floats of a part. */
BT_INLINE size_t bt_attn_part_size(int head_dim)
{
    return bt_attn_part_max(head_dim) + 16;
}

/* Merges the part of later positions into `into`; both hold positions. */
typedef void bt_attn_merge_fn(float *into, const float *part, int head_dim);
/* out[e] = part[e] / sum. */
typedef void bt_attn_finish_fn(const float *part, int head_dim, float *out);

typedef struct bt_attention {
    bt_attn_scores_fn *scores_f32, *scores_f16; /* by the type of the cache */
    bt_attn_mix_fn *mix_f32, *mix_f16;
    bt_attn_softmax_fn *softmax;
    bt_attn_merge_fn *merge;
    bt_attn_finish_fn *finish;
} bt_attention;

/* Fills the table for a level that this CPU has. */
void bt_attention_init(bt_attention *table, bt_isa isa);

/* The cascade: each overwrites what its level does better. */
void bt_attention_fill_ref(bt_attention *table);
void bt_attention_fill_avx512(bt_attention *table);

#endif
