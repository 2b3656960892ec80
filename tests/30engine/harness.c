/* SPDX-License-Identifier: MIT */
#include "harness.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static const int64_t second_ns = 1000000000;

const char *fixture(const char *name)
{
    static char paths[4][1024];
    static int next;
    const char *folder = getenv("BT_FIXTURES");
    char *path = paths[next++ % 4];
    struct stat st;
    if (folder == NULL) {
        folder = getenv("BT_FIXTURES_DEFAULT");
    }
    snprintf(path, sizeof paths[0], "%s/%s", folder != NULL ? folder : ".", name);
    if (stat(path, &st) != 0) {
        print_message("skipped: no test checkpoint %s (make test makes them; see BT_FIXTURES)\n",
                      path);
        skip();
    }
    return path;
}

betoken_options options_for(const char *model, const char *draft, int n_draft)
{
    betoken_options o;
    bt_log_set_level(BT_LOG_WARN);
    betoken_options_init(&o);
    o.model = fixture(model);
    o.speculative_model = draft == NULL ? NULL : fixture(draft);
    o.num_speculative_tokens = n_draft;
    o.threads = 2;
    o.max_num_seqs = 8;
    return o;
}

betoken_engine *open_engine(const betoken_options *options)
{
    betoken_engine *e = NULL;
    betoken_error error = {0};
    if (betoken_engine_open(options, &e, &error) != BETOKEN_OK) {
        fail_msg("%s", error.message);
    }
    return e;
}

betoken_request request_for(const int32_t *ids, size_t n, int64_t max_tokens)
{
    betoken_request r;
    betoken_request_init(&r);
    r.prompt_token_ids = ids;
    r.n_prompt_token_ids = n;
    r.max_tokens = max_tokens;
    r.temperature = 0;
    r.ignore_eos = true;
    return r;
}

betoken_stream *submit(betoken_engine *e, const betoken_request *request)
{
    betoken_stream *s = NULL;
    betoken_error error = {0};
    if (betoken_submit(e, request, NULL, NULL, &s, &error) != BETOKEN_OK) {
        fail_msg("%s", error.message);
    }
    return s;
}

static void take_event(const betoken_event *e, answer *a)
{
    assert_false(a->ended);
    switch (e->type) {
    case BETOKEN_EVENT_STARTED:
        assert_int_equal(a->n_started++, 0);
        assert_int_equal(a->n_tokens, 0);
        return;
    case BETOKEN_EVENT_DRAFTS:
        assert_true(e->n >= 0 && e->n <= BETOKEN_SPEC_TOKENS_MAX);
        return;
    case BETOKEN_EVENT_TOKEN:
        assert_int_equal(a->n_started, 1);
        assert_true(a->n_tokens < ANSWER_MAX);
        a->logprob[a->n_tokens] = e->logprob;
        a->token[a->n_tokens++] = e->token;
        break;
    case BETOKEN_EVENT_TEXT:
        assert_true(a->n_tokens > 0);
        break;
    case BETOKEN_EVENT_DONE:
    case BETOKEN_EVENT_ERROR:
        a->ended = true;
        a->last = *e;
        assert_int_equal(e->usage.completion_tokens, a->n_tokens);
        return;
    }
    assert_true(e->n >= 0 && e->n <= BETOKEN_EVENT_TEXT_MAX);
    assert_true(a->n_text + (size_t)e->n < sizeof a->text);
    memcpy(a->text + a->n_text, e->u.text, (size_t)e->n);
    a->n_text += (size_t)e->n;
    a->text[a->n_text] = '\0';
}

bool take_some(betoken_stream *s, answer *a)
{
    betoken_event event;
    bool any = false;
    while (betoken_stream_next(s, &event)) {
        take_event(&event, a);
        any = true;
    }
    return any;
}

void take_all(betoken_stream *s, answer *a)
{
    while (!a->ended) {
        if (!betoken_stream_wait(s, 60 * second_ns)) {
            fail_msg("no event within a minute, after %d tokens", a->n_tokens);
        }
        take_some(s, a);
    }
    betoken_event event;
    assert_false(betoken_stream_wait(s, -1)); /* the last event has been taken */
    assert_false(betoken_stream_next(s, &event));
}

void ask(betoken_engine *e, const betoken_request *request, answer *a)
{
    memset(a, 0, sizeof *a);
    betoken_stream *s = submit(e, request);
    take_all(s, a);
    betoken_stream_close(s);
}

void sleep_us(int64_t us)
{
    struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    nanosleep(&t, NULL);
}

void wait_stats(betoken_engine *e, stats_test *test, int64_t value, betoken_stats *stats)
{
    for (int i = 0; i < 20000; i++) {
        betoken_engine_stats(e, stats);
        if (test(stats, value)) {
            return;
        }
        sleep_us(1000);
    }
    fail_msg("running=%d waiting=%d kv_usage=%g generated=%llu, but %lld was expected",
             stats->running, stats->waiting, stats->kv_usage,
             (unsigned long long)stats->generation_tokens, (long long)value);
}

bool is_idle(const betoken_stats *s, int64_t unused)
{
    (void)unused;
    return s->running == 0 && s->waiting == 0 && s->kv_usage < 1e-12;
}

bool n_running_is(const betoken_stats *s, int64_t n)
{
    return s->running == n;
}

bool n_waiting_is(const betoken_stats *s, int64_t n)
{
    return s->waiting == n;
}

bool n_generated_reaches(const betoken_stats *s, int64_t n)
{
    return (int64_t)s->generation_tokens >= n;
}
