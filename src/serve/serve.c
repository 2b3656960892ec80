/* SPDX-License-Identifier: MIT
 *
 * The life of the server: bind, load while answering, serve, stop. */
#include "serve/serve.h"

#include "base/clock.h"
#include "base/log.h"
#include "serve/serving.h"

#include <signal.h>
#include <string.h>

#define GRACE_NS (30 * BT_NS_PER_S)
enum { SCRATCH_MAX = 1 << 30 };

static void on_request(void *ctx, bt_http_request *request)
{
    bt_serve *serve = ctx;
    bt_str rest;
    const bt_api_route *route = bt_api_route_find(bt_http_request_path(request), &rest);
    BT_ASSERT(route != NULL); /* bt_gate_head let it in */
    if (!route->work) {
        bt_pages_answer(serve, request, route, rest);
    } else if (serve->state == BT_SERVE_STOPPING) {
        bt_gate_refuse(request, 503, NULL, "stopping", "the server is stopping");
    } else {
        bt_link_open(serve, request, route->endpoint);
    }
}

static void on_gone(void *ctx, bt_http_request *request)
{
    (void)ctx;
    bt_link *link = bt_http_request_user(request);
    if (link != NULL) {
        bt_link_gone(link);
    }
}

static void on_drained(void *ctx, bt_http_request *request)
{
    (void)ctx;
    bt_link *link = bt_http_request_user(request);
    if (link != NULL && link->listed) {
        bt_link_drain(link);
    }
}

static void *loader_main(void *arg)
{
    bt_serve *serve = arg;
    betoken_code code =
        betoken_engine_open(serve->config->options, &serve->engine, &serve->load_error);
    atomic_store_explicit(&serve->loaded, code == BETOKEN_OK ? 1 : -1, memory_order_release);
    bt_http_server_wake(serve->http);
    return NULL;
}

static void say_ready(const bt_serve *serve)
{
    bt_serve_ready ready = {.name = serve->models.name[0],
                            .host = serve->config->host,
                            .port = bt_http_server_port(serve->http),
                            .has_chat_template = serve->info.has_chat_template,
                            .asks_key = serve->config->n_api_keys > 0};
    bt_log(BT_LOG_INFO, "ready", "model=%s port=%d", ready.name, ready.port);
    if (serve->config->ready != NULL) {
        serve->config->ready(serve->config->ctx, &ready);
    }
}

static void on_loaded(bt_serve *serve, int loaded)
{
    bt_err err = {0};
    if (loaded > 0) {
        betoken_engine_info(serve->engine, &serve->info);
        serve->models.max_model_len = serve->info.max_model_len;
        if (bt_intake_start(serve, &err) == BT_OK) {
            serve->state = BT_SERVE_READY;
            say_ready(serve);
            return;
        }
        serve->load_error.code = (betoken_code)err.code;
        memcpy(serve->load_error.message, err.message, sizeof err.message);
        static_assert(sizeof err.message == sizeof serve->load_error.message, "the same length");
    }
    serve->state = BT_SERVE_STOPPING;
    bt_http_server_stop(serve->http, 0);
}

static void on_wakeup(void *ctx)
{
    bt_serve *serve = ctx;
    if (serve->state == BT_SERVE_LOADING) {
        int loaded = atomic_load_explicit(&serve->loaded, memory_order_acquire);
        if (loaded != 0) {
            on_loaded(serve, loaded);
        }
    }
    bt_link *link;
    while ((link = bt_intake_take(serve)) != NULL) {
        bt_link_arrived(link);
    }
    for (link = serve->links; link != NULL;) {
        bt_link *next = link->next; /* the link may end */
        if (atomic_exchange_explicit(&link->news, false, memory_order_acquire)) {
            bt_link_drain(link);
        }
        link = next;
    }
}

