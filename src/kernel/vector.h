/* SPDX-License-Identifier: MIT
 *
 * vector.h: the kernels of a decoder layer that are neither a matrix product nor attention, as a
 * table of function pointers. The reference is filled first, then overwritten by what the
 * instruction set level offers (the method of dav1d's DSP contexts).
 *
 * Every kernel sums in an order that depends on its lengths alone, so that a row's bits depend on
 * the row alone (law 1). Pointers need the alignment of their element only; lengths may be odd.
 * All functions are pure: any thread, no state. */
#ifndef BT_KERNEL_VECTOR_H
#define BT_KERNEL_VECTOR_H

#include "base/cpu.h"

/* y[i] = x[i] / sqrt(mean(x^2) + eps) * (w[i] + w_offset), i < dim; y may be x. */
typedef void bt_rmsnorm_fn(const float *x, const float *w, float eps, float w_offset, int dim,
                           float *y);
/* Rotates the first n_rot (even) dimensions of n_heads vectors of head_dim floats, one after
 * another in x, by the angles of one position: cos, sin [n_rot / 2]. */
typedef void bt_rope_fn(float *x, const float *cos, const float *sin, int n_heads, int head_dim,
                        int n_rot);
/* y[i] = gate[i] / (1 + exp(-gate[i])) * up[i], i < n; y may be gate or up. */
typedef void bt_silu_mul_fn(const float *gate, const float *up, size_t n, float *y);
/* Stores one position into a cache block (layouts in kernel/attention.h): k [head_dim] down a
 * column with BT_ATTN_BLOCK elements from one to the next, v [head_dim] along a row. */
typedef void bt_kv_put_fn(const float *k, const float *v, int head_dim, void *k_column,
                          void *v_row);

typedef struct bt_vector {
    bt_rmsnorm_fn *rmsnorm;
    bt_rope_fn *rope_half;  /* pairs (i, i + n_rot / 2) */
    bt_rope_fn *rope_pairs; /* pairs (2i, 2i + 1) */
    bt_silu_mul_fn *silu_mul;
    bt_kv_put_fn *kv_put_f32;
    bt_kv_put_fn *kv_put_f16; /* rounds to nearest, ties to even */
} bt_vector;

/* Fills the table for a level that this CPU has. */
void bt_vector_init(bt_vector *table, bt_isa isa);

/* The cascade: each overwrites what its level does better. */
void bt_vector_fill_ref(bt_vector *table);
void bt_vector_fill_avx512(bt_vector *table);

#endif
