/* SPDX-License-Identifier: MIT
 *
 * jobs.h: the prompts of one `betoken generate` run: read, submitted as the engine has room, and
 * gathered until they can be printed in input order. */
#ifndef BT_CMD_JOBS_H
#define BT_CMD_JOBS_H

#include "api/apirequest.h"
#include "cmd/options.h"

typedef struct bt_job {
    const betoken_request *request; /* NULL: the line was refused */
    betoken_stream *stream;         /* NULL: not submitted, or closed */
    bool submitted, done;
    betoken_error error; /* code BETOKEN_OK: none */
    betoken_finish finish;
    betoken_usage usage;
    int logprobs; /* as asked, -1: none */
    bool drafts;
    bt_buf text, token_ids, logprob_json, draft_json; /* JSON but for text */
} bt_job;

typedef struct bt_jobs {
    bt_job *job;
    size_t n, cap;
    bt_api_request *lines; /* own the requests */
    size_t n_lines, cap_lines;
} bt_jobs;

/* From --prompt or --prompts, with the command line's sampling for what a line does not say. A
 * faulty line becomes a job with an error; only an unreadable file fails. */
bt_status bt_jobs_read(const bt_options *o, bt_jobs *out, bt_err *err) BT_MUST_USE;
void bt_jobs_deinit(bt_jobs *jobs);

/* Takes one event into the job. */
void bt_job_take(bt_job *job, const betoken_event *event);
/* Writes the job's JSON line or text to stdout. */
void bt_job_print_json(const bt_job *job);

#endif
