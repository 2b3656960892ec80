/* SPDX-License-Identifier: MIT
 *
 * Goal: counters, usage and log-probabilities say what happened. Method: a scripted model whose draft
 * is right on two of four places, so that every number can be computed by hand (case 83); sums and
 * orders that log-probabilities must obey, with and without drafts. */
#include "harness.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* Ends in c, so the answer is a b c a b c …: one token from the prompt's pass, then steps that begin
 * after an `a`, keep b and c of the draft's b c z a, and add the target's own a. */
static const int32_t loop_prompt[] = {'x', 'c'};
enum { N_REQUESTS = 10, N_TOKENS = 30, K = 4 };

/* Of 29 tokens after the first: 9 steps of 3, then one with room for a single candidate. */
enum { FULL_STEPS = 9, DRAFTED = FULL_STEPS * K + 1, ACCEPTED = FULL_STEPS * 2 + 1 };

static void hand_computed_numbers(void **state)
{
    (void)state;
    betoken_options o = options_for("loop", "loop-draft", K);
    o.max_num_seqs = 4;
    betoken_engine *e = open_engine(&o);
    betoken_request r = request_for(loop_prompt, 2, N_TOKENS);
    betoken_stream *s[N_REQUESTS];
    betoken_stats stats;
    for (int i = 0; i < N_REQUESTS; i++) {
        s[i] = submit(e, &r);
    }
    for (int i = 0; i < N_REQUESTS; i++) {
        answer got = {0};
        take_all(s[i], &got);
        betoken_stream_close(s[i]);
        assert_string_equal(got.text, "abcabcabcabcabcabcabcabcabcabc");
        assert_int_equal(got.last.usage.prompt_tokens, 2);
        assert_int_equal(got.last.usage.completion_tokens, N_TOKENS);
        assert_int_equal(got.last.usage.drafted, DRAFTED);
        assert_int_equal(got.last.usage.accepted, ACCEPTED);
        assert_int_equal(got.last.usage.steps, 1 + FULL_STEPS + 1);
    }
    wait_stats(e, is_idle, 0, &stats);
    assert_int_equal(stats.prompt_tokens, N_REQUESTS * 2);
    assert_int_equal(stats.generation_tokens, N_REQUESTS * N_TOKENS);
    assert_int_equal(stats.drafts, N_REQUESTS * (FULL_STEPS + 1));
    assert_int_equal(stats.draft_tokens, N_REQUESTS * DRAFTED);
    assert_int_equal(stats.accepted_tokens, N_REQUESTS * ACCEPTED);
    assert_int_equal(stats.accepted_discarded, 0);
    assert_int_equal(stats.accepted_per_pos[0], N_REQUESTS * (FULL_STEPS + 1));
    assert_int_equal(stats.accepted_per_pos[1], N_REQUESTS * FULL_STEPS);
    for (int i = 2; i < BETOKEN_SPEC_TOKENS_MAX; i++) {
        assert_int_equal(stats.accepted_per_pos[i], 0);
    }
    assert_int_equal(stats.finished_length, N_REQUESTS);
    assert_int_equal(stats.finished_stop + stats.finished_abort + stats.finished_error, 0);
    assert_int_equal(stats.e2e_s.n, N_REQUESTS);
    assert_int_equal(stats.time_to_first_token_s.n, N_REQUESTS);
    assert_int_equal(stats.inter_token_s.n, N_REQUESTS * (N_TOKENS - 1));
    assert_int_equal(stats.generation_length.n, N_REQUESTS);
    assert_true(fabs(stats.generation_length.sum - N_REQUESTS * N_TOKENS) < 1e-9);
    betoken_engine_close(e);
}

/* What a stop cuts off had been verified, but is neither accepted nor generated. */
static void cut_by_a_stop(void **state)
{
    (void)state;
    betoken_options o = options_for("loop", "loop-draft", K);
    betoken_engine *e = open_engine(&o);
    const betoken_text stop = {"b", 1};
    betoken_request r = request_for(loop_prompt, 2, N_TOKENS);
    r.stop = &stop;
    r.n_stop = 1;
    answer got;
    betoken_stats stats;
    ask(e, &r, &got);
    assert_string_equal(got.text, "a");
    assert_int_equal(got.last.finish, BETOKEN_FINISH_STOP);
    assert_int_equal(got.n_tokens, 2);
    assert_int_equal(got.last.usage.drafted, K);
    assert_int_equal(got.last.usage.accepted, 1);
    wait_stats(e, is_idle, 0, &stats);
    assert_int_equal(stats.generation_tokens, 2);
    assert_int_equal(stats.accepted_tokens, 1);
    assert_int_equal(stats.accepted_discarded, 1); /* c */
    assert_int_equal(stats.finished_stop, 1);
    betoken_engine_close(e);
}

typedef struct scrape {
    betoken_engine *e;
    _Atomic bool stop;
    int n_read, n_fallen;
} scrape;

