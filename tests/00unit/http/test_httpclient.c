/* SPDX-License-Identifier: MIT
 *
 * Goal: the client reads what a server sends, whole or as events, keeps its connection, and always
 * comes back by its deadline. Method: betoken's own server for good answers, and a thread that
 * plays a bad server byte by byte from a script. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "http/client.h"
#include "http/listen.h"
#include "http/server.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS 1000000ll

typedef struct good {
    bt_http_server *server;
    pthread_t thread;
    char url[64];
    _Atomic int n_gone;
    uint64_t n_accepted; /* after finish */
} good;

static void on_head(void *ctx, bt_http_request *request, uint64_t *body_max)
{
    (void)ctx;
    *body_max = 1000000;
    bt_str key = BT_STR("");
    bt_http_request_find(request, "Authorization", &key);
    if (bt_str_eqz(bt_http_request_path(request), "/v1/key") && !bt_str_eqz(key, "Bearer k")) {
        bt_http_answer a = {.status = 401, .body = BT_STR("no key")};
        bt_http_respond(request, &a);
    }
}

static void on_request(void *ctx, bt_http_request *request)
{
    (void)ctx;
    bt_str path = bt_http_request_path(request);
    if (bt_str_eqz(path, "/v1/stream") || bt_str_eqz(path, "/v1/broken") ||
        bt_str_eqz(path, "/v1/open")) {
        bt_http_answer a = {.status = 200, .content_type = "text/event-stream; charset=utf-8"};
        bt_http_stream_begin(request, &a);
        bt_http_stream_write(request, "data: one\n\nda", 13);
        bt_http_stream_write(request, "ta: two\n\n", 9);
        if (bt_str_eqz(path, "/v1/stream")) {
            bt_http_stream_write(request, "data: [DONE]\n\n", 14);
            bt_http_stream_end(request);
        } else if (bt_str_eqz(path, "/v1/broken")) {
            bt_http_stream_abort(request);
        }
    } else if (!bt_str_eqz(path, "/v1/silent")) {
        bt_str body = bt_http_request_body(request);
        bt_http_answer a = {.status = 200, .body = body.n > 0 ? body : path};
        bt_http_respond(request, &a);
    }
}

static void on_gone(void *ctx, bt_http_request *request)
{
    (void)request;
    atomic_fetch_add(&((good *)ctx)->n_gone, 1);
}

static void *serve(void *arg)
{
    bt_err err;
    if (bt_http_server_run(((good *)arg)->server, &err) != BT_OK) {
        abort();
    }
    return NULL;
}

static void start(good *g)
{
    memset(g, 0, sizeof *g);
    bt_http_config config = {.host = "127.0.0.1",
                             .ctx = g,
                             .head = on_head,
                             .request = on_request,
                             .gone = on_gone,
                             .idle_ns = 200 * MS};
    bt_err err;
    assert_int_equal(bt_http_server_open(&config, &g->server, &err), BT_OK);
    snprintf(g->url, sizeof g->url, "http://127.0.0.1:%d/v1/", bt_http_server_port(g->server));
    assert_int_equal(pthread_create(&g->thread, NULL, serve, g), 0);
}

static void finish(good *g)
{
    bt_http_server_stop(g->server, 0);
    pthread_join(g->thread, NULL);
    bt_http_stats stats;
    bt_http_server_stats(g->server, &stats);
    g->n_accepted = stats.n_accepted;
    bt_http_server_close(g->server);
    assert_int_equal(bt_mem_used(BT_MEM_HTTP), 0);
}

static bool count_event(void *ctx, bt_str data)
{
    bt_buf *out = ctx;
    bt_buf_push_str(out, data);
    bt_buf_push_char(out, '|');
    return true;
}

static bool stop_at_once(void *ctx, bt_str data)
{
    (void)ctx;
    (void)data;
    return false;
}

