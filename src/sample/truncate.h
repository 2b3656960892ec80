/* SPDX-License-Identifier: MIT
 *
 * truncate.h: which tokens min_p, top_k and top_p leave.
 *
 * Tokens are ordered by logit falling, then id rising, and every filter keeps a prefix of that order:
 *   min_p  l >= max + T log(min_p), in double
 *   top_k  the first k of these
 *   top_p  of what is left: a token stays while the mass before it is below top_p of the mass of all.
 * The first token always stays. Mass is e^((l - max) / T) in float (bt_row_exp), rounded to multiples
 * of 2^-32, so that its sums are exact and do not depend on an order.
 *
 * Nothing is sorted: buckets, then a radix selection over the bits of the logits, find where the
 * prefix ends, in a few passes over the rows that can still matter, whatever the values. */
#ifndef BT_SAMPLE_TRUNCATE_H
#define BT_SAMPLE_TRUNCATE_H

#include "kernel/rowstat.h"
#include "sample/params.h"

/* Rows above this would break the exactness of the sums. */
enum { BT_TRUNCATE_VOCAB_MAX = BT_ROW_MASS_MAX, BT_TRUNCATE_BUCKETS = 2048 };

/* Arrays of the caller. */
typedef struct bt_truncate_work {
    int32_t *idx;      /* [V] survivors */
    float *weight;     /* [V] their masses */
    float *dense;      /* [V] masses of all rows */
    int32_t *sub_idx;  /* [V] those of one bucket */
    float *sub_weight; /* [V] */
    double *mass;      /* [BT_TRUNCATE_BUCKETS] */
} bt_truncate_work;

/* A row that bt_row_scan_fn accepted, with its results. */
typedef struct bt_truncate_row {
    const float *logits; /* [n] */
    int n;
    const float *block_max;
    float max;
    bt_row_exp_fn *exp;
} bt_truncate_row;

/* True when no filter of params can drop any of n tokens. */
bool bt_truncate_is_off(const bt_sampling *params, int n);

/* The rows that survive, rising, in work->idx; returns their number, >= 1. The temperature is at
 * least BT_SAMPLING_GREEDY_BELOW. */
int bt_truncate(const bt_truncate_row *row, const bt_sampling *params, bt_truncate_work *work);

#endif
