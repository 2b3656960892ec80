/* SPDX-License-Identifier: MIT
 *
 * draftmodel.h: a small model of the same vocabulary guesses a chain (Leviathan et al., arXiv
 * 2211.17192; Chen et al., arXiv 2302.01318), with the request's own noise, so that under coupled
 * verification a good draft picks what the target picks (design 6.3).
 *
 * Its cache uses the target's block ids. n_cached positions of a sequence hold the committed text;
 * what lies beyond was guessed and is written again. */
#ifndef BT_SPEC_DRAFTMODEL_H
#define BT_SPEC_DRAFTMODEL_H

#include "model/model.h"
#include "spec/proposer.h"

typedef struct bt_draftmodel_args {
    bt_model *model;    /* reserved; borrowed, outlives the proposer */
    int n_vocab_target; /* logits of the target; rows of the two may differ by padding */
    int n_seqs_max;
    int n_draft_max; /* candidates of one sequence, <= BT_SPEC_MAX */
    bool keep_q;     /* store the laws for rejection sampling */
} bt_draftmodel_args;

bt_status bt_draftmodel_open(const bt_draftmodel_args *args, bt_proposer **out,
                             bt_err *err) BT_MUST_USE;

#endif
