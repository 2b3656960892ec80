/* SPDX-License-Identifier: MIT
 *
 * The intake thread: bodies in, submitted requests out. Parsing, rendering and tokenising take as
 * long as the client's bytes make them; the I/O thread must not wait for that. */
#include "serve/serving.h"

#include "api/apierror.h"
#include "api/tokenize.h"

#include <stdio.h>
#include <string.h>

/* Inside intake at once; beyond: 429. */
enum { LINKS_MAX = 1024, BYTES_MAX = 256 << 20 };

static void set_error(bt_link *link, const bt_api_error *error)
{
    link->http_status = error->http;
    bt_api_error_body(error, &link->answer);
}

static void set_failure(bt_link *link, const bt_err *err)
{
    bt_api_error error = bt_api_error_of(err);
    error.code = err->code == BT_E_NOT_FOUND ? "model_not_found" : error.code;
    set_error(link, &error);
}

/* The engine's words about one prompt, in the words of the request. */
static void set_refusal(bt_link *link, size_t item_idx, const betoken_error *refusal)
{
    betoken_error e = *refusal;
    char message[sizeof e.message + 32];
    if (link->request.kind == BT_API_CHAT && strcmp(e.param, "logprobs") == 0) {
        (void)snprintf(e.param, sizeof e.param, "top_logprobs");
    } else if (link->request.kind == BT_API_CHAT && strcmp(e.param, "prompt") == 0) {
        (void)snprintf(e.param, sizeof e.param, "messages");
    }
    bt_api_error error = bt_api_error_of_engine(&e);
    if (link->request.n_items > 1 && error.http == 400) {
        (void)snprintf(message, sizeof message, "prompt %zu: %s", item_idx, e.message);
        error.message = message;
    }
    set_error(link, &error);
}

static bt_status parse_generation(bt_link *link, bt_err *err)
{
    bt_api_kind kind = link->endpoint == BT_ENDPOINT_CHAT ? BT_API_CHAT : BT_API_COMPLETION;
    bt_str name;
    BT_TRY(bt_api_parse(kind, bt_buf_str(&link->body), &link->request, err));
    BT_TRY(bt_api_models_find(&link->serve->models, link->request.model, &name, err));
    size_t n = link->request.n_items;
    const betoken_options *o = link->serve->config->options;
    size_t most = (size_t)o->max_num_seqs + (size_t)o->max_queued_requests;
    if (n > most) { /* no later try would find room for it */
        return bt_fail_param(err, BT_E_INVALID, "prompt",
                             "%zu prompts; this server runs and queues at most %zu requests", n,
                             most);
    }
    link->stream = bt_mem_calloc(BT_MEM_ENGINE, n, sizeof *link->stream);
    link->ended = bt_mem_calloc(BT_MEM_ENGINE, n, sizeof *link->ended);
    if (link->stream == NULL || link->ended == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for %zu prompts", n);
    }
    return bt_api_reply_open(&link->reply, &link->request, link->serve->engine, name, link->number,
                             err);
}

static void start_generation(bt_link *link)
{
    bt_err err = {0};
    if (parse_generation(link, &err) != BT_OK) {
        set_failure(link, &err);
        return;
    }
    for (size_t i = 0; i < link->request.n_items; i++) {
        betoken_error error = {0};
        betoken_stream *stream = NULL;
        if (betoken_submit(link->serve->engine, &link->request.item[i], bt_link_wake, link, &stream,
                           &error) != BETOKEN_OK) {
            set_refusal(link, i, &error);
            return; /* those already submitted are cancelled when the link is freed */
        }
        link->stream[link->n_streams++] = stream;
        if (link->request.return_token_ids) {
            size_t n = 0;
            const int32_t *ids = betoken_stream_prompt(stream, &n);
            bt_api_reply_prompt(&link->reply, i, ids, n);
        }
    }
}

static void answer_tokenize(bt_link *link)
{
    bt_serve *serve = link->serve;
    bt_api_tokenize t = {0};
    bt_err err = {0};
    betoken_error error = {0};
    bt_str name;
    int32_t *ids = NULL;
    size_t n = 0;
    if (bt_api_tokenize_parse(bt_buf_str(&link->body), &t, &err) != BT_OK ||
        bt_api_models_find(&serve->models, t.request.model, &name, &err) != BT_OK) {
        set_failure(link, &err);
    } else if (betoken_tokenize(serve->engine, t.request.item, &ids, &n, &error) != BETOKEN_OK) {
        set_refusal(link, 0, &error);
    } else {
        link->http_status = 200;
        bt_api_tokenize_body(&t, serve->engine, ids, n, serve->info.max_model_len, &link->answer);
        betoken_free(ids);
    }
    bt_api_tokenize_deinit(&t);
}

