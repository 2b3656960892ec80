/* SPDX-License-Identifier: MIT
 *
 * betoken generate: prompts in, completions out, in input order. */
#include "cmd/jobs.h"

#include "base/bell.h"

#include <stdio.h>

static void on_events(void *bell)
{
    bt_bell_ring(bell);
}

/* Submits what the engine has room for; what it refuses is an error of that job alone. */
static void submit(betoken_engine *engine, bt_jobs *jobs, bt_bell *bell)
{
    for (size_t i = 0; i < jobs->n; i++) {
        bt_job *job = &jobs->job[i];
        if (job->submitted || job->done) {
            continue;
        }
        betoken_code code =
            betoken_submit(engine, job->request, on_events, bell, &job->stream, &job->error);
        if (code == BETOKEN_BUSY) {
            job->error = (betoken_error){0};
            return;
        }
        job->submitted = code == BETOKEN_OK;
        job->done = code != BETOKEN_OK;
    }
}

/* Takes all events that are there; the first prompt's text goes out as it comes. */
static bool drain(bt_jobs *jobs, bool stream_first)
{
    bool any = false;
    for (size_t i = 0; i < jobs->n; i++) {
        bt_job *job = &jobs->job[i];
        betoken_event event;
        while (job->stream != NULL && betoken_stream_next(job->stream, &event)) {
            bt_job_take(job, &event);
            bool text = event.type == BETOKEN_EVENT_TOKEN || event.type == BETOKEN_EVENT_TEXT;
            if (stream_first && text) {
                fwrite(event.u.text, 1, (size_t)event.n, stdout);
                fflush(stdout);
            }
            any = true;
        }
        if (job->done && job->stream != NULL) {
            betoken_stream_close(job->stream);
            job->stream = NULL;
        }
    }
    return any;
}

static void print_text(const bt_job *job, size_t idx, size_t n, bool streamed)
{
    if (job->error.code != BETOKEN_OK) {
        fprintf(stderr, "betoken: prompt %zu: %s\n", idx + 1, job->error.message);
        return;
    }
    if (n > 1) {
        printf("--- %zu\n", idx + 1);
    }
    if (!streamed) {
        fwrite(job->text.p, 1, job->text.n, stdout);
    }
    fputc('\n', stdout);
}

static int run(betoken_engine *engine, const bt_options *o, bt_jobs *jobs)
{
    bt_bell bell;
    bt_bell_init(&bell);
    bool streamed = jobs->n == 1 && !o->json;
    int n_failed = 0;
    for (size_t printed = 0; printed < jobs->n;) {
        uint32_t seen = bt_bell_read(&bell);
        submit(engine, jobs, &bell);
        bool any = drain(jobs, streamed);
        while (printed < jobs->n && jobs->job[printed].done) {
            const bt_job *job = &jobs->job[printed];
            n_failed += job->error.code != BETOKEN_OK;
            if (o->json) {
                bt_job_print_json(job);
            } else {
                print_text(job, printed, jobs->n, streamed);
            }
            printed++;
        }
        fflush(stdout);
        if (!any && printed < jobs->n) {
            bt_bell_wait(&bell, seen, -1);
        }
    }
    return n_failed > 0 ? 1 : 0;
}

int bt_cmd_generate(bt_options *o)
{
    bt_err err = {0};
    betoken_error error = {0};
    static betoken_options options; /* owns strings that live until the process ends */
    betoken_engine *engine = NULL;
    bt_jobs jobs = {0};
    int status = 2;
    if (bt_jobs_read(o, &jobs, &err) != BT_OK || bt_options_engine(o, &options, &err) != BT_OK) {
        fprintf(stderr, "betoken: %s\n", err.message);
    } else if (betoken_engine_open(&options, &engine, &error) != BETOKEN_OK) {
        fprintf(stderr, "betoken: %s\n", error.message);
    } else {
        status = run(engine, o, &jobs);
    }
    bt_jobs_deinit(&jobs);
    betoken_engine_close(engine);
    return status;
}
