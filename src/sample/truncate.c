/* SPDX-License-Identifier: MIT
 *
 * truncate.c: filters by radix selection (truncate.h). */
#include "sample/truncate.h"

#include "kernel/rowstat.h"

#include <math.h>
#include <string.h>

bool bt_truncate_is_off(const bt_sampling *params, int n)
{
    return !(params->min_p > 0.0) && (params->top_k <= 0 || params->top_k >= n) &&
           params->top_p >= 1.0;
}

/* Bits of a logit as an unsigned number of the same order; -0 counts as 0. */
BT_INLINE uint32_t order_key(float logit)
{
    float f = logit + 0.0f;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* A mass below e^-23 of the largest rounds to nothing. */
#define MASS_RANGE 23.0f

/* Buckets fall with the logit; the last takes all that is out of range. */
BT_INLINE int bucket_of(const bt_truncate_row *row, int32_t i, float per_logit)
{
    float at = (row->max - row->logits[i]) * per_logit;
    return at < (float)(BT_TRUNCATE_BUCKETS - 1) ? (int)at : BT_TRUNCATE_BUCKETS - 1;
}

/* Where the kept prefix ends: keys above `key`, and the first n_ties of those equal to it. */
typedef struct cut {
    uint32_t key;
    int n_ties;
} cut;

/* What is selected from: values [n], row values[idx[j]] where idx is given; weight NULL: 1 each. */
typedef struct selection {
    const float *values;
    const int32_t *idx;
    const float *weight;
    int n;
    double before; /* mass that is ahead of them all */
    double *mass;  /* [BT_TRUNCATE_BUCKETS] */
} selection;

BT_INLINE uint32_t selection_key(const selection *s, int j)
{
    return order_key(s->values[s->idx != NULL ? s->idx[j] : j]);
}

BT_INLINE double selection_weight(const selection *s, int j)
{
    return s->weight != NULL ? bt_row_grain(s->weight[j]) : 1.0;
}

/* Adds the masses of entries whose key begins with `prefix` (its upper bits above shift + bits) to
 * the bucket of their next `bits` bits. */
static void fill_buckets(const selection *s, uint32_t prefix, int shift, int bits)
{
    memset(s->mass, 0, ((size_t)1 << bits) * sizeof *s->mass);
    uint32_t mask = (1u << bits) - 1;
    int above = shift + bits;
    for (int j = 0; j < s->n; j++) {
        uint32_t key = selection_key(s, j);
        if (above == 32 || key >> above == prefix >> above) {
            s->mass[key >> shift & mask] += selection_weight(s, j);
        }
    }
}

/* The shortest prefix of the order whose mass reaches `target` > 0. When even all of it does not:
 * everything. */
static cut select_cut(const selection *s, double target)
{
    static const int shifts[3] = {21, 10, 0}, widths[3] = {11, 11, 10};
    uint32_t prefix = 0;
    double before = s->before;
    for (int level = 0; level < 3; level++) {
        fill_buckets(s, prefix, shifts[level], widths[level]);
        int bucket = (1 << widths[level]) - 1;
        while (bucket >= 0 && before + s->mass[bucket] < target) {
            before += s->mass[bucket];
            bucket--;
        }
        if (bucket < 0) {
            return (cut){.key = 0, .n_ties = s->n};
        }
        prefix |= (uint32_t)bucket << shifts[level];
    }
    cut c = {.key = prefix, .n_ties = 0};
    for (int j = 0; j < s->n && before < target; j++) {
        if (selection_key(s, j) == prefix) {
            before += selection_weight(s, j);
            c.n_ties++;
        }
    }
    return c;
}

/* Keeps the entries of idx (and of weight, where given) inside the cut; returns their number. */
static int apply_cut(const float *logits, cut c, int n, int32_t *idx)
{
    int kept = 0, ties = 0;
    for (int j = 0; j < n; j++) {
        uint32_t key = order_key(logits[idx[j]]);
        int is_tie = key == c.key;
        idx[kept] = idx[j]; /* without branches, which a flat row would mispredict half the time */
        kept += (key > c.key) | (is_tie & (ties < c.n_ties));
        ties += is_tie;
    }
    return kept;
}

/* All rows with a logit >= least, but never a masked one. */
static int gather(const bt_truncate_row *row, double least, int32_t *idx)
{
    int n = 0;
    for (int b = 0; b < bt_row_blocks(row->n); b++) {
        if (row->block_max[b] == -INFINITY || (double)row->block_max[b] < least) {
            continue;
        }
        int end = BT_MIN((b + 1) * BT_ROW_BLOCK, row->n);
        for (int i = b * BT_ROW_BLOCK; i < end; i++) {
            idx[n] = i;
            n += (row->logits[i] > -INFINITY) & ((double)row->logits[i] >= least);
        }
    }
    return n;
}

/* A value that at least k logits reach: the k-th largest maximum of a block. */
static double least_of_top_k(const bt_truncate_row *row, int k, double *mass)
{
    int n_blocks = bt_row_blocks(row->n);
    if (k > n_blocks) {
        return -INFINITY;
    }
    selection s = {.values = row->block_max, .n = n_blocks, .mass = mass};
    cut c = select_cut(&s, k);
    uint32_t bits = c.key & 0x80000000u ? c.key & 0x7fffffffu : ~c.key;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* top_p over a list of rows with their weights, of which `target` is to be reached. Buckets of equal
 * width in the logit, which spread the mass better than its bits do, find where about; the bits then
 * decide within one bucket. */
static int top_p_of_weights(const bt_truncate_row *row, float inv_t, double target, int n,
                            bt_truncate_work *work)
{
    float per_logit = inv_t * (BT_TRUNCATE_BUCKETS / MASS_RANGE);
    memset(work->mass, 0, BT_TRUNCATE_BUCKETS * sizeof *work->mass);
    for (int j = 0; j < n; j++) {
        work->mass[bucket_of(row, work->idx[j], per_logit)] += bt_row_grain(work->weight[j]);
    }
    double before = 0.0;
    int bucket = 0;
    while (before + work->mass[bucket] < target) {
        before += work->mass[bucket];
        if (++bucket == BT_TRUNCATE_BUCKETS) {
            return n;
        }
    }
    int n_sub = 0;
    for (int j = 0; j < n; j++) {
        work->sub_idx[n_sub] = work->idx[j];
        work->sub_weight[n_sub] = work->weight[j];
        n_sub += bucket_of(row, work->idx[j], per_logit) == bucket;
    }
    selection s = {row->logits, work->sub_idx, work->sub_weight, n_sub, before, work->mass};
    return apply_cut(row->logits, select_cut(&s, target), n, work->idx);
}

/* top_p over the whole row. Rows lighter than (1 - top_p) / n of the mass cannot survive: together
 * they have less than what top_p may leave out. */
static int top_p_of_row(const bt_truncate_row *row, float inv_t, double top_p,
                        bt_truncate_work *work)
{
    double total = row->exp(row->logits, row->n, row->max, inv_t, work->dense);
    double light = (1.0 - top_p) * total / row->n * 0.999;
    int n = 0;
    for (int b = 0; b < bt_row_blocks(row->n); b++) {
        float block_weight = bt_row_exp((row->block_max[b] - row->max) * inv_t);
        if (bt_row_grain(block_weight) < light) {
            continue;
        }
        int end = BT_MIN((b + 1) * BT_ROW_BLOCK, row->n);
        for (int i = b * BT_ROW_BLOCK; i < end; i++) {
            work->idx[n] = i;
            work->weight[n] = work->dense[i];
            n += (bt_row_grain(work->dense[i]) >= light) & (work->dense[i] > 0.0f);
        }
    }
    return top_p_of_weights(row, inv_t, top_p * total, n, work);
}

static int top_p_of_list(const bt_truncate_row *row, float inv_t, double top_p, int n,
                         bt_truncate_work *work)
{
    double total = 0.0;
    for (int j = 0; j < n; j++) {
        work->weight[j] = bt_row_exp((row->logits[work->idx[j]] - row->max) * inv_t);
        total += bt_row_grain(work->weight[j]);
    }
    return top_p_of_weights(row, inv_t, top_p * total, n, work);
}

int bt_truncate(const bt_truncate_row *row, const bt_sampling *params, bt_truncate_work *work)
{
    BT_ASSERT(params->temperature >= BT_SAMPLING_GREEDY_BELOW);
    bool has_k = params->top_k > 0 && params->top_k < row->n;
    bool has_min_p = params->min_p > 0.0;
    float inv_t = (float)(1.0 / params->temperature);
    if (!has_k && !has_min_p && params->top_p < 1.0) {
        return top_p_of_row(row, inv_t, params->top_p, work);
    }
    double least = -INFINITY;
    if (has_min_p) {
        least = (double)row->max + params->temperature * log(params->min_p);
    }
    if (has_k) {
        least = fmax(least, least_of_top_k(row, params->top_k, work->mass));
    }
    int n = gather(row, least, work->idx);
    if (has_k && n > params->top_k) {
        selection s = {row->logits, work->idx, NULL, n, 0.0, work->mass};
        n = apply_cut(row->logits, select_cut(&s, params->top_k), n, work->idx);
    }
    if (params->top_p < 1.0 && n > 1) {
        n = top_p_of_list(row, inv_t, params->top_p, n, work);
    }
    BT_ASSERT(n >= 1);
    return n;
}
