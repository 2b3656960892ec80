/* SPDX-License-Identifier: MIT
 *
 * Goal: many clients at once, some of which leave, change nothing for the others. Method: four
 * threads submit 200 random requests with random cancels; whatever a stream has given before it ended
 * must be the beginning of the answer that the same request gets alone. Meant for the sanitizers. */
#include "harness.h"

#include "base/rng.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { N_KINDS = 12, N_THREADS = 4, N_EACH = 50, TOKENS_MAX = 80 };

typedef struct kind {
    int32_t ids[64];
    betoken_request request;
    answer want;
} kind;

typedef struct client {
    betoken_engine *e;
    const kind *kinds;
    uint64_t seed;
    int n_whole, n_left, n_busy, n_wrong;
} client;

static void make_kind(kind *k, uint64_t *seed)
{
    size_t n = 1 + bt_rng_next(seed) % 64;
    for (size_t i = 0; i < n; i++) {
        k->ids[i] = (int32_t)(3 + bt_rng_next(seed) % 400);
    }
    k->request = request_for(k->ids, n, (int64_t)(1 + bt_rng_next(seed) % TOKENS_MAX));
    k->request.ignore_eos = bt_rng_next(seed) % 2 == 0;
    k->request.temperature = bt_rng_next(seed) % 3 == 0 ? 0 : 0.9;
    k->request.seed_given = true;
    k->request.seed = bt_rng_next(seed);
    k->request.return_drafts = bt_rng_next(seed) % 2 == 0;
    k->request.logprobs = (int)(bt_rng_next(seed) % 4) - 1;
}

/* cmocka's assertions belong to the main thread, so these count. */
static void one_request(client *c)
{
    const kind *k = &c->kinds[bt_rng_next(&c->seed) % N_KINDS];
    uint64_t dice = bt_rng_next(&c->seed);
    int leave_after = dice % 3 == 0 ? (int)(dice / 3 % TOKENS_MAX) : TOKENS_MAX;
    betoken_stream *s = NULL;
    betoken_event event;
    int n = 0;
    bool done = false;
    if (betoken_submit(c->e, &k->request, NULL, NULL, &s, NULL) != BETOKEN_OK) {
        c->n_busy++;
        return;
    }
    while (n < leave_after && !done && betoken_stream_wait(s, -1)) {
        while (betoken_stream_next(s, &event)) {
            if (event.type == BETOKEN_EVENT_TOKEN) {
                c->n_wrong += n >= k->want.n_tokens || event.token != k->want.token[n];
                n++;
            } else if (event.type == BETOKEN_EVENT_DONE) {
                c->n_wrong += n != k->want.n_tokens || event.finish != k->want.last.finish;
                done = true;
            } else if (event.type == BETOKEN_EVENT_ERROR) {
                c->n_wrong++;
                done = true;
            }
        }
        if (dice % 7 == 0) {
            sleep_us(300); /* a slow reader */
        }
    }
    betoken_stream_close(s);
    c->n_whole += done;
    c->n_left += !done;
}

static void *client_main(void *arg)
{
    client *c = arg;
    for (int i = 0; i < N_EACH; i++) {
        one_request(c);
    }
    return NULL;
}

static void run_crowd(const betoken_options *o, uint64_t seed)
{
    betoken_engine *e = open_engine(o);
    kind *kinds = calloc(N_KINDS, sizeof *kinds);
    client clients[N_THREADS];
    pthread_t threads[N_THREADS];
    betoken_stats stats;
    assert_non_null(kinds);
    for (int i = 0; i < N_KINDS; i++) {
        make_kind(&kinds[i], &seed);
        ask(e, &kinds[i].request, &kinds[i].want);
        assert_int_equal(kinds[i].want.last.type, BETOKEN_EVENT_DONE);
    }
    for (int i = 0; i < N_THREADS; i++) {
        clients[i] = (client){.e = e, .kinds = kinds, .seed = bt_rng_next(&seed)};
        assert_int_equal(pthread_create(&threads[i], NULL, client_main, &clients[i]), 0);
    }
    int n_whole = 0, n_left = 0, n_busy = 0;
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(clients[i].n_wrong, 0);
        n_whole += clients[i].n_whole;
        n_left += clients[i].n_left;
        n_busy += clients[i].n_busy;
    }
    assert_int_equal(n_whole + n_left + n_busy, N_THREADS * N_EACH);
    assert_true(n_whole > 0 && n_left > 0);
    wait_stats(e, is_idle, 0, &stats);
    assert_int_equal(stats.finished_stop + stats.finished_length + stats.finished_abort,
                     N_KINDS + n_whole + n_left);
    assert_int_equal(stats.finished_error, 0);
    assert_int_equal(stats.accepted_tokens > stats.draft_tokens, 0);
    betoken_engine_close(e);
    free(kinds);
}

static void crowd_with_drafts(void **state)
{
    (void)state;
    betoken_options o = options_for("llama-f32", "llama-small", 4);
    o.max_num_seqs = 6;
    run_crowd(&o, 1);
}

/* Few blocks, few rows, a short queue: admission waits, prompts come in chunks, some are refused. */
static void crowd_in_a_small_engine(void **state)
{
    (void)state;
    betoken_options o = options_for("llama-bf16", "llama-small", 3);
    o.max_num_seqs = 3;
    o.max_num_batched_tokens = 7;
    o.max_queued_requests = 0;
    o.max_model_len = 160;
    run_crowd(&o, 2);
}

/* A cache of about twelve blocks under eight places: it, not the places, decides who runs. */
static void crowd_on_a_small_cache(void **state)
{
    (void)state;
    betoken_options o = options_for("llama-f32", "llama-short", 4);
    o.kv_cache_memory = 12 * 2 * 12288;
    o.max_model_len = 160;
    run_crowd(&o, 4);
}

static void crowd_with_rejection(void **state)
{
    (void)state;
    betoken_options o = options_for("llama-f32", "llama-small", 4);
    o.acceptance = BETOKEN_ACCEPT_REJECTION;
    run_crowd(&o, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crowd_with_drafts),
        cmocka_unit_test(crowd_in_a_small_engine),
        cmocka_unit_test(crowd_on_a_small_cache),
        cmocka_unit_test(crowd_with_rejection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
