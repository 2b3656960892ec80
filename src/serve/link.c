/* SPDX-License-Identifier: MIT
 *
 * One request on its way back: events of its streams into bytes for its client. The HTTP stream
 * begins with the first event, so that every error found before generation is a plain HTTP error.
 * While the client does not read, events stay in the engine's bounded rings and the engine passes
 * the sequence over. */
#include "serve/serving.h"

#include "api/apierror.h"
#include "base/log.h"

#include <inttypes.h>

enum { ANSWER_MAX = 1 << 30 }; /* bytes; a context of tokens fills far less */

void bt_link_wake(void *ctx)
{
    bt_link *link = ctx;
    /* release: pairs with the exchange in bt_serve's wake-up. */
    atomic_store_explicit(&link->news, true, memory_order_release);
    bt_http_server_wake(link->serve->http);
}

void bt_link_free(bt_link *link)
{
    if (link->listed) {
        bt_link **at = link->prev != NULL ? &link->prev->next : &link->serve->links;
        *at = link->next;
        if (link->next != NULL) {
            link->next->prev = link->prev;
        }
    }
    for (size_t i = 0; i < link->n_streams; i++) {
        betoken_stream_close(link->stream[i]);
    }
    bt_mem_free(link->stream);
    bt_mem_free(link->ended);
    bt_api_reply_close(&link->reply);
    bt_api_request_deinit(&link->request);
    bt_buf_deinit(&link->answer);
    bt_buf_deinit(&link->body);
    bt_mem_free(link);
}

void bt_link_open(bt_serve *serve, bt_http_request *request, bt_api_endpoint endpoint)
{
    bt_link *link = bt_mem_calloc(BT_MEM_HTTP, 1, sizeof *link);
    if (link == NULL) {
        bt_gate_refuse(request, 500, NULL, "out_of_memory", "no memory for a request");
        return;
    }
    link->serve = serve;
    link->http = request;
    link->number = bt_http_request_id(request);
    link->endpoint = endpoint;
    atomic_init(&link->gone, false);
    atomic_init(&link->news, false);
    bt_buf_init(&link->answer, BT_MEM_HTTP, ANSWER_MAX);
    bt_http_request_take_body(request, &link->body);
    if (!bt_intake_give(serve, link)) {
        bt_gate_refuse(request, 429, NULL, "queue_full", "too many requests wait; try again later");
        bt_link_free(link);
        return;
    }
    bt_http_request_set_user(request, link);
}

/* One line a request; the prompt's text is nobody's business. */
static void log_end(const bt_link *link, const char *finish)
{
    betoken_usage u = bt_api_reply_usage(&link->reply);
    int64_t n_out = 0;
    for (size_t i = 0; i < link->reply.n_choices; i++) {
        n_out += link->reply.choice[i].n_tokens;
    }
    int64_t busy_ns = u.total_ns - u.queue_ns;
    bt_log(BT_LOG_INFO, "request",
           "id=%s prompt_tokens=%d completion_tokens=%" PRId64
           " first_token_ms=%.1f tokens_per_s=%.1f accepted=%d/%d finish=%s",
           link->reply.id, u.prompt_tokens, n_out, (double)u.first_token_ns * 1e-6,
           busy_ns > 0 ? (double)n_out * 1e9 / (double)busy_ns : 0.0, u.accepted, u.drafted,
           finish);
}

static const char *finish_text(const bt_link *link)
{
    for (size_t i = 0; i < link->reply.n_choices; i++) {
        if (link->reply.choice[i].finish == BETOKEN_FINISH_LENGTH) {
            return "length";
        }
    }
    return "stop";
}

/* Ends the HTTP side; the link is dead afterwards. */
static void finish_with_error(bt_link *link, const bt_api_error *error)
{
    bt_http_request *http = link->http;
    bt_log(error->http >= 500 ? BT_LOG_WARN : BT_LOG_DEBUG, "refused",
           "number=%" PRIu64 " status=%d %s", link->number, error->http, error->message);
    if (link->begun) {
        bt_buf *out = &link->serve->scratch;
        bt_buf_clear(out);
        bt_api_error_event(error, out);
        (void)bt_http_stream_write(http, out->p, out->n);
        /* A proper end of the transfer, so that clients read the event; the missing [DONE] tells that
         * the answer is not complete. */
        bt_http_stream_end(http);
        log_end(link, "error");
    } else {
        bt_gate_refuse(http, error->http, error->param, error->code, error->message);
    }
    bt_link_free(link);
}

