/* SPDX-License-Identifier: MIT
 *
 * An engine that plays scripts instead of running a model: the prompt says what happens. All of
 * betoken.h that the server calls, so that loading, refusals and failures come when a test wants
 * them. */
#ifndef TEST_SCRIPTENGINE_H
#define TEST_SCRIPTENGINE_H

#include "base/clock.h"

#include <betoken.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct betoken_engine {
    int unused;
};

struct betoken_stream {
    char script[32];
    int at;
};

static struct {
    _Atomic bool hold_load, fail_load;
    _Atomic int n_streams; /* open now */
    _Atomic bool draining;
    betoken_engine engine;
} fake;

static betoken_code refuse(betoken_error *error, betoken_code code, const char *param)
{
    *error = (betoken_error){.code = code, .position = -1};
    snprintf(error->param, sizeof error->param, "%s", param);
    snprintf(error->message, sizeof error->message, "refused by the script");
    return code;
}

betoken_code betoken_engine_open(const betoken_options *options, betoken_engine **engine,
                                 betoken_error *error)
{
    (void)options;
    while (atomic_load(&fake.hold_load)) {
        bt_clock_sleep_ns(1000000);
    }
    if (atomic_load(&fake.fail_load)) {
        return refuse(error, BETOKEN_FORMAT, "");
    }
    atomic_store(&fake.draining, false);
    *engine = &fake.engine;
    return BETOKEN_OK;
}

void betoken_engine_close(betoken_engine *engine)
{
    (void)engine;
}

void betoken_engine_drain(betoken_engine *engine)
{
    (void)engine;
    atomic_store(&fake.draining, true);
}

void betoken_engine_info(const betoken_engine *engine, betoken_info *info)
{
    (void)engine;
    *info = (betoken_info){.max_model_len = 64, .vocab_size = 256};
}

void betoken_engine_stats(betoken_engine *engine, betoken_stats *stats)
{
    (void)engine;
    *stats = (betoken_stats){.running = atomic_load(&fake.n_streams)};
}

betoken_code betoken_submit(betoken_engine *engine, const betoken_request *request,
                            betoken_wake *wake, void *wake_ctx, betoken_stream **stream,
                            betoken_error *error)
{
    (void)engine;
    betoken_text p = request->prompt;
    if (p.n == 4 && memcmp(p.p, "busy", 4) == 0) {
        return refuse(error, BETOKEN_BUSY, "");
    }
    if (p.n == 4 && memcmp(p.p, "long", 4) == 0) {
        return refuse(error, BETOKEN_TOO_LONG, "prompt");
    }
    betoken_stream *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return refuse(error, BETOKEN_NO_MEMORY, "");
    }
    snprintf(s->script, sizeof s->script, "%.*s", (int)p.n, p.p);
    *stream = s;
    atomic_fetch_add(&fake.n_streams, 1);
    wake(wake_ctx);
    return BETOKEN_OK;
}

/* The script, letter by letter: a small letter is a token with that text, 'E' an error, '.' the
 * end; without either the stream hangs. */
bool betoken_stream_next(betoken_stream *s, betoken_event *event)
{
    char c = s->script[s->at];
    if (c == '\0') {
        return false;
    }
    s->at++;
    *event = (betoken_event){.stop_token = -1, .stop_idx = -1};
    if (c == 'E') {
        event->type = BETOKEN_EVENT_ERROR;
        (void)refuse(&event->u.error, BETOKEN_INTERNAL, "");
    } else if (c == '.') {
        event->type = BETOKEN_EVENT_DONE;
        event->usage.completion_tokens = s->at - 1;
    } else {
        event->type = BETOKEN_EVENT_TOKEN;
        event->token = c;
        event->n = 1;
        event->u.text[0] = c;
    }
    return true;
}

void betoken_stream_close(betoken_stream *s)
{
    atomic_fetch_sub(&fake.n_streams, 1);
    free(s);
}

const int32_t *betoken_stream_prompt(const betoken_stream *s, size_t *n)
{
    static const int32_t ids[] = {1, 2};
    (void)s;
    *n = 2;
    return ids;
}

betoken_code betoken_tokenize(betoken_engine *engine, const betoken_request *request, int32_t **ids,
                              size_t *n, betoken_error *error)
{
    (void)engine;
    (void)error;
    *n = request->prompt.n;
    *ids = calloc(*n + 1, sizeof **ids);
    return *ids != NULL ? BETOKEN_OK : BETOKEN_NO_MEMORY;
}

betoken_code betoken_detokenize(betoken_engine *engine, const int32_t *ids, size_t n, char **text,
                                size_t *n_text, betoken_error *error)
{
    (void)engine;
    (void)ids;
    (void)text;
    (void)n_text;
    return n > 2 ? refuse(error, BETOKEN_INVALID, "tokens") : refuse(error, BETOKEN_INTERNAL, "");
}

betoken_text betoken_token_bytes(const betoken_engine *engine, int32_t id)
{
    (void)engine;
    (void)id;
    return (betoken_text){"t", 1};
}

void betoken_free(void *memory)
{
    free(memory);
}

const char *betoken_version(void)
{
    return "0";
}

void betoken_request_init(betoken_request *request)
{
    *request = (betoken_request){.temperature = NAN, .max_tokens = -1, .logprobs = -1};
}

#endif