static void answers_are_collected_over_one_connection(void **state)
{
    (void)state;
    good g;
    start(&g);
    bt_http_client *client = NULL;
    bt_err err;
    assert_int_equal(bt_http_client_open(g.url, &client, &err), BT_OK);
    size_t n_big = 800000;
    char *big = malloc(n_big);
    memset(big, 'x', n_big);
    for (int i = 0; i < 20; i++) {
        bt_http_call call = {.path = "/echo?x"};
        if (i % 2 == 1) {
            call.body = (bt_str){big, n_big};
        }
        bt_http_reply reply;
        assert_int_equal(bt_http_client_call(client, &call, &reply, &err), BT_OK);
        assert_int_equal(reply.status, 200);
        assert_int_equal(reply.body.n, i % 2 == 1 ? n_big : strlen("/v1/echo"));
        assert_true(reply.sent_ns <= reply.head_ns && reply.head_ns <= reply.done_ns);
        bt_http_reply_deinit(&reply);
    }
    /* The server closes the idle connection; the next call opens another. */
    bt_clock_sleep_ns(300 * MS);
    bt_http_field key = {BT_STR("Authorization"), BT_STR("Bearer k")};
    bt_http_call call = {.path = "/key"};
    bt_http_reply reply;
    assert_int_equal(bt_http_client_call(client, &call, &reply, &err), BT_OK);
    assert_int_equal(reply.status, 401);
    assert_true(bt_str_eqz(bt_buf_str(&reply.body), "no key"));
    bt_http_reply_deinit(&reply);
    call.fields = &key;
    call.n_fields = 1;
    assert_int_equal(bt_http_client_call(client, &call, &reply, &err), BT_OK);
    assert_int_equal(reply.status, 200);
    bt_http_reply_deinit(&reply);
    bt_http_call head = {.method = "HEAD", .path = "/x"};
    assert_int_equal(bt_http_client_call(client, &head, &reply, &err), BT_OK);
    assert_int_equal(reply.body.n, 0);
    bt_http_reply_deinit(&reply);
    /* A body that the server refuses while it is being sent. */
    free(big);
    big = calloc(1, 20 << 20);
    bt_http_call huge = {.path = "/x", .body = {big, 20 << 20}};
    assert_int_equal(bt_http_client_call(client, &huge, &reply, &err), BT_OK);
    assert_int_equal(reply.status, 413);
    bt_http_reply_deinit(&reply);
    free(big);
    bt_http_client_close(client);
    finish(&g);
    /* Two, or a few more where a slow machine let the connection idle between two calls. */
    assert_in_range(g.n_accepted, 2, 5);
}

static void events_arrive_and_breaks_are_told(void **state)
{
    (void)state;
    good g;
    start(&g);
    bt_http_client *client = NULL;
    bt_err err;
    bt_buf out;
    bt_buf_init(&out, BT_MEM_BASE, 1000);
    assert_int_equal(bt_http_client_open(g.url, &client, &err), BT_OK);
    bt_http_call call = {.path = "/stream", .event = count_event, .event_ctx = &out};
    bt_http_reply reply;
    assert_int_equal(bt_http_client_call(client, &call, &reply, &err), BT_OK);
    assert_true(reply.streamed && !reply.stopped);
    assert_true(bt_str_eqz(bt_buf_str(&out), "one|two|[DONE]|"));
    bt_http_reply_deinit(&reply);
    /* Not an event stream: collected. */
    call.path = "/plain";
    assert_int_equal(bt_http_client_call(client, &call, &reply, &err), BT_OK);
    assert_false(reply.streamed);
    assert_true(bt_str_eqz(bt_buf_str(&reply.body), "/v1/plain"));
    bt_http_reply_deinit(&reply);
    bt_buf_clear(&out);
    call.path = "/broken";
    assert_int_equal(bt_http_client_call(client, &call, &reply, &err), BT_E_IO);
    assert_true(bt_str_eqz(bt_buf_str(&out), "one|two|"));
    /* Stopping hangs up, and the server notices. */
    call.path = "/open";
    call.event = stop_at_once;
    assert_int_equal(bt_http_client_call(client, &call, &reply, &err), BT_OK);
    assert_true(reply.stopped);
    bt_http_reply_deinit(&reply);
    for (int i = 0; i < 1000 && atomic_load(&g.n_gone) == 0; i++) {
        bt_clock_sleep_ns(MS);
    }
    assert_int_equal(atomic_load(&g.n_gone), 1);
    /* The deadline covers a server that says nothing. */
    call.path = "/silent";
    call.timeout_ns = 50 * MS;
    int64_t before = bt_clock_now_ns();
    assert_int_equal(bt_http_client_call(client, &call, &reply, &err), BT_E_IO);
    assert_true(bt_clock_now_ns() - before < 1000 * MS);
    bt_buf_deinit(&out);
    bt_http_client_close(client);
    finish(&g);
}

