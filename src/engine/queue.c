/* SPDX-License-Identifier: MIT
 *
 * Who waits and who runs: first come, first served. A request is admitted when a place is free and
 * the cache has blocks for its prompt and its longest possible answer, so that a running request
 * never runs out of blocks. Engine thread only. */
#include "engine/engine.h"

#include "base/clock.h"

void bt_queue_drain_inbox(betoken_engine *e)
{
    betoken_stream *s;
    while (e->n_waiting < e->n_waiting_max && bt_ring_pop(&e->inbox, &s)) {
        e->waiting[(e->waiting_head + e->n_waiting++) % e->n_waiting_max] = s;
        e->stats.prompt_tokens += (uint64_t)s->n_prompt;
    }
}

static bool is_cancelled(const betoken_stream *s)
{
    return atomic_load_explicit(&s->cancelled, memory_order_acquire); /* betoken_stream_close */
}

static void let_go(betoken_engine *e, betoken_stream *s)
{
    s->state = BT_SEQ_ENDED;
    atomic_fetch_sub_explicit(&e->n_live, 1, memory_order_acq_rel);
    bt_stream_release(s);
}

void bt_queue_end(betoken_engine *e, betoken_stream *s)
{
    BT_ASSERT(s->seq_idx >= 0 && e->running[s->seq_idx] == s);
    bt_kv_table_truncate(s->table, &e->kv, 0);
    if (e->proposer != NULL) {
        e->proposer->ops->forget(e->proposer, s->seq_idx);
    }
    e->running[s->seq_idx] = NULL;
    int at = 0;
    while (e->order[at] != s) {
        at++;
    }
    e->n_running--;
    for (; at < e->n_running; at++) {
        e->order[at] = e->order[at + 1];
    }
    let_go(e, s);
}

void bt_queue_sweep_cancelled(betoken_engine *e)
{
    for (int i = e->n_running - 1; i >= 0; i--) {
        if (is_cancelled(e->order[i])) {
            e->stats.finished_abort++;
            bt_queue_end(e, e->order[i]);
        }
    }
    int kept = 0;
    for (int i = 0; i < e->n_waiting; i++) {
        betoken_stream *s = e->waiting[(e->waiting_head + i) % e->n_waiting_max];
        if (is_cancelled(s)) {
            e->stats.finished_abort++;
            let_go(e, s);
        } else {
            e->waiting[(e->waiting_head + kept++) % e->n_waiting_max] = s;
        }
    }
    e->n_waiting = kept;
}

static int free_place(const betoken_engine *e)
{
    for (int i = 0; i < e->opt.max_num_seqs; i++) {
        if (e->running[i] == NULL) {
            return i;
        }
    }
    return -1;
}

void bt_queue_admit(betoken_engine *e)
{
    while (e->n_waiting > 0 && e->n_running < e->opt.max_num_seqs) {
        betoken_stream *s = e->waiting[e->waiting_head];
        int place = free_place(e);
        if (!bt_kv_table_grow(&e->tables[place], &e->kv, s->n_tok_max)) {
            return; /* the next one does not overtake it */
        }
        e->waiting_head = (e->waiting_head + 1) % e->n_waiting_max;
        e->n_waiting--;
        s->seq_idx = place;
        s->table = &e->tables[place];
        s->state = BT_SEQ_PREFILL;
        s->started_ns = bt_clock_now_ns();
        s->usage.queue_ns = s->started_ns - s->submitted_ns;
        bt_counters_add(&e->stats.queue_s, (double)s->usage.queue_ns * 1e-9);
        e->running[place] = s;
        e->order[e->n_running++] = s;
    }
}
