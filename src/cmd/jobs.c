/* SPDX-License-Identifier: MIT */
#include "cmd/jobs.h"

#include "base/mapfile.h"
#include "text/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FILE_MAX = 1 << 30, TEXT_MAX = 1 << 30 };

static bt_job *add_job(bt_jobs *jobs)
{
    if (jobs->n == jobs->cap) {
        size_t cap = jobs->cap == 0 ? 16 : 2 * jobs->cap;
        bt_job *grown = bt_mem_realloc(BT_MEM_BASE, jobs->job, cap, sizeof *grown);
        if (grown == NULL) {
            return NULL;
        }
        jobs->job = grown;
        jobs->cap = cap;
    }
    bt_job *job = &jobs->job[jobs->n++];
    memset(job, 0, sizeof *job);
    job->logprobs = -1;
    bt_buf_init(&job->text, BT_MEM_BASE, TEXT_MAX);
    bt_buf_init(&job->token_ids, BT_MEM_BASE, TEXT_MAX);
    bt_buf_init(&job->logprob_json, BT_MEM_BASE, TEXT_MAX);
    bt_buf_init(&job->draft_json, BT_MEM_BASE, TEXT_MAX);
    return job;
}

static bt_api_request *add_line(bt_jobs *jobs)
{
    if (jobs->n_lines == jobs->cap_lines) {
        size_t cap = jobs->cap_lines == 0 ? 16 : 2 * jobs->cap_lines;
        bt_api_request *grown = bt_mem_realloc(BT_MEM_BASE, jobs->lines, cap, sizeof *grown);
        if (grown == NULL) {
            return NULL;
        }
        jobs->lines = grown;
        jobs->cap_lines = cap;
    }
    bt_api_request *line = &jobs->lines[jobs->n_lines++];
    memset(line, 0, sizeof *line);
    return line;
}

/* What the line left open comes from the command line. */
static void fill_defaults(const bt_options *o, const bt_api_request *line, betoken_request *r)
{
    r->temperature = isnan(r->temperature) ? o->temperature : r->temperature;
    r->top_p = isnan(r->top_p) ? o->top_p : r->top_p;
    r->min_p = isnan(r->min_p) ? o->min_p : r->min_p;
    r->top_k = r->top_k == BETOKEN_UNSET_INT ? (int32_t)o->top_k : r->top_k;
    if (!r->seed_given && o->seed >= 0) {
        r->seed_given = true;
        r->seed = (uint64_t)o->seed;
    }
    if (!line->max_tokens_given) {
        r->max_tokens = o->max_tokens;
    }
}

static bt_status no_memory(bt_err *err)
{
    return bt_fail(err, BT_E_NO_MEMORY, "no memory for the prompts");
}

/* A parsed line becomes a job a prompt; a faulty one a job with its error. */
static bt_status add_object(bt_jobs *jobs, const bt_options *o, const bt_json *object,
                            const bt_err *parse_error, bt_err *err)
{
    bt_err why = {0};
    bt_api_request *line = add_line(jobs);
    if (line == NULL) {
        return no_memory(err);
    }
    bt_status status = BT_OK;
    if (object == NULL) {
        why = *parse_error;
        status = why.code;
    } else {
        status = bt_api_offline_parse(object, line, &why);
    }
    if (status != BT_OK) {
        bt_job *job = add_job(jobs);
        if (job == NULL) {
            return no_memory(err);
        }
        job->done = true;
        job->error = (betoken_error){.code = (betoken_code)status, .position = why.position};
        memcpy(job->error.param, why.param, sizeof job->error.param);
        memcpy(job->error.message, why.message, sizeof job->error.message);
        return BT_OK;
    }
    for (size_t i = 0; i < line->n_items; i++) {
        bt_job *job = add_job(jobs);
        if (job == NULL) {
            return no_memory(err);
        }
        fill_defaults(o, line, &line->item[i]);
        job->request = &line->item[i]; /* in the line's arena: stays where it is */
        job->logprobs = line->item[i].logprobs;
        job->drafts = line->item[i].return_drafts;
    }
    return BT_OK;
}

