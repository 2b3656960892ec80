/* SPDX-License-Identifier: MIT
 *
 * Goal: whatever the state, a plan fits the pass, serves every sequence that can go on, and gives a
 * proposer no more than fits. Method: bt_plan_make on random states of an engine that has no model:
 * only the fields that planning reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "engine/engine.h"

#include <string.h>

enum { SEQS_MAX = 12, RING = 64 };

static int fake_room;

static int room(const bt_proposer *p, int n_tok)
{
    (void)p;
    return BT_MAX(0, fake_room - n_tok);
}

static const bt_proposer_ops fake_ops = {.name = "fake", .room = room};

typedef struct fixture {
    betoken_engine e;
    bt_proposer proposer;
    betoken_stream seqs[SEQS_MAX];
    betoken_stream *order[SEQS_MAX];
    bt_plan_item items[SEQS_MAX];
    bt_plan plan;
} fixture;

static void fill_ring(betoken_stream *s, uint64_t n)
{
    static const betoken_event event;
    for (uint64_t i = 0; i < n; i++) {
        assert_true(bt_ring_push(&s->events, &event));
    }
}

static void make_state(fixture *f, uint64_t *seed)
{
    memset(f, 0, sizeof *f);
    betoken_engine *e = &f->e;
    f->plan.items = f->items;
    f->proposer.ops = &fake_ops;
    fake_room = (int)(bt_rng_next(seed) % 100);
    e->events_per_token = 1 + (int)(bt_rng_next(seed) % 3);
    e->order = f->order;
    e->n_running = (int)(bt_rng_next(seed) % (SEQS_MAX + 1));
    e->opt.max_num_seqs = SEQS_MAX;
    e->opt.max_num_batched_tokens = SEQS_MAX + (int)(bt_rng_next(seed) % 60);
    e->policy.n_max = (int)(bt_rng_next(seed) % 9);
    e->proposer = bt_rng_next(seed) % 4 == 0 || e->policy.n_max == 0 ? NULL : &f->proposer;
    e->policy.disable_by_batch_size = (int)(bt_rng_next(seed) % 8);
    bt_bell_init(&e->bell);
    for (int i = 0; i < e->n_running; i++) {
        betoken_stream *s = f->order[i] = &f->seqs[i];
        s->engine = e;
        s->seq_idx = i;
        s->n_prompt = 1 + (int)(bt_rng_next(seed) % 50);
        s->n_tok_max = s->n_prompt + 1 + (int)(bt_rng_next(seed) % 50);
        bool decode = bt_rng_next(seed) % 2 == 0;
        s->state = decode ? BT_SEQ_DECODE : BT_SEQ_PREFILL;
        int n_new = s->n_tok_max - s->n_prompt;
        s->n_tok =
            s->n_prompt + (decode && n_new > 1 ? (int)(bt_rng_next(seed) % (uint64_t)n_new) : 0);
        s->n_computed = decode ? s->n_tok - 1 : (int)(bt_rng_next(seed) % (uint64_t)s->n_prompt);
        assert_true(bt_ring_init(&s->events, BT_MEM_ENGINE, RING, sizeof(betoken_event)));
        fill_ring(s, bt_rng_next(seed) % 3 == 0 ? bt_rng_next(seed) % RING : 0);
    }
}

static const bt_plan_item *item_of(const fixture *f, const betoken_stream *s)
{
    const bt_plan_item *found = NULL;
    for (int i = 0; i < f->plan.n_items; i++) {
        if (f->items[i].seq == s) {
            assert_null(found); /* at most once */
            found = &f->items[i];
        }
    }
    return found;
}

static void check_decode(const fixture *f, const betoken_stream *s, const bt_plan_item *item)
{
    const betoken_engine *e = &f->e;
    if (item == NULL) {
        assert_true(atomic_load(&s->paused));
        assert_false(bt_stream_has_space(e, s, 1 + e->policy.n_max));
        return;
    }
    assert_true(item->decode && item->samples);
    assert_int_equal(item->n_rows, 1 + item->n_draft);
    assert_in_range(item->n_draft, 0, e->policy.n_max);
    assert_true(e->proposer != NULL || item->n_draft == 0);
    assert_true(item->n_draft < s->n_tok_max - s->n_tok);
    assert_true(item->n_draft == 0 || item->n_draft <= fake_room - s->n_tok);
    assert_true(bt_stream_has_space(e, s, 1 + item->n_draft));
}

static int check_prefill(const fixture *f, const betoken_stream *s, const bt_plan_item *item)
{
    int left = s->n_prompt - s->n_computed;
    if (item == NULL) {
        return 1;
    }
    assert_false(item->decode);
    assert_in_range(item->n_rows, 1, left);
    assert_int_equal(item->samples, item->n_rows == left);
    assert_int_equal(item->n_draft, 0);
    assert_true(!item->samples || bt_stream_has_space(&f->e, s, 1));
    return 0;
}

static void random_states(void **state)
{
    (void)state;
    static fixture f;
    uint64_t seed = 20;
    for (int round = 0; round < 3000; round++) {
        make_state(&f, &seed);
        bt_plan_make(&f.e, &f.plan);
        int n_rows = 0, n_left_out = 0, n_cut = 0, n_served = 0;
        for (int i = 0; i < f.plan.n_items; i++) {
            n_rows += f.items[i].n_rows;
            assert_int_equal(f.items[i].range, -1);
            assert_true(i == 0 || f.items[i - 1].decode || !f.items[i].decode); /* decodes first */
        }
        assert_int_equal(n_rows, f.plan.n_rows);
        assert_true(n_rows <= f.e.opt.max_num_batched_tokens);
        for (int i = 0; i < f.e.n_running; i++) {
            const betoken_stream *s = f.order[i];
            const bt_plan_item *item = item_of(&f, s);
            if (s->state == BT_SEQ_DECODE) {
                check_decode(&f, s, item);
            } else {
                n_left_out += check_prefill(&f, s, item) && !atomic_load(&s->paused);
                n_cut += item != NULL && !item->samples;
                n_served += item != NULL;
            }
        }
        /* A prompt waits, or is cut, only when the pass is full; one at most is cut. */
        assert_true(n_cut <= 1);
        assert_true((n_left_out == 0 && n_cut == 0) || n_rows == f.e.opt.max_num_batched_tokens);
        /* Candidates never starve prompts. */
        assert_true(n_left_out == 0 || n_served > 0);
        for (int i = 0; i < f.e.n_running; i++) {
            bt_ring_deinit(&f.seqs[i].events);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_states)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
