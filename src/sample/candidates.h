/* SPDX-License-Identifier: MIT
 *
 * candidates.h: what proposers hand to the engine and the verifier hands back.
 *
 * bt_candidates is a forest for one step: one tree a sequence, each a range of nodes. The range of
 * sequence s is [first[s], first[s] + n[s]); within it a parent precedes its children. A chain is a
 * tree without branches.
 *
 *      range of s:      node   0    1    2    3
 *                       token  a    b    c    d          context ─ a ─┬─ b ─ d
 *                       parent -1   0    0    1                       └─ c
 *
 * Memory is claimed at open; filling it allocates nothing. Owner: the engine thread. */
#ifndef BT_SAMPLE_CANDIDATES_H
#define BT_SAMPLE_CANDIDATES_H

#include "base/status.h"

/* Most candidate nodes of one sequence in one step. */
enum { BT_SPEC_MAX = 64 };

typedef struct bt_candidates {
    int n_seqs, n_nodes;     /* in use */
    int seqs_max, nodes_max; /* capacities */
    int32_t *first;          /* [S] first node of the sequence's range */
    int32_t *n;              /* [S] its nodes, <= BT_SPEC_MAX; 0: nothing guessed */
    int32_t *token;          /* [N] candidate token, an id of the TARGET's vocabulary */
    int32_t *parent;         /* [N] index within the range (not within the forest), -1: the root */
    float *chance;           /* [N] estimated chance that the path to here is accepted, 0 … 1 */
    const float **q;         /* [N] the law the node was drawn from, [V] floats that sum to 1, for
                              * rejection sampling; NULL: the node was chosen, not drawn. Borrowed
                              * until the end of the step */
} bt_candidates;

/* Room for seqs_max sequences of up to nodes_per_seq (<= BT_SPEC_MAX) nodes each. */
bt_status bt_candidates_open(int seqs_max, int nodes_per_seq, bt_candidates **out,
                             bt_err *err) BT_MUST_USE;
/* NULL is allowed. */
void bt_candidates_close(bt_candidates *c);

/* Empties the forest for a new step. */
void bt_candidates_reset(bt_candidates *c);
/* Begins the range of the next sequence and returns its index; asserts that there is room. Nodes are
 * then added to it until the next begin. */
int bt_candidates_begin(bt_candidates *c);
/* Adds a node to the sequence begun last and returns its index within that range, or -1 when the
 * range or the forest is full (a proposer then simply stops). parent: an index returned before for
 * this sequence, or -1. q may be NULL. */
int bt_candidates_add(bt_candidates *c, int32_t token, int32_t parent, float chance,
                      const float *q);

/* What one sequence gained in one step. token[0 … n_accepted) are candidates, node[i] says which
 * (index within the range; for keeping their KV); token[n_accepted] is the target's own next token,
 * for which no KV exists yet. n_tokens = n_accepted + 1 always. */
typedef struct bt_accept {
    int n_accepted;
    int n_tokens;
    int32_t token[BT_SPEC_MAX + 1];
    int32_t node[BT_SPEC_MAX];
} bt_accept;

#endif
