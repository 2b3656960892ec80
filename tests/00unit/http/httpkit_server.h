/* SPDX-License-Identifier: MIT
 *
 * The server of the server tests: a thread with a server of short deadlines, whose handlers answer,
 * hold or stream by path and count what happens. */
#ifndef TEST_HTTPKIT_SERVER_H
#define TEST_HTTPKIT_SERVER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "http/server.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ll

enum { STREAM_BYTES = 4 << 20, PIECE = 32 << 10 };

typedef struct fixture {
    bt_http_server *server;
    pthread_t thread;
    int port;
    bt_http_request *held; /* I/O thread */
    bool held_stream;      /* I/O thread: a stream has begun on it */
    size_t n_streamed;     /* I/O thread */
    _Atomic int n_running, n_gone, n_paused, n_drained, n_wakeups, n_signals, n_ticks;
    _Atomic int release; /* 1: answer what is held, 2: abort it as a stream */
    _Atomic bool wrong_thread;
} fixture;

static inline void answer(bt_http_request *request, int status, const char *body)
{
    bt_http_answer a = {.status = status, .content_type = "text/plain", .body = bt_str_of(body)};
    bt_http_respond(request, &a);
}

static inline void on_head(void *ctx, bt_http_request *request, uint64_t *body_max)
{
    (void)ctx;
    bt_str path = bt_http_request_path(request);
    if (bt_str_eqz(path, "/refuse")) {
        answer(request, 401, "no");
    } else if (bt_str_eqz(path, "/small")) {
        *body_max = 10;
    } else if (bt_str_eqz(path, "/inject")) {
        bt_http_field field = {.name = BT_STR("X-Id"), .value = BT_STR("a\r\nX-Evil: 1")};
        bt_http_answer a = {.status = 405, .fields = &field, .n_fields = 1};
        bt_http_respond(request, &a);
    }
}

static inline void stream_on(fixture *f, bt_http_request *request)
{
    static const char piece[PIECE];
    while (f->n_streamed < STREAM_BYTES) {
        f->n_streamed += PIECE;
        if (bt_http_stream_write(request, piece, PIECE)) {
            atomic_fetch_add(&f->n_paused, 1);
            return;
        }
    }
    bt_http_stream_end(request);
}

static inline void on_request(void *ctx, bt_http_request *request)
{
    fixture *f = ctx;
    bt_str path = bt_http_request_path(request);
    atomic_fetch_add(&f->n_running, 1);
    bt_http_request_set_user(request, f);
    if (bt_str_eqz(path, "/hold")) {
        f->held = request;
        f->held_stream = false;
    } else if (bt_str_eqz(path, "/holdstream") || bt_str_eqz(path, "/stream")) {
        bt_http_answer a = {.status = 200, .content_type = "text/event-stream"};
        bt_http_stream_begin(request, &a);
        if (bt_str_eqz(path, "/stream")) {
            f->n_streamed = 0;
            stream_on(f, request);
        } else {
            f->held = request;
            f->held_stream = true;
            bt_http_stream_write(request, "data: 1\n\n", 9);
        }
    } else if (bt_str_eqz(path, "/flood")) {
        static const char piece[1 << 20];
        bt_http_answer a = {.status = 200};
        bt_http_stream_begin(request, &a);
        for (int i = 0; i < 40; i++) {
            bt_http_stream_write(request, piece, sizeof piece);
        }
    } else {
        bt_buf body;
        bt_http_request_take_body(request, &body);
        bt_http_answer a = {.status = 200, .body = body.n > 0 ? bt_buf_str(&body) : path};
        bt_http_respond(request, &a);
        bt_buf_deinit(&body);
    }
}

static inline void on_gone(void *ctx, bt_http_request *request)
{
    fixture *f = ctx;
    if (bt_http_request_user(request) != f) {
        atomic_store(&f->wrong_thread, true);
    }
    if (f->held == request) {
        f->held = NULL;
    }
    atomic_fetch_add(&f->n_gone, 1);
}

static inline void on_drained(void *ctx, bt_http_request *request)
{
    fixture *f = ctx;
    atomic_fetch_add(&f->n_drained, 1);
    stream_on(f, request);
}

static inline void on_error_body(void *ctx, int status, const char *text, bt_buf *out)
{
    (void)ctx;
    bt_buf_printf(out, "{\"status\":%d,\"text\":\"%s\"}", status, text);
}

static inline void on_wakeup(void *ctx)
{
    fixture *f = ctx;
    atomic_fetch_add(&f->n_wakeups, 1);
    int release = atomic_exchange(&f->release, 0);
    if (release != 0 && f->held != NULL) {
        bt_http_request *request = f->held;
        f->held = NULL;
        if (release == 1 && f->held_stream) {
            bt_http_stream_end(request);
        } else if (release == 1) {
            answer(request, 200, "released");
        } else if (f->held_stream) {
            bt_http_stream_abort(request);
        } else {
            answer(request, 503, "aborted");
        }
    }
}

static inline void on_signal(void *ctx, int signo)
{
    (void)signo;
    atomic_fetch_add(&((fixture *)ctx)->n_signals, 1);
}

static inline void on_tick(void *ctx)
{
    atomic_fetch_add(&((fixture *)ctx)->n_ticks, 1);
}

static inline void *serve(void *arg)
{
    bt_err err;
    fixture *f = arg;
    if (bt_http_server_run(f->server, &err) != BT_OK) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
    return NULL;
}

static inline bt_http_config config_of(fixture *f)
{
    return (bt_http_config){.host = "127.0.0.1",
                            .ctx = f,
                            .head = on_head,
                            .request = on_request,
                            .gone = on_gone,
                            .drained = on_drained,
                            .error_body = on_error_body,
                            .error_type = "application/json",
                            .body_max = 4 << 20,
                            .head_ns = 150 * MS,
                            .body_ns = 150 * MS,
                            .idle_ns = 300 * MS,
                            .drain_ns = 600 * MS,
                            .linger_ns = 150 * MS,
                            .rate_min = 1 << 20};
}

static inline void start_with(fixture *f, const bt_http_config *config)
{
    bt_err err = {0};
    if (bt_http_server_open(config, &f->server, &err) != BT_OK) {
        fail_msg("%s", err.message);
    }
    f->port = bt_http_server_port(f->server);
    assert_true(f->port > 0);
    bt_http_server_on_wakeup(f->server, on_wakeup, f);
    assert_int_equal(bt_http_server_on_tick(f->server, 20 * MS, on_tick, f, &err), BT_OK);
    assert_int_equal(bt_http_server_on_signal(f->server, SIGUSR1, on_signal, f, &err), BT_OK);
    assert_int_equal(pthread_create(&f->thread, NULL, serve, f), 0);
}

static inline void start(fixture *f)
{
    memset(f, 0, sizeof *f);
    bt_http_config config = config_of(f);
    start_with(f, &config);
}

static inline void finish(fixture *f, int64_t grace_ns)
{
    bt_http_server_stop(f->server, grace_ns);
    pthread_join(f->thread, NULL);
    bt_http_stats stats;
    bt_http_server_stats(f->server, &stats);
    assert_int_equal(stats.n_connections, 0);
    assert_int_equal(stats.n_running, 0);
    assert_int_equal(stats.body_bytes, 0);
    assert_false(atomic_load(&f->wrong_thread));
    bt_http_server_close(f->server);
    assert_int_equal(bt_mem_used(BT_MEM_HTTP), 0);
}

#endif
