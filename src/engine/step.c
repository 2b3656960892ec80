/* SPDX-License-Identifier: MIT
 *
 * One step of the engine, and the only place that knows the order of its stages:
 *
 *   queue → plan → propose → build → forward → accept → commit → tell consumers
 */
#include "engine/engine.h"

#include <string.h>

static void propose(betoken_engine *e)
{
    int n = 0;
    bt_candidates_reset(e->candidates);
    for (int i = 0; i < e->plan.n_items; i++) {
        bt_plan_item *item = &e->plan.items[i];
        if (item->n_draft > 0) {
            betoken_stream *s = item->seq;
            item->range = n;
            e->propose_seqs[n++] =
                (bt_propose_seq){.end_id = {e->eos, s->stop_id},
                                 .n_end_ids = {s->ignore_eos ? 0 : e->n_eos, s->n_stop_ids},
                                 .seq_idx = s->seq_idx,
                                 .token = s->token,
                                 .n_tok = s->n_tok,
                                 .table = s->table,
                                 .sampling = &s->sampling,
                                 .n_max = item->n_draft};
        }
    }
    if (n > 0) {
        e->proposer->ops->propose(e->proposer, e->propose_seqs, n, e->candidates);
    }
}

/* Candidates are a chain: each lies at its final place, one position after its parent. */
static void build_decode(betoken_engine *e, bt_plan_item *item)
{
    betoken_stream *s = item->seq;
    bt_batch_add(e->batch, s->token[s->n_tok - 1], s->n_tok - 1, s->table, BT_WANT_LOGITS);
    item->n_draft = 0;
    if (item->range < 0) {
        return;
    }
    const bt_candidates *c = e->candidates;
    int first = c->first[item->range];
    for (int i = 0; i < c->n[item->range]; i++) {
        BT_ASSERT(c->parent[first + i] == i - 1);
        bt_batch_add(e->batch, c->token[first + i], s->n_tok + i, s->table, BT_WANT_LOGITS);
        item->n_draft++;
    }
}

static void build(betoken_engine *e)
{
    bt_batch_reset(e->batch);
    for (int i = 0; i < e->plan.n_items; i++) {
        bt_plan_item *item = &e->plan.items[i];
        betoken_stream *s = item->seq;
        item->first_row = e->batch->n_tok;
        item->first_logits_row = e->batch->n_logits;
        if (item->decode) {
            build_decode(e, item);
            continue;
        }
        for (int r = 0; r < item->n_rows; r++) {
            bool last = item->samples && r == item->n_rows - 1;
            int pos = s->n_computed + r;
            bt_batch_add(e->batch, s->token[pos], pos, s->table, last ? BT_WANT_LOGITS : 0);
        }
    }
}

static const float *logits_row(const betoken_engine *e, const bt_plan_item *item, int node)
{
    return e->logits + (size_t)(item->first_logits_row + 1 + node) * (size_t)e->n_vocab;
}

/* Which candidates of one sequence hold, and its own next token. Runs on any compute thread. */
static void accept(void *ctx, int chunk_idx, int thread_idx)
{
    betoken_engine *e = ctx;
    bt_plan_item *item = &e->plan.items[chunk_idx];
    if (!item->samples) {
        return;
    }
    bt_verify_rows rows = {.logits = logits_row(e, item, -1), .stride = (size_t)e->n_vocab};
    bt_verify_args args = {.row = bt_verify_row_flat,
                           .ctx = &rows,
                           .n_vocab = e->n_vocab,
                           .params = &item->seq->sampling,
                           .position = item->seq->n_tok,
                           .n = item->n_draft};
    if (item->n_draft > 0) {
        int first = e->candidates->first[item->range];
        args.token = e->candidates->token + first;
        args.parent = e->candidates->parent + first;
        args.q = e->candidates->q + first;
    }
    bt_sampler *sampler = e->samplers[thread_idx];
    item->status = e->opt.acceptance == BETOKEN_ACCEPT_REJECTION
                       ? bt_verify_rejection(sampler, &args, &item->accept)
                       : bt_verify_coupled(sampler, &args, &item->accept);
}