static void on_signal(void *ctx, int signo)
{
    bt_serve *serve = ctx;
    serve->n_signals++;
    if (serve->n_signals > 1) {
        serve->config->end_now(serve->config->ctx, 128 + signo);
    }
    if (serve->state == BT_SERVE_LOADING) {
        bt_log(BT_LOG_INFO, "stopped", "signal=%d while loading", signo);
        serve->config->end_now(serve->config->ctx, 0);
    }
    if (serve->state == BT_SERVE_STOPPING) {
        return; /* loading has failed: the loop ends already, and there is no engine */
    }
    bt_log(BT_LOG_INFO, "stopping", "signal=%d grace_s=%d", signo, (int)(GRACE_NS / BT_NS_PER_S));
    serve->state = BT_SERVE_STOPPING;
    betoken_engine_drain(serve->engine);
    bt_http_server_stop(serve->http, GRACE_NS);
}

static bt_status open_http(bt_serve *serve, bt_err *err)
{
    bt_http_config http = {.host = serve->config->host,
                           .port = serve->config->port,
                           .ctx = serve,
                           .head = bt_gate_head,
                           .request = on_request,
                           .gone = on_gone,
                           .drained = on_drained,
                           .error_body = bt_gate_error_body,
                           .error_type = "application/json"};
    BT_TRY(bt_http_server_open(&http, &serve->http, err));
    bt_http_server_on_wakeup(serve->http, on_wakeup, serve);
    BT_TRY(bt_http_server_on_signal(serve->http, SIGTERM, on_signal, serve, err));
    return bt_http_server_on_signal(serve->http, SIGINT, on_signal, serve, err);
}

static bt_status run(bt_serve *serve, bt_err *err)
{
    BT_TRY(open_http(serve, err));
    BT_TRY(bt_intake_open(serve, err));
    bt_log(BT_LOG_INFO, "listening", "port=%d", bt_http_server_port(serve->http));
    int failed = pthread_create(&serve->loader, NULL, loader_main, serve);
    if (failed != 0) {
        return bt_fail(err, BT_E_IO, "cannot start the loading thread: %s", strerror(failed));
    }
    serve->loader_started = true;
    return bt_http_server_run(serve->http, err);
}

/* Where the loop has failed, requests are still open: closing the server must not find the link. */
static void drop(bt_link *link)
{
    if (link->http != NULL) {
        bt_http_request_set_user(link->http, NULL);
    }
    bt_link_free(link);
}

static void close_all(bt_serve *serve)
{
    bt_link *link;
    if (serve->loader_started) {
        pthread_join(serve->loader, NULL);
    }
    bt_intake_stop(serve);
    while ((link = bt_intake_take(serve)) != NULL) {
        drop(link);
    }
    while (serve->links != NULL) {
        drop(serve->links);
    }
    betoken_engine_close(serve->engine); /* its last wake-up was before this returns */
    bt_http_server_close(serve->http);
    bt_intake_close(serve);
    bt_buf_deinit(&serve->scratch);
}

bt_status bt_serve_run(const bt_serve_config *config, bt_err *err)
{
    bt_serve serve = {.config = config, .own_name = config->options->model};
    bool named = config->n_model_names > 0;
    serve.models = (bt_api_models){.name = named ? config->model_name : &serve.own_name,
                                   .n_names = named ? config->n_model_names : 1,
                                   .created = bt_clock_unix_s()};
    if (serve.models.name[0] == NULL) {
        return bt_fail_param(err, BT_E_INVALID, "model", "a model is needed");
    }
    bt_buf_init(&serve.scratch, BT_MEM_HTTP, SCRATCH_MAX);
    atomic_init(&serve.loaded, 0);
    bt_status status = run(&serve, err);
    close_all(&serve);
    if (status == BT_OK && serve.load_error.code != BETOKEN_OK) {
        const betoken_error *e = &serve.load_error;
        status = bt_fail_param(err, (bt_status)e->code, e->param, "%s", e->message);
    }
    if (status == BT_OK) {
        bt_log(BT_LOG_INFO, "stopped", "all requests are finished");
    }
    return status;
}
