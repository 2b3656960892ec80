/* SPDX-License-Identifier: MIT
 *
 * policy.h: how many candidates a sequence may get in a step. The `fixed` policy: always the cap,
 * which is what other servers do; zero while more sequences run than disable_by_batch_size. */
#ifndef BT_SPEC_POLICY_H
#define BT_SPEC_POLICY_H

#include "base/base.h"

typedef struct bt_policy {
    int n_max;                 /* num_speculative_tokens, 0: off */
    int disable_by_batch_size; /* 0: never */
    int n_tok_max;             /* longer sequences get none, 0: no such limit */
} bt_policy;

typedef struct bt_policy_seq {
    int n_tok;  /* committed tokens */
    int n_left; /* tokens it may still emit, >= 1: the target's own next one needs a place */
    int room;   /* what the proposer can hold */
} bt_policy_seq;

/* Candidates for one sequence while n_running sequences run. Pure. */
BT_INLINE int bt_policy_fixed(const bt_policy *policy, int n_running, const bt_policy_seq *seq)
{
    bool off = (policy->disable_by_batch_size > 0 && n_running > policy->disable_by_batch_size) ||
               (policy->n_tok_max > 0 && seq->n_tok >= policy->n_tok_max);
    int n = BT_MIN(policy->n_max, BT_MIN(seq->n_left - 1, seq->room));
    return off ? 0 : BT_MAX(n, 0);
}

#endif
