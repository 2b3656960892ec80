/* SPDX-License-Identifier: MIT
 *
 * gumbel.h: the noise of sampling, and who wins with it.
 *
 * Every token id has an exponential variable E, a function of (seed, choice, position, purpose, id);
 * -log E is its Gumbel noise, and argmax of l / T - log E is a draw from softmax(l / T). The smallest
 * E of each block of 64 ids is drawn first, so that a block whose best case loses is never opened:
 * still iid Exp(1) (minimum of 64, its place uniform, the rest memoryless), still one or two
 * generator calls for any single id. Specification: shared/speculation-analysis.md 4. */
#ifndef BT_SAMPLE_GUMBEL_H
#define BT_SAMPLE_GUMBEL_H

#include "base/base.h"

/* Streams that must be independent of each other. Each owns its number and the next one. */
typedef enum bt_noise_use {
    BT_NOISE_PICK = 0,     /* picks and drafts: the shared noise */
    BT_NOISE_ACCEPT = 2,   /* accept or refuse, in rejection sampling */
    BT_NOISE_RESIDUAL = 4, /* the token after a refusal */
} bt_noise_use;

typedef struct bt_noise {
    uint64_t seed;
    uint32_t position, choice;
    bt_noise_use use;
} bt_noise;

/* E of one id (>= 0): positive, finite. */
double bt_gumbel_exponential(const bt_noise *noise, int32_t token);
/* A uniform number, 0 < u < 1, for small index. */
double bt_gumbel_uniform(const bt_noise *noise, uint32_t index);

/* Who takes part. Entry j is row r = idx[j] (j itself without idx) with token id[r] (r itself
 * without id). Logits of -infinity never win. */
typedef struct bt_contest {
    const float *logits; /* finite or -infinity */
    int n;               /* entries */
    const int32_t *idx;  /* [n] rows, rising; NULL: rows 0 … n-1 */
    const int32_t *id;   /* token of each row, all different; NULL: the row */
    const float
        *block_max; /* bt_row_scan_fn of the logits; used when idx and id are NULL, else may be
                             * NULL */
    double inv_t;   /* 1 / T */
    bt_noise noise;
} bt_contest;

typedef struct bt_scored {
    double score; /* l / T - log E */
    int32_t token;
} bt_scored;

enum { BT_GUMBEL_BEST_MAX = 16 };

/* The n_best (1 … 16) entries with the largest score, best first, ties to the lowest id; returns how
 * many there are. Equal, bit for bit, to computing every score. */
int bt_gumbel_best(const bt_contest *contest, int n_best, bt_scored *best);

/* Puts an entry into a list of the best *n of n_max: score falling, then token rising. */
void bt_scored_offer(bt_scored *best, int *n, int n_max, bt_scored entry);

#endif