typedef struct script {
    int fd;
    const char *bytes;
} script;

/* Accepts one connection, waits for a request, sends the bytes, closes. */
static void *play(void *arg)
{
    script *s = arg;
    struct pollfd p = {.fd = s->fd, .events = POLLIN};
    poll(&p, 1, 2000);
    int fd = accept(s->fd, NULL, NULL);
    char sink[4096];
    ssize_t got = recv(fd, sink, sizeof sink, 0);
    if (got > 0 && send(fd, s->bytes, strlen(s->bytes), MSG_NOSIGNAL) < 0) {
        abort();
    }
    close(fd);
    return NULL;
}

static void bad_servers_are_errors(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        bt_status want;
    } cases[] = {
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nto the end", BT_OK},
        {"", BT_E_IO},
        {"HTTP/1.1 200 OK\r\nContent-Le", BT_E_IO},
        {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", BT_E_IO},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", BT_E_IO},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", BT_E_FORMAT},
        {"SSH-2.0-OpenSSH\r\n", BT_E_FORMAT},
        {"HTTP/1.1 200 OK\r\n\r\n0123456789012345678901234567890123456789", BT_E_LIMIT},
    };
    for (size_t i = 0; i < BT_COUNT(cases); i++) {
        int fds[BT_HTTP_LISTEN_MAX];
        int n_fds;
        int port;
        bt_err err;
        assert_int_equal(bt_http_listen("127.0.0.1", 0, fds, &n_fds, &port, &err), BT_OK);
        script s = {.fd = fds[0], .bytes = cases[i].bytes};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, play, &s), 0);
        char url[64];
        snprintf(url, sizeof url, "127.0.0.1:%d", port);
        bt_http_client *client = NULL;
        assert_int_equal(bt_http_client_open(url, &client, &err), BT_OK);
        bt_http_call call = {.path = "/", .answer_max = 30, .timeout_ns = 2000 * MS};
        bt_http_reply reply;
        bt_status status = bt_http_client_call(client, &call, &reply, &err);
        if (status != cases[i].want) {
            fail_msg("case %zu: status %d, want %d", i, (int)status, (int)cases[i].want);
        }
        if (status == BT_OK) {
            assert_true(bt_str_eqz(bt_buf_str(&reply.body), "to the end"));
            bt_http_reply_deinit(&reply);
        }
        bt_http_client_close(client);
        pthread_join(thread, NULL);
        close(fds[0]);
        /* Nobody listens there any more. */
        assert_int_equal(bt_http_client_open(url, &client, &err), BT_OK);
        assert_int_equal(bt_http_client_call(client, &call, &reply, &err), BT_E_IO);
        assert_non_null(strstr(err.message, url));
        bt_http_client_close(client);
    }
}

static void urls_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        bt_status want;
    } cases[] = {{"https://localhost", BT_E_UNSUPPORTED},
                 {"", BT_E_INVALID},
                 {"http://", BT_E_INVALID},
                 {"http://[::1", BT_E_INVALID},
                 {"http://127.0.0.1:", BT_E_INVALID},
                 {"http://127.0.0.1:80x", BT_E_INVALID},
                 {"http://127.0.0.1:123456", BT_E_INVALID},
                 {"http://a b", BT_E_INVALID},
                 {"http://[127.0.0.1]x", BT_E_INVALID},
                 {"http://127.0.0.1", BT_OK},
                 {"127.0.0.1:8000/v1", BT_OK},
                 {"http://[::1]:1", BT_OK}};
    for (size_t i = 0; i < BT_COUNT(cases); i++) {
        bt_http_client *client = NULL;
        bt_err err;
        assert_int_equal(bt_http_client_open(cases[i].url, &client, &err), cases[i].want);
        if (client != NULL) {
            bt_http_call call = {.path = "no slash"};
            bt_http_reply reply;
            assert_int_equal(bt_http_client_call(client, &call, &reply, &err), BT_E_INVALID);
        }
        bt_http_client_close(client);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_collected_over_one_connection),
        cmocka_unit_test(events_arrive_and_breaks_are_told),
        cmocka_unit_test(bad_servers_are_errors),
        cmocka_unit_test(urls_are_checked),
    };
    return cmocka_run_group_tests_name("http/client", tests, NULL, NULL);
}