static void finish_without_memory(bt_link *link)
{
    bt_api_error error = {500, "no memory for the answer", NULL, "out_of_memory"};
    finish_with_error(link, &error);
}

static void begin_stream(bt_link *link)
{
    static const bt_http_field fields[] = {
        {{"Cache-Control", 13}, {"no-cache", 8}},
        {{"X-Accel-Buffering", 17}, {"no", 2}}, /* proxies are not to collect events */
    };
    bt_http_answer answer = {.status = 200,
                             .content_type = "text/event-stream; charset=utf-8",
                             .fields = fields,
                             .n_fields = BT_COUNT(fields)};
    bt_http_stream_begin(link->http, &answer);
    link->begun = true;
}

/* Takes all events that are there. False when the link has ended by an error. */
static bool take_events(bt_link *link)
{
    for (size_t i = 0; i < link->n_streams; i++) {
        betoken_event event;
        while (!link->ended[i] && betoken_stream_next(link->stream[i], &event)) {
            if (event.type == BETOKEN_EVENT_ERROR) {
                bt_api_error error = bt_api_error_of_engine(&event.u.error);
                finish_with_error(link, &error);
                return false;
            }
            link->ended[i] = event.type == BETOKEN_EVENT_DONE;
            if (bt_api_reply_event(&link->reply, i, &event) != BT_OK) {
                finish_without_memory(link);
                return false;
            }
            if (link->request.stream && !link->begun) {
                begin_stream(link);
            }
        }
    }
    return true;
}

static void finish_whole(bt_link *link)
{
    bt_buf *out = &link->serve->scratch;
    bt_buf_clear(out);
    bt_api_reply_body(&link->reply, out);
    if (bt_buf_ok(out) != BT_OK) {
        finish_without_memory(link);
        return;
    }
    bt_gate_respond(link->http, 200, "application/json", bt_buf_str(out));
    log_end(link, finish_text(link));
    bt_link_free(link);
}

void bt_link_drain(bt_link *link)
{
    bool streamed = link->request.stream;
    if (link->begun && bt_http_stream_is_paused(link->http)) {
        return; /* bt_serve calls again when the client has read on */
    }
    if (!take_events(link)) {
        return;
    }
    bool done = bt_api_reply_is_done(&link->reply);
    if (!streamed) {
        if (done) {
            finish_whole(link);
        }
        return;
    }
    bt_buf *out = &link->serve->scratch;
    bt_buf_clear(out);
    for (size_t i = 0; i < link->n_streams; i++) {
        bt_api_reply_chunk(&link->reply, i, out);
    }
    if (done) {
        bt_api_reply_end(&link->reply, out);
    }
    if (bt_buf_ok(out) != BT_OK) {
        finish_without_memory(link);
        return;
    }
    if (out->n > 0) {
        (void)bt_http_stream_write(link->http, out->p, out->n);
    }
    if (done) {
        bt_http_stream_end(link->http);
        log_end(link, finish_text(link));
        bt_link_free(link);
    }
}

void bt_link_arrived(bt_link *link)
{
    if (link->http == NULL) {
        bt_link_free(link);
        return;
    }
    if (link->http_status != 0) {
        bt_log(link->http_status >= 500 ? BT_LOG_WARN : BT_LOG_DEBUG, "answered",
               "number=%" PRIu64 " status=%d %s", link->number, link->http_status,
               link->http_status >= 400 && link->answer.p != NULL ? link->answer.p : "");
        bt_gate_respond(link->http, link->http_status, "application/json",
                        bt_buf_str(&link->answer));
        bt_link_free(link);
        return;
    }
    if (link->request.n_unknown > 0) {
        bt_log(BT_LOG_DEBUG, "request", "id=%s unknown_fields=%d", link->reply.id,
               link->request.n_unknown);
    }
    link->next = link->serve->links;
    if (link->next != NULL) {
        link->next->prev = link;
    }
    link->serve->links = link;
    link->listed = true;
    bt_link_drain(link);
}

void bt_link_gone(bt_link *link)
{
    link->http = NULL;
    if (link->listed) {
        log_end(link, "abort");
        bt_link_free(link);
    } else {
        atomic_store_explicit(&link->gone, true, memory_order_relaxed); /* intake has it */
    }
}
