/* SPDX-License-Identifier: MIT
 *
 * candidates.c: the forest of one step, in arrays claimed once. */
#include "sample/candidates.h"

#include "base/mem.h"

bt_status bt_candidates_open(int seqs_max, int nodes_per_seq, bt_candidates **out, bt_err *err)
{
    BT_ASSERT(seqs_max > 0);
    BT_ASSERT(nodes_per_seq >= 0 && nodes_per_seq <= BT_SPEC_MAX);
    if (seqs_max > INT32_MAX / BT_SPEC_MAX) {
        return bt_fail(err, BT_E_LIMIT, "%d sequences of %d candidates each are too many", seqs_max,
                       nodes_per_seq);
    }
    bt_candidates *c = bt_mem_calloc(BT_MEM_ENGINE, 1, sizeof *c);
    if (c == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for candidates");
    }
    c->seqs_max = seqs_max;
    c->nodes_max = seqs_max * nodes_per_seq;
    size_t n_seqs = (size_t)seqs_max, n_nodes = (size_t)c->nodes_max;
    c->first = bt_mem_calloc(BT_MEM_ENGINE, n_seqs, sizeof *c->first);
    c->n = bt_mem_calloc(BT_MEM_ENGINE, n_seqs, sizeof *c->n);
    c->token = bt_mem_calloc(BT_MEM_ENGINE, n_nodes, sizeof *c->token);
    c->parent = bt_mem_calloc(BT_MEM_ENGINE, n_nodes, sizeof *c->parent);
    c->chance = bt_mem_calloc(BT_MEM_ENGINE, n_nodes, sizeof *c->chance);
    c->q = bt_mem_calloc(BT_MEM_ENGINE, n_nodes, sizeof *c->q);
    if (!c->first || !c->n || !c->token || !c->parent || !c->chance || !c->q) {
        bt_candidates_close(c);
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for %zu candidates", n_nodes);
    }
    *out = c;
    return BT_OK;
}

void bt_candidates_close(bt_candidates *c)
{
    if (c == NULL) {
        return;
    }
    bt_mem_free(c->first);
    bt_mem_free(c->n);
    bt_mem_free(c->token);
    bt_mem_free(c->parent);
    bt_mem_free(c->chance);
    bt_mem_free(c->q);
    bt_mem_free(c);
}

void bt_candidates_reset(bt_candidates *c)
{
    c->n_seqs = 0;
    c->n_nodes = 0;
}

int bt_candidates_begin(bt_candidates *c)
{
    BT_ASSERT(c->n_seqs < c->seqs_max);
    c->first[c->n_seqs] = c->n_nodes;
    c->n[c->n_seqs] = 0;
    return c->n_seqs++;
}

int bt_candidates_add(bt_candidates *c, int32_t token, int32_t parent, float chance, const float *q)
{
    BT_ASSERT(c->n_seqs > 0);
    int seq = c->n_seqs - 1;
    int32_t idx = c->n[seq];
    BT_ASSERT(parent >= -1 && parent < idx);
    if (idx == BT_SPEC_MAX || c->n_nodes == c->nodes_max) {
        return -1;
    }
    int node = c->n_nodes++;
    c->token[node] = token;
    c->parent[node] = parent;
    c->chance[node] = chance;
    c->q[node] = q;
    c->n[seq] = idx + 1;
    return idx;
}