static uint64_t total(const betoken_stats *s)
{
    return s->prompt_tokens + s->generation_tokens + s->finished_length + s->drafts +
           s->draft_tokens + s->accepted_tokens + s->steps + s->e2e_s.n;
}

static void *scrape_main(void *arg)
{
    scrape *c = arg;
    betoken_stats last = {0}, now;
    while (!atomic_load(&c->stop) || c->n_read < 1000) {
        betoken_engine_stats(c->e, &now);
        c->n_fallen += total(&now) < total(&last) ||
                       now.generation_tokens < last.generation_tokens ||
                       now.accepted_tokens > now.draft_tokens ||
                       now.draft_tokens < last.draft_tokens || now.running < 0 || now.waiting < 0;
        last = now;
        c->n_read++;
        if (c->n_read % 64 == 0) {
            sleep_us(200);
        }
    }
    return NULL;
}

static void counters_never_fall(void **state)
{
    (void)state;
    betoken_options o = options_for("loop", "loop-draft", K);
    o.max_num_seqs = 4;
    scrape c = {.e = open_engine(&o)};
    pthread_t thread;
    betoken_stats stats;
    assert_int_equal(pthread_create(&thread, NULL, scrape_main, &c), 0);
    for (int i = 0; i < 20; i++) {
        betoken_request r = request_for(loop_prompt, 2, 100);
        betoken_stream *a = submit(c.e, &r), *b = submit(c.e, &r);
        answer got = {0};
        take_all(a, &got);
        betoken_stream_close(a);
        betoken_stream_close(b); /* ended or cancelled */
    }
    atomic_store(&c.stop, true);
    pthread_join(thread, NULL);
    wait_stats(c.e, is_idle, 0, &stats);
    assert_true(c.n_read >= 1000);
    assert_int_equal(c.n_fallen, 0);
    assert_int_equal(stats.finished_length + stats.finished_abort, 40);
    betoken_engine_close(c.e);
}

/* All log-probabilities of a place: sorted, summing to 1, the chosen token among them. */
static void check_tops(const betoken_event *event, int n_vocab)
{
    double sum = 0, of_token = NAN;
    assert_int_equal(event->n_top, n_vocab);
    for (int i = 0; i < event->n_top; i++) {
        assert_true(isfinite(event->top[i].logprob) && event->top[i].logprob <= 1e-12);
        assert_true(i == 0 || event->top[i].logprob <= event->top[i - 1].logprob);
        sum += exp(event->top[i].logprob);
        if (event->top[i].token == event->token) {
            of_token = event->top[i].logprob;
        }
    }
    assert_true(fabs(sum - 1) < 1e-9);
    assert_true(fabs(of_token - event->logprob) < 1e-12);
}

static int collect(betoken_engine *e, const betoken_request *r, int n_vocab, double *logprobs)
{
    betoken_stream *s = submit(e, r);
    betoken_event event;
    int n = 0;
    while (betoken_stream_wait(s, -1) && betoken_stream_next(s, &event)) {
        if (event.type == BETOKEN_EVENT_TOKEN) {
            check_tops(&event, n_vocab);
            if (r->temperature <= 0) {
                assert_int_equal(event.top[0].token, event.token);
            }
            logprobs[n++] = event.logprob;
        }
    }
    betoken_stream_close(s);
    return n;
}

static void logprob_rules(void **state)
{
    (void)state;
    double plain[2][40], got[40];
    for (int k = 0; k <= 4; k += 4) {
        betoken_options o = options_for("llama-f32", "llama-small", k);
        o.max_logprobs = -1;
        betoken_engine *e = open_engine(&o);
        betoken_info info;
        betoken_engine_info(e, &info);
        for (int t = 0; t < 2; t++) {
            betoken_request r = request_for(loop_prompt, 2, 40);
            r.logprobs = info.vocab_size;
            r.temperature = t;
            r.seed_given = true;
            int n = collect(e, &r, info.vocab_size, k == 0 ? plain[t] : got);
            assert_int_equal(n, 40);
            if (k > 0) {
                assert_memory_equal(plain[t], got, sizeof got);
            }
        }
        betoken_engine_close(e);
    }
}

static void logprobs_are_capped(void **state)
{
    (void)state;
    betoken_options o = options_for("loop", NULL, 0);
    o.max_logprobs = 3;
    betoken_engine *e = open_engine(&o);
    betoken_request r = request_for(loop_prompt, 2, 2);
    betoken_stream *s = NULL;
    betoken_error error = {0};
    r.logprobs = 4;
    assert_int_equal(betoken_submit(e, &r, NULL, NULL, &s, &error), BETOKEN_INVALID);
    assert_string_equal(error.param, "logprobs");
    answer got;
    r.logprobs = 0;
    ask(e, &r, &got);
    assert_true(got.logprob[0] < 0 && got.logprob[0] > -0.01);
    betoken_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hand_computed_numbers), cmocka_unit_test(cut_by_a_stop),
        cmocka_unit_test(counters_never_fall),   cmocka_unit_test(logprob_rules),
        cmocka_unit_test(logprobs_are_capped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