static void answer_detokenize(bt_link *link)
{
    bt_serve *serve = link->serve;
    bt_api_tokenize t = {0};
    bt_err err = {0};
    betoken_error error = {0};
    bt_str name;
    char *text = NULL;
    size_t n = 0;
    if (bt_api_detokenize_parse(bt_buf_str(&link->body), &t, &err) != BT_OK ||
        bt_api_models_find(&serve->models, t.request.model, &name, &err) != BT_OK) {
        set_failure(link, &err);
    } else if (betoken_detokenize(serve->engine, t.ids, t.n_ids, &text, &n, &error) != BETOKEN_OK) {
        set_refusal(link, 0, &error);
    } else {
        link->http_status = 200;
        bt_api_detokenize_body((bt_str){text, n}, &link->answer);
        betoken_free(text);
    }
    bt_api_tokenize_deinit(&t);
}

static void work(bt_link *link)
{
    if (atomic_load_explicit(&link->gone, memory_order_relaxed)) {
        return;
    }
    if (link->endpoint == BT_ENDPOINT_TOKENIZE) {
        answer_tokenize(link);
    } else if (link->endpoint == BT_ENDPOINT_DETOKENIZE) {
        answer_detokenize(link);
    } else {
        start_generation(link);
    }
    bt_buf_deinit(&link->body);
    bt_status status = bt_buf_ok(&link->answer);
    if (status != BT_OK) {
        bt_buf_clear(&link->answer);
        bt_err err = {0};
        (void)bt_fail(&err, BT_E_NO_MEMORY, "no memory for the answer");
        set_failure(link, &err);
    }
}

static void *intake_main(void *arg)
{
    bt_serve *serve = arg;
    bt_intake *intake = &serve->intake;
    for (;;) {
        uint32_t seen = bt_bell_read(&intake->bell);
        bt_link *link;
        if (bt_ring_pop(&intake->todo, &link)) {
            if (!atomic_load_explicit(&intake->stop, memory_order_acquire)) {
                work(link);
            }
            bool pushed = bt_ring_push(&intake->done, &link);
            BT_ASSERT(pushed); /* holds as many as may be inside */
            bt_http_server_wake(serve->http);
        } else if (atomic_load_explicit(&intake->stop, memory_order_acquire)) {
            return NULL;
        } else {
            bt_bell_wait(&intake->bell, seen, -1);
        }
    }
}

bt_status bt_intake_open(bt_serve *serve, bt_err *err)
{
    bt_intake *intake = &serve->intake;
    bt_bell_init(&intake->bell);
    atomic_init(&intake->stop, false);
    if (!bt_ring_init(&intake->todo, BT_MEM_HTTP, LINKS_MAX, sizeof(bt_link *)) ||
        !bt_ring_init(&intake->done, BT_MEM_HTTP, LINKS_MAX, sizeof(bt_link *))) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for the intake queue");
    }
    return BT_OK;
}

bt_status bt_intake_start(bt_serve *serve, bt_err *err)
{
    int failed = pthread_create(&serve->intake.thread, NULL, intake_main, serve);
    if (failed != 0) {
        return bt_fail(err, BT_E_IO, "cannot start the intake thread: %s", strerror(failed));
    }
    serve->intake.started = true;
    return BT_OK;
}

bool bt_intake_give(bt_serve *serve, bt_link *link)
{
    bt_intake *intake = &serve->intake;
    link->n_body = link->body.n;
    if (intake->n_inside >= LINKS_MAX || link->n_body > BYTES_MAX - intake->bytes_inside ||
        !bt_ring_push(&intake->todo, &link)) {
        return false;
    }
    intake->n_inside++;
    intake->bytes_inside += link->n_body;
    bt_bell_ring(&intake->bell);
    return true;
}

bt_link *bt_intake_take(bt_serve *serve)
{
    bt_link *link;
    if (!bt_ring_pop(&serve->intake.done, &link)) {
        return NULL;
    }
    serve->intake.n_inside--;
    serve->intake.bytes_inside -= link->n_body;
    return link;
}

void bt_intake_stop(bt_serve *serve)
{
    if (serve->intake.started) {
        atomic_store_explicit(&serve->intake.stop, true, memory_order_release);
        bt_bell_ring(&serve->intake.bell);
        pthread_join(serve->intake.thread, NULL);
        serve->intake.started = false;
    }
}

void bt_intake_close(bt_serve *serve)
{
    bt_ring_deinit(&serve->intake.todo);
    bt_ring_deinit(&serve->intake.done);
}
