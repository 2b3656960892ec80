/* SPDX-License-Identifier: MIT
 *
 * draft.c: what a proposer draws, with the request's own noise. */
#include "sample/sampler.h"

#include <math.h>

/* The n_best largest logits; chance = softmax of the plain logits. */
static int greedy_best(bt_sampler *s, const bt_sample_row *row, int n_best, bt_draft *out)
{
    bt_scored best[BT_DRAFT_BEST_MAX];
    int n = 0;
    for (int b = 0; b < bt_row_blocks(row->n); b++) {
        double bar = n == n_best ? best[n - 1].score : -INFINITY;
        if (s->block_max[b] == -INFINITY || (double)s->block_max[b] < bar) {
            continue;
        }
        int end = BT_MIN((b + 1) * BT_ROW_BLOCK, row->n);
        for (int i = b * BT_ROW_BLOCK; i < end; i++) {
            double score = (double)row->logits[i];
            if (score > -INFINITY && (n < n_best || score >= best[n - 1].score)) {
                int32_t token = row->id != NULL ? row->id[i] : i;
                bt_scored_offer(best, &n, n_best, (bt_scored){score, token});
            }
        }
    }
    double total = s->kernels->exp(row->logits, row->n, s->max, 1.0f, s->trunc.dense);
    for (int i = 0; i < n; i++) {
        double chance = exp(best[i].score - (double)s->max) / total;
        out[i] = (bt_draft){best[i].token, (float)BT_MIN(chance, 1.0)};
    }
    return n;
}

static int noisy_best(bt_sampler *s, const bt_sample_row *row, int n_best, bt_draft *out)
{
    bt_scored best[BT_DRAFT_BEST_MAX];
    /* The gap to the runner-up tells nearly as much as the whole row (speculation-analysis.md 4.3) and
     * costs almost nothing. */
    int n = bt_sampler_best(s, row, BT_MIN(n_best + 1, BT_GUMBEL_BEST_MAX), best);
    double total = 0.0;
    for (int i = 0; i < n; i++) {
        total += exp(best[i].score - best[0].score);
    }
    n = BT_MIN(n, n_best);
    for (int i = 0; i < n; i++) {
        double chance = exp(best[i].score - best[0].score) / total;
        out[i] = (bt_draft){best[i].token, (float)chance};
    }
    return n;
}

bt_status bt_sample_draft(bt_sampler *s, const bt_draft_args *args, int n_best, bt_draft *out,
                          int *n_out)
{
    static_assert((int)BT_DRAFT_BEST_MAX == (int)BT_GUMBEL_BEST_MAX, "one list serves both");
    BT_ASSERT(n_best >= 1 && n_best <= BT_DRAFT_BEST_MAX);
    BT_TRY(bt_sampler_scan(s, args->logits, args->n_vocab));
    bt_sampling params = *args->params;
    if (n_best > 1) {
        params.top_k = 0;
        params.top_p = 1.0;
        params.min_p = 0.0;
    }
    bt_sample_row row = {args->logits, args->n_vocab, args->target_id, &params, args->position};
    *n_out = bt_sampling_is_greedy(&params) ? greedy_best(s, &row, n_best, out)
                                            : noisy_best(s, &row, n_best, out);
    return BT_OK;
}

bt_status bt_sample_draft_q(bt_sampler *s, const bt_draft_args *args, float *q, int n_target,
                            bt_draft *out)
{
    int n;
    BT_TRY(bt_sample_draft(s, args, 1, out, &n));
    bt_sample_row row = {args->logits, args->n_vocab, args->target_id, args->params,
                         args->position};
    bt_sampler_law(s, &row, q, n_target);
    return BT_OK;
}
