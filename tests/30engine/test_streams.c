/* SPDX-License-Identifier: MIT
 *
 * Goal: a stream ends in every way that it may, and takes nothing with it: cancelled while it waits,
 * prefills or decodes; never read; refused when the queue is full or the engine drains; ended by the
 * engine's close. Method: one engine a test through betoken.h; the counters must show that all places
 * and cache blocks are free again, and neighbours must give the answer that they give alone. */
#include "harness.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const int32_t prompt[] = {40, 41, 42, 43, 44};
enum { N_PROMPT = 5 };

static betoken_engine *open_random(int max_num_seqs, int max_queued)
{
    betoken_options o = options_for("llama-f32", "llama-small", 3);
    o.max_num_seqs = max_num_seqs;
    o.max_queued_requests = max_queued;
    return open_engine(&o);
}

/* One that is never read: it stops when its ring is full, and keeps its place. */
static betoken_stream *submit_stalled(betoken_engine *e)
{
    betoken_request r = request_for(prompt, N_PROMPT, 450);
    betoken_stream *s = submit(e, &r);
    betoken_stats stats;
    wait_stats(e, n_running_is, 1, &stats);
    return s;
}

static void cancelled_while_waiting(void **state)
{
    (void)state;
    betoken_engine *e = open_random(1, 4);
    betoken_stats stats;
    betoken_stream *a = submit_stalled(e);
    betoken_request r = request_for(prompt, N_PROMPT, 10);
    betoken_stream *b = submit(e, &r), *c = submit(e, &r);
    wait_stats(e, n_waiting_is, 2, &stats);
    betoken_stream_close(b);
    wait_stats(e, n_waiting_is, 1, &stats);
    assert_int_equal(stats.running, 1);
    assert_int_equal(stats.finished_abort, 1);
    betoken_stream_close(a);
    answer got = {0};
    take_all(c, &got); /* the place that became free is used */
    assert_int_equal(got.n_tokens, 10);
    betoken_stream_close(c);
    wait_stats(e, is_idle, 0, &stats);
    assert_int_equal(stats.finished_abort, 2);
    assert_int_equal(stats.finished_length, 1);
    betoken_engine_close(e);
}

static void cancelled_while_prefilling(void **state)
{
    (void)state;
    betoken_options o = options_for("llama-f32", "llama-small", 3);
    o.max_num_batched_tokens = 8; /* 50 steps a prompt */
    betoken_engine *e = open_engine(&o);
    betoken_stats stats;
    int32_t ids[400];
    for (int i = 0; i < 400; i++) {
        ids[i] = 40 + i % 300;
    }
    for (int i = 0; i < 30; i++) {
        betoken_request r = request_for(ids, 400, 50);
        betoken_stream *s = submit(e, &r);
        sleep_us(i * 100);
        betoken_stream_close(s);
    }
    wait_stats(e, is_idle, 0, &stats);
    assert_int_equal(stats.finished_abort + stats.finished_length, 30);
    assert_true(stats.finished_abort > 0);
    betoken_engine_close(e);
}

static void cancelled_while_decoding(void **state)
{
    (void)state;
    betoken_engine *e = open_random(4, 4);
    betoken_stats stats;
    betoken_request r = request_for(prompt, N_PROMPT, 450);
    for (int i = 0; i < 20; i++) {
        answer got = {0};
        betoken_stream *s = submit(e, &r);
        while (got.n_tokens <= i) {
            assert_true(betoken_stream_wait(s, -1));
            take_some(s, &got);
        }
        betoken_stream_close(s);
    }
    wait_stats(e, is_idle, 0, &stats);
    assert_int_equal(stats.finished_abort + stats.finished_length, 20);
    betoken_engine_close(e);
}

