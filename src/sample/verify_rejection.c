/* SPDX-License-Identifier: MIT
 *
 * verify_rejection.c: modified rejection sampling (Leviathan et al., arXiv 2211.17192) for a lone
 * candidate drawn from a known law q; acceptance with p(x) in turn (EAGLE's rule,
 * shared/speculation.md rule 4) for candidates that were chosen, and for siblings.
 *
 * Draws are functions of (seed, choice, position): one uniform for each child of a place, other
 * noise than the drafts' for the token after a refusal, the plain noise for the bonus token. A draft
 * at a later position that was thrown away because an earlier one was refused has used that
 * position's plain noise, but the refusal did not depend on it, so it may be used again. */
#include "sample/verify.h"

#include "sample/sampler.h"

#include <math.h>

/* One place of the tree. */
typedef struct place {
    const float *logits;
    int node;         /* -1: the root */
    int32_t position; /* of the token that follows */
} place;

static int next_child(const bt_verify_args *args, int node, int after)
{
    if (args->parent == NULL) {
        return after < 0 && node + 1 < args->n ? node + 1 : -1;
    }
    for (int i = BT_MAX(node, after) + 1; i < args->n; i++) {
        if (args->parent[i] == node) {
            return i;
        }
    }
    return -1;
}

/* Draws from s->law, which need not be normalised; -1 when nothing in it is positive. */
static int32_t draw_from_law(bt_sampler *s, const bt_verify_args *args, int32_t position)
{
    for (int i = 0; i < args->n_vocab; i++) {
        s->log_law[i] = s->law[i] > 0.0f ? logf(s->law[i]) : -INFINITY;
    }
    if (bt_sampler_scan(s, s->log_law, args->n_vocab) != BT_OK) {
        return -1;
    }
    bt_contest contest = {.logits = s->log_law,
                          .n = args->n_vocab,
                          .block_max = s->block_max,
                          .inv_t = 1.0,
                          .noise = bt_sampler_noise(args->params, position, BT_NOISE_RESIDUAL)};
    bt_scored best[1];
    int n = bt_gumbel_best(&contest, 1, best);
    return n == 1 ? best[0].token : -1;
}

/* A candidate drawn from q. True: kept. Else s->law becomes the residual. */
static bool try_drawn(bt_sampler *s, const bt_verify_args *args, int child, double u)
{
    int32_t x = args->token[child];
    const float *q = args->q[child];
    if (x >= 0 && x < args->n_vocab && u * (double)q[x] < (double)s->law[x]) {
        return true;
    }
    for (int i = 0; i < args->n_vocab; i++) {
        float rest = s->law[i] - q[i];
        s->law[i] = rest > 0.0f ? rest : 0.0f;
    }
    return false;
}

/* A candidate that was chosen. True: kept. Else it leaves s->law, and *left shrinks by it. */
static bool try_chosen(bt_sampler *s, const bt_verify_args *args, int child, double u, double *left)
{
    int32_t x = args->token[child];
    if (x < 0 || x >= args->n_vocab) {
        return false;
    }
    double p = (double)s->law[x];
    if (u * *left < p) {
        return true;
    }
    *left -= p;
    s->law[x] = 0.0f;
    return false;
}

/* The child that is kept at this place, or -1 and the token in its stead. s->block_max and s->max
 * hold the scan of at->logits. */
static int settle(bt_sampler *s, const bt_verify_args *args, const place *at, int32_t *token)
{
    bt_sample_row row = {at->logits, args->n_vocab, NULL, args->params, at->position};
    int32_t top = bt_sampler_top(s, row.logits, row.n);
    bt_sampler_law(s, &row, s->law, args->n_vocab);
    bt_noise noise = bt_sampler_noise(args->params, at->position, BT_NOISE_ACCEPT);
    int child = next_child(args, at->node, -1);
    bool is_lone = next_child(args, at->node, child) < 0;
    bool is_drawn = is_lone && args->q != NULL && args->q[child] != NULL;
    double left = 1.0;
    for (uint32_t nth = 0; child >= 0; nth++) {
        double u = bt_gumbel_uniform(&noise, nth);
        if (is_drawn ? try_drawn(s, args, child, u) : try_chosen(s, args, child, u, &left)) {
            *token = args->token[child];
            return child;
        }
        child = next_child(args, at->node, child);
    }
    int32_t drawn = draw_from_law(s, args, at->position);
    *token = drawn >= 0 ? drawn : top; /* nothing left but rounding */
    return -1;
}

/* The token after `at`; *child: the candidate it is, -1 when it is the target's own. */
static bt_status follow(bt_sampler *s, const bt_verify_args *args, const place *at, int *child,
                        int32_t *token)
{
    *child = -1;
    if (next_child(args, at->node, -1) < 0) {
        return bt_sample_pick(s, at->logits, args->n_vocab, args->params, at->position, token);
    }
    BT_TRY(bt_sampler_scan(s, at->logits, args->n_vocab));
    *child = settle(s, args, at, token);
    return BT_OK;
}

bt_status bt_verify_rejection(bt_sampler *s, const bt_verify_args *args, bt_accept *out)
{
    if (bt_sampling_is_greedy(args->params)) {
        return bt_verify_coupled(s, args, out);
    }
    BT_ASSERT(args->n >= 0 && args->n <= BT_SPEC_MAX);
    int node = -1, depth = 0;
    for (;;) {
        place at = {args->row(args->ctx, node), node, args->position + depth};
        int child;
        int32_t token;
        bt_status status = follow(s, args, &at, &child, &token);
        if (status != BT_OK) {
            if (depth == 0) {
                return status;
            }
            depth--;
            break;
        }
        out->token[depth] = token;
        if (child < 0) {
            break;
        }
        out->node[depth++] = child;
        node = child;
    }
    out->n_accepted = depth;
    out->n_tokens = depth + 1;
    return BT_OK;
}
