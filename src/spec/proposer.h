/* SPDX-License-Identifier: MIT
 *
 * proposer.h: who guesses. A proposer fills a forest of candidates for a batch of sequences; the
 * engine verifies them with the target, tells the proposer what was kept, and when a sequence ends.
 *
 * A proposer's own state (a draft's cache) is caught up lazily inside propose, in one batch: what is
 * not drafted for costs nothing. A proposer that knows nothing about a sequence proposes nothing.
 * Called by the engine thread; nothing allocates after open. */
#ifndef BT_SPEC_PROPOSER_H
#define BT_SPEC_PROPOSER_H

#include "kv/block.h"
#include "sample/candidates.h"
#include "sample/params.h"

/* What a proposer sees of a sequence. */
typedef struct bt_propose_seq {
    int seq_idx;          /* engine's place of the sequence, 0 … n_seqs_max - 1 */
    const int32_t *token; /* [n_tok] committed tokens, prompt included */
    int n_tok;
    const bt_kv_table *table; /* holds room for n_tok + n_max positions */
    const bt_sampling *sampling;
    int n_max; /* most candidates wanted, >= 1 */
    /* Tokens that end the answer: nothing is guessed beyond one. Two lists, either may be empty. */
    const int32_t *end_id[2];
    int n_end_ids[2];
} bt_propose_seq;

typedef struct bt_proposer bt_proposer;

typedef struct bt_proposer_ops {
    const char *name; /* as in --speculative-config "method" */
    /* Begins one range of `out` for each sequence, in order, and fills it. */
    void (*propose)(bt_proposer *p, const bt_propose_seq *seqs, int n_seqs, bt_candidates *out);
    /* Of the candidates proposed last for this sequence, the first n_accepted of the chain were
     * committed. Called once after each propose. */
    void (*observe)(bt_proposer *p, int seq_idx, int n_accepted);
    /* The place is free: a new sequence may take it. */
    void (*forget)(bt_proposer *p, int seq_idx);
    /* Most candidates that a sequence of n_tok tokens may be given (its own context), >= 0. */
    int (*room)(const bt_proposer *p, int n_tok);
    void (*close)(bt_proposer *p);
} bt_proposer_ops;

struct bt_proposer {
    const bt_proposer_ops *ops;
};

#endif