static bt_status read_lines(bt_jobs *jobs, const bt_options *o, bt_str text, bt_err *err)
{
    size_t n_line = 0;
    for (size_t at = 0; at < text.n;) {
        int64_t newline = bt_str_find(text, BT_STR("\n"), at);
        size_t end = newline < 0 ? text.n : (size_t)newline;
        bt_str line = {text.p + at, end - at};
        at = end + 1;
        n_line++;
        bool blank = true;
        for (size_t i = 0; i < line.n && blank; i++) {
            blank = strchr(" \t\r", line.p[i]) != NULL;
        }
        if (blank) {
            continue;
        }
        bt_json *object = NULL;
        bt_err why = {0};
        if (bt_json_parse(line, &object, &why) == BT_OK &&
            bt_json_kind_of(object) != BT_JSON_OBJECT) {
            bt_fail(&why, BT_E_INVALID, "a line must be a JSON object");
            bt_json_close(object);
            object = NULL;
        }
        if (object == NULL && o->prompts != NULL) {
            bt_err_prefix(&why, "%s, line %zu", o->prompts, n_line);
        }
        bt_status status = add_object(jobs, o, object, &why, err);
        bt_json_close(object);
        BT_TRY(status);
    }
    return BT_OK;
}

/* --prompt as the object that a line would hold. */
static bt_status read_prompt(bt_jobs *jobs, const bt_options *o, bt_err *err)
{
    bt_buf text;
    bt_jsonw w;
    bt_buf_init(&text, BT_MEM_BASE, TEXT_MAX);
    bt_jsonw_init(&w, &text);
    bt_jsonw_open(&w, '{');
    bt_jsonw_key(&w, o->chat ? "messages" : "prompt");
    if (o->chat) {
        bt_jsonw_open(&w, '[');
        bt_jsonw_open(&w, '{');
        bt_jsonw_key(&w, "role");
        bt_jsonw_strz(&w, "user");
        bt_jsonw_key(&w, "content");
    }
    bt_jsonw_strz(&w, o->prompt);
    if (o->chat) {
        bt_jsonw_close(&w, '}');
        bt_jsonw_close(&w, ']');
    }
    bt_jsonw_close(&w, '}');
    bt_status status =
        bt_buf_ok(&text) == BT_OK ? read_lines(jobs, o, bt_buf_str(&text), err) : no_memory(err);
    bt_buf_deinit(&text);
    return status;
}

static bt_status read_stdin(bt_buf *out, bt_err *err)
{
    char chunk[65536];
    size_t n;
    while ((n = fread(chunk, 1, sizeof chunk, stdin)) > 0) {
        bt_buf_push(out, chunk, n);
    }
    return bt_buf_ok(out) == BT_OK ? BT_OK : no_memory(err);
}

bt_status bt_jobs_read(const bt_options *o, bt_jobs *out, bt_err *err)
{
    if ((o->prompt == NULL) == (o->prompts == NULL)) {
        return bt_fail(err, BT_E_INVALID,
                       "exactly one of --prompt TEXT and --prompts FILE is needed");
    }
    if (o->prompt != NULL) {
        return read_prompt(out, o, err);
    }
    if (strcmp(o->prompts, "-") == 0) {
        bt_buf text;
        bt_buf_init(&text, BT_MEM_BASE, FILE_MAX);
        bt_status status = read_stdin(&text, err);
        status = status == BT_OK ? read_lines(out, o, bt_buf_str(&text), err) : status;
        bt_buf_deinit(&text);
        return status;
    }
    char *text;
    size_t n;
    BT_TRY(bt_mapfile_read(o->prompts, FILE_MAX, &text, &n, err));
    bt_status status = read_lines(out, o, (bt_str){text, n}, err);
    bt_mem_free(text);
    return status;
}

void bt_jobs_deinit(bt_jobs *jobs)
{
    for (size_t i = 0; i < jobs->n; i++) {
        bt_job *job = &jobs->job[i];
        betoken_stream_close(job->stream);
        bt_buf_deinit(&job->text);
        bt_buf_deinit(&job->token_ids);
        bt_buf_deinit(&job->logprob_json);
        bt_buf_deinit(&job->draft_json);
    }
    for (size_t i = 0; i < jobs->n_lines; i++) {
        bt_api_request_deinit(&jobs->lines[i]);
    }
    bt_mem_free(jobs->job);
    bt_mem_free(jobs->lines);
    memset(jobs, 0, sizeof *jobs);
}

static void push_logprobs(bt_buf *out, const betoken_event *e)
{
    bt_jsonw w;
    bt_buf_pushz(out, out->n > 0 ? "," : "");
    bt_jsonw_init(&w, out);
    bt_jsonw_open(&w, '{');
    bt_jsonw_key(&w, "token_id");
    bt_jsonw_int(&w, e->token);
    bt_jsonw_key(&w, "logprob");
    bt_jsonw_real(&w, e->logprob);
    bt_jsonw_key(&w, "top");
    bt_jsonw_open(&w, '[');
    for (int i = 0; i < e->n_top; i++) {
        bt_jsonw_open(&w, '{');
        bt_jsonw_key(&w, "token_id");
        bt_jsonw_int(&w, e->top[i].token);
        bt_jsonw_key(&w, "logprob");
        bt_jsonw_real(&w, e->top[i].logprob);
        bt_jsonw_close(&w, '}');
    }
    bt_jsonw_close(&w, ']');
    bt_jsonw_close(&w, '}');
}

