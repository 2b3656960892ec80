/* SPDX-License-Identifier: MIT
 *
 * verify.h: which candidates of one sequence are kept. A pure function of the target's rows, the
 * candidates and the request's noise.
 *
 * Coupled (default): a candidate is kept when it is the target's own pick (bt_sample_pick) at its
 * place, so the tokens are those of plain decoding, whatever proposed the candidates. Chains and
 * trees alike. (Gumbel coupling: Daliri et al., arXiv 2408.07978.)
 *
 * Rejection (Leviathan et al., arXiv 2211.17192): a lone candidate drawn from q is kept with chance
 * min(1, p/q), else the token is drawn from the normalised positive part of p - q. Candidates
 * without a q row, and siblings: kept in order with chance p(x) of what remains, else x is removed
 * from p (EAGLE's rule; exact for candidates chosen independently of the verifier's noise). The law
 * is the target's; the text repeats with a seed but differs from plain decoding. Siblings with q
 * rows are treated by the second rule.
 *
 * Greedy is the same in both: kept while equal to the argmax. */
#ifndef BT_SAMPLE_VERIFY_H
#define BT_SAMPLE_VERIFY_H

#include "sample/candidates.h"
#include "sample/sample.h"

typedef struct bt_verify_args {
    /* The processed logits row [n_vocab] that follows node (index within the range), or the committed
     * context for node -1. Called only along the accepted path, in order, once a node, so that
     * penalties and masks may be applied lazily, with the node's ancestors as output. The row must
     * stay valid until the next call. */
    const float *(*row)(void *ctx, int node);
    void *ctx;
    int n_vocab;
    const bt_sampling *params;
    int32_t position;      /* absolute position of the token that the root's row predicts */
    int n;                 /* candidate nodes, 0 … BT_SPEC_MAX */
    const int32_t *token;  /* [n] ids may be hostile: those outside the vocabulary never match */
    const int32_t *parent; /* [n] -1 or a smaller index; NULL: a chain */
    const float *const *q; /* [n] rows of n_vocab floats or NULL entries; NULL: none (rejection) */
} bt_verify_args;

/* Both fill *out as candidates.h says. When the row after an accepted candidate is not a
 * distribution (NaN), the result ends one row earlier: that candidate becomes the "own" last token,
 * as if nothing had been guessed beyond it, and the next step meets the broken row itself.
 * BT_E_INTERNAL only when the root's row is broken; *out is then untouched. */
bt_status bt_verify_coupled(bt_sampler *s, const bt_verify_args *args, bt_accept *out) BT_MUST_USE;
bt_status bt_verify_rejection(bt_sampler *s, const bt_verify_args *args,
                              bt_accept *out) BT_MUST_USE;

/* A `row` for rows that lie one after another: the root's first, then node 0, 1, … */
typedef struct bt_verify_rows {
    const float *logits; /* [n + 1, stride] */
    size_t stride;       /* floats from row to row */
} bt_verify_rows;
const float *bt_verify_row_flat(void *rows, int node);

#endif