static void emit_drafts(betoken_engine *e, const bt_plan_item *item)
{
    betoken_event event = {.type = BETOKEN_EVENT_DRAFTS, .n = item->n_draft};
    if (item->n_draft > 0) {
        memcpy(event.u.draft, e->candidates->token + e->candidates->first[item->range],
               (size_t)item->n_draft * sizeof *event.u.draft);
    }
    bt_stream_push(item->seq, &event, NULL);
}

static void count_proposal(betoken_engine *e, const bt_plan_item *item)
{
    item->seq->usage.steps++;
    item->seq->usage.drafted += item->n_draft;
    if (item->n_draft > 0) {
        e->stats.drafts++;
        e->stats.draft_tokens += (uint64_t)item->n_draft;
    }
}

/* Commits what was accepted, then the target's own token, until one of them ends the answer; returns
 * how many candidates became part of it. */
static int commit_tokens(betoken_engine *e, bt_plan_item *item, bool *ended)
{
    betoken_stream *s = item->seq;
    const bt_accept *a = &item->accept;
    int n_kept = 0;
    *ended = false;
    for (int i = 0; i < a->n_tokens && !*ended; i++) {
        if (i < a->n_accepted) {
            n_kept++;
            s->usage.accepted++;
            e->stats.accepted_tokens++;
            e->stats.accepted_per_pos[i]++;
        }
        int node = i == 0 ? -1 : a->node[i - 1];
        *ended = bt_commit_token(e, s, a->token[i], logits_row(e, item, node));
    }
    e->stats.accepted_discarded += (uint64_t)(a->n_accepted - n_kept);
    return n_kept;
}

static void commit(betoken_engine *e, bt_plan_item *item)
{
    betoken_stream *s = item->seq;
    if (!item->decode) {
        s->n_computed += item->n_rows;
        if (!item->samples) {
            return;
        }
        s->state = BT_SEQ_DECODE;
    }
    if (item->status != BT_OK) {
        bt_commit_error(e, s, BT_E_INTERNAL,
                        "the model gave logits that are not finite; the request was ended");
        bt_queue_end(e, s);
        return;
    }
    if (item->decode && s->return_drafts) {
        emit_drafts(e, item);
    }
    count_proposal(e, item);
    bool ended;
    int n_kept = commit_tokens(e, item, &ended);
    s->n_computed = s->n_tok - 1;
    if (item->range >= 0) {
        e->proposer->ops->observe(e->proposer, s->seq_idx, n_kept);
    }
    if (ended) {
        bt_queue_end(e, s);
    }
}

bool bt_step(betoken_engine *e)
{
    bt_queue_drain_inbox(e);
    bt_queue_sweep_cancelled(e);
    bt_queue_admit(e);
    bt_plan_make(e, &e->plan);
    if (e->plan.n_items == 0) {
        return false;
    }
    if (e->proposer != NULL) {
        propose(e);
    }
    build(e);
    bt_model_forward(e->model, e->batch, &e->logits);
    e->stats.steps++;
    bt_counters_add(&e->stats.iteration_tokens, e->batch->n_tok);
    bt_pool_run(e->pool, e->plan.n_items, accept, e);
    for (int i = 0; i < e->plan.n_items; i++) {
        /* Held until its consumer has been told: commit may end it. */
        atomic_fetch_add_explicit(&e->plan.items[i].seq->n_refs, 1, memory_order_relaxed);
        commit(e, &e->plan.items[i]);
    }
    bt_counters_publish(e, false);
    for (int i = 0; i < e->plan.n_items; i++) {
        betoken_stream *s = e->plan.items[i].seq;
        if (s->news) {
            bt_stream_wake(s);
        }
        bt_stream_release(s);
    }
    return true;
}