void bt_job_take(bt_job *job, const betoken_event *e)
{
    switch (e->type) {
    case BETOKEN_EVENT_STARTED:
        return;
    case BETOKEN_EVENT_TOKEN:
        bt_buf_printf(&job->token_ids, "%s%d", job->token_ids.n > 0 ? "," : "", (int)e->token);
        if (job->logprobs >= 0) {
            push_logprobs(&job->logprob_json, e);
        }
        bt_buf_push(&job->text, e->u.text, (size_t)e->n);
        return;
    case BETOKEN_EVENT_TEXT:
        bt_buf_push(&job->text, e->u.text, (size_t)e->n);
        return;
    case BETOKEN_EVENT_DRAFTS:
        bt_buf_pushz(&job->draft_json, job->draft_json.n > 0 ? ",[" : "[");
        for (int i = 0; i < e->n; i++) {
            bt_buf_printf(&job->draft_json, "%s%d", i > 0 ? "," : "", (int)e->u.draft[i]);
        }
        bt_buf_pushz(&job->draft_json, "]");
        return;
    case BETOKEN_EVENT_DONE:
        job->finish = e->finish;
        break;
    case BETOKEN_EVENT_ERROR:
        job->error = e->u.error;
    }
    job->usage = e->usage;
    job->done = true;
}

static void write_speculation(bt_jsonw *w, const betoken_usage *u)
{
    bt_jsonw_key(w, "speculation");
    bt_jsonw_open(w, '{');
    bt_jsonw_key(w, "drafted");
    bt_jsonw_int(w, u->drafted);
    bt_jsonw_key(w, "accepted");
    bt_jsonw_int(w, u->accepted);
    bt_jsonw_key(w, "steps");
    bt_jsonw_int(w, u->steps);
    bt_jsonw_key(w, "tokens_per_step");
    bt_jsonw_real(w, u->steps > 0 ? (double)u->completion_tokens / u->steps : 0.0);
    bt_jsonw_close(w, '}');
}

static void write_list(bt_jsonw *w, const char *key, const bt_buf *items)
{
    bt_jsonw_key(w, key);
    bt_buf list;
    bt_buf_init(&list, BT_MEM_BASE, TEXT_MAX);
    bt_buf_pushz(&list, "[");
    bt_buf_push_str(&list, bt_buf_str(items));
    bt_buf_pushz(&list, "]");
    bt_jsonw_raw(w, bt_buf_str(&list));
    bt_buf_deinit(&list);
}

static void write_answer(bt_jsonw *w, const bt_job *job)
{
    bt_jsonw_key(w, "text");
    bt_jsonw_str(w, bt_buf_str(&job->text));
    write_list(w, "token_ids", &job->token_ids);
    bt_jsonw_key(w, "finish_reason");
    bt_jsonw_strz(w, job->finish == BETOKEN_FINISH_STOP ? "stop" : "length");
    bt_jsonw_key(w, "prompt_tokens");
    bt_jsonw_int(w, job->usage.prompt_tokens);
    bt_jsonw_key(w, "seed");
    bt_jsonw_int(w, (int64_t)job->usage.seed);
    write_speculation(w, &job->usage);
    if (job->logprobs >= 0) {
        write_list(w, "logprobs", &job->logprob_json);
    }
    if (job->drafts) {
        write_list(w, "drafts", &job->draft_json);
    }
}

void bt_job_print_json(const bt_job *job)
{
    bt_buf out;
    bt_jsonw w;
    bt_buf_init(&out, BT_MEM_BASE, 2 * (size_t)TEXT_MAX);
    bt_jsonw_init(&w, &out);
    bt_jsonw_open(&w, '{');
    if (job->error.code == BETOKEN_OK) {
        write_answer(&w, job);
    } else {
        bt_jsonw_key(&w, "error");
        bt_jsonw_open(&w, '{');
        bt_jsonw_key(&w, "message");
        bt_jsonw_strz(&w, job->error.message);
        bt_jsonw_key(&w, "param");
        bt_jsonw_strz(&w, job->error.param);
        bt_jsonw_close(&w, '}');
    }
    bt_jsonw_close(&w, '}');
    fwrite(out.p, 1, out.n, stdout);
    fputc('\n', stdout);
    bt_buf_deinit(&out);
}
