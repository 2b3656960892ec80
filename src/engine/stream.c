/* SPDX-License-Identifier: MIT
 *
 * The way out of the engine: a bounded ring of events a request, its wake-up, and its end. */
#include "engine/engine.h"

#include "base/clock.h"
#include "base/mem.h"

#include <string.h>

bool bt_stream_has_space(const betoken_engine *e, const betoken_stream *s, int n_tokens)
{
    /* STARTED, DRAFTS and DONE beside the tokens. */
    size_t need = (size_t)n_tokens * (size_t)e->events_per_token + 3;
    return bt_ring_space(&s->events) >= need;
}

void bt_stream_push(betoken_stream *s, const betoken_event *event, const betoken_logprob *top)
{
    uint32_t place = s->n_pushed++ & s->events.mask;
    if (event->n_top > 0) {
        memcpy(s->tops + (size_t)place * (size_t)s->n_logprobs, top,
               (size_t)event->n_top * sizeof *top);
    }
    bool pushed = bt_ring_push(&s->events, event);
    BT_ASSERT(pushed); /* the planner has checked the space */
    s->news = true;
}

bool betoken_stream_next(betoken_stream *s, betoken_event *event)
{
    const betoken_event *oldest = bt_ring_peek(&s->events);
    if (oldest == NULL) {
        return false;
    }
    *event = *oldest;
    uint32_t place = s->n_popped++ & s->events.mask;
    event->top = NULL;
    if (event->n_top > 0) {
        memcpy(s->top_out, s->tops + (size_t)place * (size_t)s->n_logprobs,
               (size_t)event->n_top * sizeof *s->top_out);
        event->top = s->top_out;
    }
    betoken_event dropped;
    bool popped = bt_ring_pop(&s->events, &dropped);
    BT_ASSERT(popped);
    s->ended_seen = event->type == BETOKEN_EVENT_DONE || event->type == BETOKEN_EVENT_ERROR;
    if (atomic_exchange_explicit(&s->paused, false, memory_order_acq_rel)) {
        bt_bell_ring(&s->engine->bell);
    }
    return true;
}

bool betoken_stream_wait(betoken_stream *s, int64_t timeout_ns)
{
    int64_t until = timeout_ns < 0 ? 0 : bt_clock_now_ns() + timeout_ns;
    while (!s->ended_seen) {
        uint32_t seen = bt_bell_read(&s->bell);
        if (!bt_ring_is_empty(&s->events)) {
            return true;
        }
        int64_t left = timeout_ns < 0 ? -1 : until - bt_clock_now_ns();
        if (timeout_ns >= 0 && left <= 0) {
            return false;
        }
        bt_bell_wait(&s->bell, seen, left);
    }
    return false;
}

const int32_t *betoken_stream_prompt(const betoken_stream *s, size_t *n)
{
    *n = (size_t)s->n_prompt;
    return s->token;
}

/* The consumer's close waits while `waking` is set, and sets `cancelled` before it looks; so wake is
 * never called after close has returned. */
void bt_stream_wake(betoken_stream *s)
{
    s->news = false;
    bt_bell_ring(&s->bell);
    if (s->wake == NULL) {
        return;
    }
    atomic_store_explicit(&s->waking, true, memory_order_seq_cst);
    if (!atomic_load_explicit(&s->cancelled, memory_order_seq_cst)) {
        s->wake(s->wake_ctx);
    }
    atomic_store_explicit(&s->waking, false, memory_order_seq_cst);
}

void bt_stream_release(betoken_stream *s)
{
    /* acq_rel: the last one sees all that the other did. */
    if (atomic_fetch_sub_explicit(&s->n_refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    betoken_engine *e = s->engine;
    for (int i = 0; i < s->n_stop; i++) {
        bt_mem_free((void *)(uintptr_t)s->stop[i].p);
    }
    bt_ring_deinit(&s->events);
    bt_mem_free(s->tops);
    bt_mem_free(s->top_out);
    bt_mem_free(s->top_row);
    bt_mem_free(s->text);
    bt_mem_free(s->token);
    bt_mem_free(s);
    bt_engine_release(e);
}

void betoken_stream_close(betoken_stream *s)
{
    if (s == NULL) {
        return;
    }
    /* Spins out a wake-up that is under way: see bt_stream_wake. */
    atomic_store_explicit(&s->cancelled, true, memory_order_seq_cst);
    while (atomic_load_explicit(&s->waking, memory_order_seq_cst)) {
    }
    bt_bell_ring(&s->engine->bell);
    bt_stream_release(s);
}
