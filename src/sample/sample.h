/* SPDX-License-Identifier: MIT
 *
 * sample.h: from a row of logits to a token. One function draws for plain rows, verified rows and
 * drafts, so that they cannot differ.
 *
 * Sampling at temperature T is greedy decoding over l / T + g, where the Gumbel noise g is a function
 * of (seed, choice, position, token id) alone (gumbel.h). `position` is always the ABSOLUTE position
 * in its sequence (prompt included) of the token being drawn: the first token after a prompt of n
 * tokens has position n. So a preempted and recomputed request continues the same text.
 *
 * A row holds finite logits, or -infinity for a masked token. A row with a NaN or +infinity, or with
 * every token masked, is a fault of the model or of the masks: the functions return BT_E_INTERNAL
 * and change nothing, and the engine ends that request only.
 *
 * A bt_sampler is scratch memory: one per thread that samples, results do not depend on it.
 * Parameters must have passed bt_sampling_check. */
#ifndef BT_SAMPLE_SAMPLE_H
#define BT_SAMPLE_SAMPLE_H

#include "sample/params.h"

typedef struct bt_sampler bt_sampler;

/* Claims the work space for rows of up to n_vocab_max logits; nothing allocates afterwards. */
bt_status bt_sampler_open(int n_vocab_max, bt_sampler **out, bt_err *err) BT_MUST_USE;
/* NULL is allowed. */
void bt_sampler_close(bt_sampler *s);

/* The token at `position` (>= 0): argmax of l / T + g over what the filters leave; greedy below
 * 1e-5. Ties go to the lowest id. logits: [n_vocab], 0 < n_vocab <= n_vocab_max, read only.
 * BT_E_INTERNAL for a row that is not a distribution (see above), *token untouched. */
bt_status bt_sample_pick(bt_sampler *s, const float *logits, int n_vocab, const bt_sampling *params,
                         int32_t position, int32_t *token) BT_MUST_USE;

/* The row's first largest logit, without any parameter; same errors. */
bt_status bt_sample_argmax(bt_sampler *s, const float *logits, int n_vocab,
                           int32_t *token) BT_MUST_USE;

/* --- for proposers ------------------------------------------------------------------------- */

enum { BT_DRAFT_BEST_MAX = 16 };

/* A drafted token and a raw estimate of the chance that the target picks it too: the softmax of the
 * perturbed scores l / T + g over the best few (of the logits over all tokens when greedy). The
 * policy maps it through bins of observed acceptance; as a probability it is not calibrated. */
typedef struct bt_draft {
    int32_t token; /* id of the target's vocabulary */
    float chance;
} bt_draft;

typedef struct bt_draft_args {
    const float *logits;       /* [n_vocab] of the draft */
    int n_vocab;               /* rows of the draft's output layer, <= n_vocab_max */
    const int32_t *target_id;  /* [n_vocab] target id of each row, all different, best rising (the
                                   * noise is then cheapest); NULL: the same ids */
    const bt_sampling *params; /* the TARGET request's */
    int32_t position;          /* of the drafted token */
} bt_draft_args;

/* The n_best (1 … 16) tokens with the largest l / T + g, best first: with the request's own noise,
 * so that under coupled verification a good draft is the target's pick. For n_best = 1 all filters
 * apply; for more only the temperature (filters then cost acceptance, speculation-analysis.md 2).
 * *n_out <= n_best tokens are written to out (fewer when the row has fewer unmasked ones). */
bt_status bt_sample_draft(bt_sampler *s, const bt_draft_args *args, int n_best, bt_draft *out,
                          int *n_out) BT_MUST_USE;

/* For rejection sampling: draws one token from the draft's processed law (the same token as
 * bt_sample_draft with n_best 1) and writes that law to q: [n_target] floats over the target's ids,
 * 0 for ids that the draft lacks, sum 1. Greedy: one-hot. */
bt_status bt_sample_draft_q(bt_sampler *s, const bt_draft_args *args, float *q, int n_target,
                            bt_draft *out) BT_MUST_USE;

#endif