/* Others go on, nothing is lost, and the stream that was not read resumes where it stopped. */
static void a_consumer_that_does_not_read(void **state)
{
    (void)state;
    betoken_engine *e = open_random(4, 8);
    betoken_stats stats;
    betoken_request r = request_for(prompt, N_PROMPT, 450);
    answer want, got = {0};
    ask(e, &r, &want);
    assert_int_equal(want.n_tokens, 450);
    betoken_stream *lazy = submit_stalled(e);
    betoken_request other = request_for(prompt, 3, 60);
    answer first, second;
    ask(e, &other, &first);
    for (int i = 0; i < 8; i++) {
        ask(e, &other, &second);
        assert_int_equal(second.n_tokens, 60);
        assert_memory_equal(first.token, second.token, 60 * sizeof *first.token);
    }
    betoken_engine_stats(e, &stats);
    assert_int_equal(stats.running, 1);
    assert_true(stats.generation_tokens < 450 * 2 + 60 * 9); /* it has been held back */
    take_all(lazy, &got);
    betoken_stream_close(lazy);
    assert_int_equal(got.n_tokens, 450);
    assert_memory_equal(want.token, got.token, 450 * sizeof *want.token);
    assert_string_equal(want.text, got.text);
    wait_stats(e, is_idle, 0, &stats);
    assert_int_equal(stats.generation_tokens, 450 * 2 + 60 * 9);
    betoken_engine_close(e);
}

/* The queue's limit counts what runs and waits; a place that becomes free is given out again. */
static void busy_at_the_limit(void **state)
{
    (void)state;
    betoken_engine *e = open_random(1, 2);
    betoken_stats stats;
    betoken_stream *running = submit_stalled(e);
    betoken_request r = request_for(prompt, N_PROMPT, 10);
    betoken_stream *b = submit(e, &r), *c = submit(e, &r), *d = NULL;
    betoken_error error = {0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(betoken_submit(e, &r, NULL, NULL, &d, &error), BETOKEN_BUSY);
        assert_null(d);
        assert_true(error.message[0] != '\0');
    }
    betoken_stream_close(b);
    betoken_code code = BETOKEN_BUSY;
    for (int i = 0; i < 10000 && code == BETOKEN_BUSY; i++) {
        code = betoken_submit(e, &r, NULL, NULL, &d, &error);
        sleep_us(1000);
    }
    assert_int_equal(code, BETOKEN_OK);
    betoken_stream_close(running);
    answer got_c = {0}, got_d = {0};
    take_all(c, &got_c);
    take_all(d, &got_d);
    assert_memory_equal(got_c.token, got_d.token, 10 * sizeof *got_c.token);
    betoken_stream_close(c);
    betoken_stream_close(d);
    wait_stats(e, is_idle, 0, &stats);
    betoken_engine_close(e);
}

static void draining(void **state)
{
    (void)state;
    betoken_engine *e = open_random(2, 4);
    betoken_request r = request_for(prompt, N_PROMPT, 40);
    betoken_stream *s = submit(e, &r), *none = NULL;
    betoken_error error = {0};
    betoken_engine_drain(e);
    assert_int_equal(betoken_submit(e, &r, NULL, NULL, &none, &error), BETOKEN_STOPPING);
    answer got = {0};
    take_all(s, &got);
    assert_int_equal(got.last.type, BETOKEN_EVENT_DONE);
    assert_int_equal(got.n_tokens, 40);
    betoken_stream_close(s);
    betoken_engine_close(e);
}

/* Running, stalled and waiting ones each get the error; streams outlive the engine. */
static void closing_with_requests(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        betoken_engine *e = open_random(2, 8);
        betoken_request r = request_for(prompt, N_PROMPT, 450);
        betoken_stream *s[6];
        for (int i = 0; i < 6; i++) {
            s[i] = submit(e, &r);
        }
        sleep_us(round * 1000);
        betoken_engine_close(e);
        int n_failed = 0;
        for (int i = 0; i < 6; i++) {
            answer got = {0};
            take_all(s[i], &got);
            bool failed = got.last.type == BETOKEN_EVENT_ERROR;
            if (failed) {
                assert_int_equal(got.last.u.error.code, BETOKEN_STOPPING);
                n_failed++;
            }
            assert_true(failed || got.n_tokens == 450);
            size_t n;
            assert_int_equal(betoken_stream_prompt(s[i], &n)[0], prompt[0]);
            assert_int_equal(n, N_PROMPT);
            betoken_stream_close(s[i]);
        }
        assert_true(n_failed >= 4);
    }
}

static void count_wake(void *ctx)
{
    atomic_fetch_add(*(_Atomic int **)ctx, 1);
}

