/* SPDX-License-Identifier: MIT
 *
 * sampler.h: the scratch memory behind bt_sampler, for the files of this folder only. */
#ifndef BT_SAMPLE_SAMPLER_H
#define BT_SAMPLE_SAMPLER_H

#include "sample/gumbel.h"
#include "sample/sample.h"
#include "sample/truncate.h"

struct bt_sampler {
    int n_vocab_max;
    const bt_row_kernels *kernels;
    float *block_max;       /* [blocks] of the row last scanned */
    float max;              /* of the row last scanned */
    bt_truncate_work trunc; /* lists of survivors */
    float *law;             /* [V] processed target law, in rejection sampling */
    float *log_law;         /* [V] logarithms of a residual */
};

/* After a scan: the lowest row whose logit is the largest. */
int bt_sampler_top(const bt_sampler *s, const float *logits, int n);

/* A row with what is asked of it. */
typedef struct bt_sample_row {
    const float *logits;
    int n;             /* rows */
    const int32_t *id; /* token of each row; NULL: the row */
    const bt_sampling *params;
    int32_t position;
} bt_sample_row;

/* Checks the row and fills block_max and max. BT_E_INTERNAL when it is not a distribution. */
bt_status bt_sampler_scan(bt_sampler *s, const float *logits, int n);

/* After a scan, not greedy: the best n_best of l / T + g over what the filters leave. */
int bt_sampler_best(bt_sampler *s, const bt_sample_row *row, int n_best, bt_scored *best);

/* After a scan: the processed law of the row as floats over n_out token ids (0 where the row has
 * none). Greedy: one-hot. */
void bt_sampler_law(bt_sampler *s, const bt_sample_row *row, float *law, int n_out);

bt_noise bt_sampler_noise(const bt_sampling *params, int32_t position, bt_noise_use use);

#endif
