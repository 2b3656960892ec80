/* SPDX-License-Identifier: MIT
 *
 * harness.h: engines on test checkpoints, for the tests of this folder. The checkpoints are those of
 * tests/fixtures/make_models.py, in the folder that BT_FIXTURES names (tools/run-tests makes them);
 * without them a test skips. Failures stop the test through cmocka. */
#ifndef BT_TEST_HARNESS_H
#define BT_TEST_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "betoken.h"

enum { ANSWER_MAX = 2048, ANSWER_TEXT_MAX = 16384 };

/* All events of one stream, put together. */
typedef struct answer {
    int32_t token[ANSWER_MAX];
    double logprob[ANSWER_MAX];
    char text[ANSWER_TEXT_MAX]; /* NUL-terminated */
    int n_tokens, n_started;
    size_t n_text;
    bool ended;
    betoken_event last; /* DONE or ERROR */
} answer;

/* Path of a checkpoint; skips the test when it is not there. Static memory, four at a time. */
const char *fixture(const char *name);
/* Defaults for tests: two threads, warnings only in the log. draft may be NULL. */
betoken_options options_for(const char *model, const char *draft, int n_draft);
betoken_engine *open_engine(const betoken_options *options);

/* A greedy request for ids that ignores end tokens. */
betoken_request request_for(const int32_t *ids, size_t n, int64_t max_tokens);
betoken_stream *submit(betoken_engine *e, const betoken_request *request);

/* Adds the events that are there now; true when there was one. */
bool take_some(betoken_stream *s, answer *a);
/* Reads to the last event, which must come within a minute. */
void take_all(betoken_stream *s, answer *a);
/* submit, take_all, close. */
void ask(betoken_engine *e, const betoken_request *request, answer *a);

typedef bool stats_test(const betoken_stats *stats, int64_t value);
/* Looks once a millisecond until the test holds; fails after 20 s. */
void wait_stats(betoken_engine *e, stats_test *test, int64_t value, betoken_stats *stats);
bool is_idle(const betoken_stats *stats, int64_t unused); /* no request, no block in use */
bool n_running_is(const betoken_stats *stats, int64_t n);
bool n_waiting_is(const betoken_stats *stats, int64_t n);
bool n_generated_reaches(const betoken_stats *stats, int64_t n);

void sleep_us(int64_t us);

#endif