/* The context of a wake function may be freed as soon as close has returned. */
static void no_wake_after_close(void **state)
{
    (void)state;
    betoken_engine *e = open_random(4, 100);
    betoken_stats stats;
    _Atomic int n_wakes = 0;
    for (int i = 0; i < 100; i++) {
        _Atomic int **ctx = malloc(sizeof *ctx);
        betoken_request r = request_for(prompt, N_PROMPT, 100);
        betoken_stream *s = NULL;
        assert_non_null(ctx);
        *ctx = &n_wakes;
        /* A closed stream keeps its place in the queue until the engine's next step has seen it. */
        betoken_code code = BETOKEN_BUSY;
        for (int tries = 0; code == BETOKEN_BUSY && tries < 10000; tries++) {
            code = betoken_submit(e, &r, count_wake, ctx, &s, NULL);
            if (code == BETOKEN_BUSY) {
                sleep_us(1000);
            }
        }
        assert_int_equal(code, BETOKEN_OK);
        sleep_us(i * 20);
        betoken_stream_close(s);
        *ctx = NULL;
        free(ctx);
    }
    wait_stats(e, is_idle, 0, &stats);
    assert_true(atomic_load(&n_wakes) > 0);
    betoken_engine_close(e);
}

/* Cases 13 and 14: without max_tokens the context's last place is the limit, drafts or not. */
static void up_to_the_end_of_the_context(void **state)
{
    (void)state;
    int32_t ids[66];
    for (int i = 0; i < 66; i++) {
        ids[i] = 40 + i;
    }
    answer plain[64], got;
    for (int k = 0; k <= 8; k += 4) {
        betoken_options o = options_for("llama-f32", "llama-f32", k);
        o.max_model_len = 64;
        betoken_engine *e = open_engine(&o);
        for (size_t n = 58; n <= 65; n++) {
            betoken_request r = request_for(ids, n, -1);
            betoken_stream *s = NULL;
            betoken_error error = {0};
            if (n >= 64) {
                assert_int_equal(betoken_submit(e, &r, NULL, NULL, &s, &error), BETOKEN_TOO_LONG);
                assert_non_null(strstr(error.message, "64"));
                assert_non_null(strstr(error.message, n == 64 ? "64 and" : "65 and"));
                assert_string_equal(error.param, "prompt");
                continue;
            }
            ask(e, &r, &got);
            assert_int_equal(got.n_tokens, 64 - n);
            assert_int_equal(got.last.type, BETOKEN_EVENT_DONE);
            assert_int_equal(got.last.finish, BETOKEN_FINISH_LENGTH);
            if (k == 0) {
                plain[n] = got;
            }
            assert_memory_equal(plain[n].token, got.token, (64 - n) * sizeof *got.token);
        }
        betoken_engine_close(e);
    }
}

/* Case 34, as events: no event holds a part of a stop string, and none is late without need. */
static void stop_text_is_held_back(void **state)
{
    (void)state;
    betoken_options o = options_for("chain", "chain", 4);
    betoken_engine *e = open_engine(&o);
    const betoken_text stops[] = {{"lo w", 4}, {"never", 5}};
    betoken_request r = request_for(prompt, N_PROMPT, 20);
    r.stop = stops;
    r.n_stop = 2;
    betoken_stream *s = submit(e, &r);
    betoken_event event;
    size_t n_text = 0;
    int n_tokens = 0;
    while (betoken_stream_wait(s, -1) && betoken_stream_next(s, &event) &&
           event.type != BETOKEN_EVENT_DONE) {
        bool text = event.type == BETOKEN_EVENT_TOKEN || event.type == BETOKEN_EVENT_TEXT;
        n_tokens += event.type == BETOKEN_EVENT_TOKEN;
        n_text += text ? (size_t)event.n : 0;
        if (n_tokens == 1) {
            assert_int_equal(n_text, 2); /* of "hel" only the l may begin "lo w" */
        }
    }
    assert_int_equal(event.type, BETOKEN_EVENT_DONE);
    assert_int_equal(event.finish, BETOKEN_FINISH_STOP);
    assert_int_equal(event.stop_idx, 0);
    assert_int_equal(event.stop_token, -1);
    assert_int_equal(n_tokens, 3);
    assert_int_equal(n_text, 3);
    betoken_stream_close(s);
    betoken_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancelled_while_waiting),
        cmocka_unit_test(cancelled_while_prefilling),
        cmocka_unit_test(cancelled_while_decoding),
        cmocka_unit_test(a_consumer_that_does_not_read),
        cmocka_unit_test(busy_at_the_limit),
        cmocka_unit_test(draining),
        cmocka_unit_test(closing_with_requests),
        cmocka_unit_test(no_wake_after_close),
        cmocka_unit_test(up_to_the_end_of_the_context),
        cmocka_unit_test(stop_text_is_held_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
