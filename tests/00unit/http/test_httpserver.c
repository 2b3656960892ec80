/* SPDX-License-Identifier: MIT
 *
 * Goal: the server over real sockets: order of pipelined answers, refusal before the body, limits,
 * disconnects, deadlines, back-pressure, lingering close, stop, restart (cases 62, 64, 68, 79).
 * Method: a server thread on a port of the system's choice with short deadlines; the test plays
 * hostile and ordinary clients with raw bytes and compares what comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "http/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

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

static void answer(bt_http_request *request, int status, const char *body)
{
    bt_http_answer a = {.status = status, .content_type = "text/plain", .body = bt_str_of(body)};
    bt_http_respond(request, &a);
}

static void on_head(void *ctx, bt_http_request *request, uint64_t *body_max)
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

static void stream_on(fixture *f, bt_http_request *request)
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

static void on_request(void *ctx, bt_http_request *request)
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

static void on_gone(void *ctx, bt_http_request *request)
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

static void on_drained(void *ctx, bt_http_request *request)
{
    fixture *f = ctx;
    atomic_fetch_add(&f->n_drained, 1);
    stream_on(f, request);
}

static void on_error_body(void *ctx, int status, const char *text, bt_buf *out)
{
    (void)ctx;
    bt_buf_printf(out, "{\"status\":%d,\"text\":\"%s\"}", status, text);
}

static void on_wakeup(void *ctx)
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

static void on_signal(void *ctx, int signo)
{
    (void)signo;
    atomic_fetch_add(&((fixture *)ctx)->n_signals, 1);
}

static void on_tick(void *ctx)
{
    atomic_fetch_add(&((fixture *)ctx)->n_ticks, 1);
}

static void *serve(void *arg)
{
    bt_err err;
    fixture *f = arg;
    if (bt_http_server_run(f->server, &err) != BT_OK) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
    return NULL;
}

static bt_http_config config_of(fixture *f)
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

static void start_with(fixture *f, const bt_http_config *config)
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

static void start(fixture *f)
{
    memset(f, 0, sizeof *f);
    bt_http_config config = config_of(f);
    start_with(f, &config);
}

static void finish(fixture *f, int64_t grace_ns)
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

static int dial(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    struct timeval tv = {.tv_sec = 5};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    return fd;
}

static void say_n(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
        if (sent <= 0) {
            return; /* the server may have closed; what it said is checked by the caller */
        }
        bytes += sent;
        n -= (size_t)sent;
    }
}

static void say(int fd, const char *text)
{
    say_n(fd, text, strlen(text));
}

/* Reads until the text holds `until` (NULL: until the end). Returns the text; *end says whether the
 * peer closed in an orderly way. */
static const char *hear(int fd, const char *until, bool *end)
{
    static char text[1 << 16];
    size_t n = 0;
    text[0] = '\0';
    if (end != NULL) {
        *end = false;
    }
    while (n < sizeof text - 1 && (until == NULL || strstr(text, until) == NULL)) {
        ssize_t got = recv(fd, text + n, sizeof text - 1 - n, 0);
        if (got <= 0) {
            if (end != NULL) {
                *end = got == 0;
            }
            break;
        }
        n += (size_t)got;
        text[n] = '\0';
    }
    return text;
}

static void expect(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" is missing in \"%s\"", part, text);
    }
}

/* Waits until *counter reaches n; false after two seconds. */
static bool reaches(_Atomic int *counter, int n)
{
    for (int i = 0; i < 2000 && atomic_load(counter) < n; i++) {
        bt_clock_sleep_ns(MS);
    }
    return atomic_load(counter) >= n;
}

static void release(fixture *f, int how)
{
    atomic_store(&f->release, how);
    bt_http_server_wake(f->server);
}

#define HOST "Host: a\r\n"

static void pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    fixture f;
    start(&f);
    int fd = dial(f.port);
    say(fd, "GET /hold HTTP/1.1\r\n" HOST "\r\nGET /two HTTP/1.1\r\n" HOST
            "\r\nPOST /x HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nthree"
            "GET /four HTTP/1.1\r\n" HOST "Connection: close\r\n\r\nGET /five HTTP/1.1\r\n\r\n");
    assert_true(reaches(&f.n_running, 1));
    bt_clock_sleep_ns(20 * MS);
    assert_int_equal(atomic_load(&f.n_running), 1);
    release(&f, 1);
    bool end;
    const char *text = hear(fd, NULL, &end);
    assert_true(end);
    const char *a = strstr(text, "released");
    const char *b = strstr(text, "/two");
    const char *c = strstr(text, "three");
    const char *d = strstr(text, "/four");
    assert_true(a != NULL && b > a && c > b && d > c);
    assert_null(strstr(text, "/five"));
    expect(text, "Connection: close");
    close(fd);
    /* More than one turn's worth. */
    fd = dial(f.port);
    for (int i = 0; i < 100; i++) {
        say(fd, i < 99 ? "GET /i HTTP/1.1\r\n" HOST "\r\n"
                       : "GET /last HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    }
    expect(hear(fd, NULL, &end), "/last");
    assert_true(end);
    close(fd);
    finish(&f, 0);
}

/* Cases 61 and 62: errors come with http's caller's body, and the client can read them. */
static void errors_are_readable_and_close(void **state)
{
    (void)state;
    fixture f;
    start(&f);
    static const struct {
        const char *bytes, *status;
    } cases[] = {
        {"\x16\x03\x01", "HTTP/1.1 400 "},
        {"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 999999999\r\n\r\n", "HTTP/1.1 413 "},
        {"POST /small HTTP/1.1\r\n" HOST "Content-Length: 11\r\n\r\n", "HTTP/1.1 413 "},
        {"POST /small HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n6\r\n",
         "HTTP/1.1 413 "},
        {"POST /refuse HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\n", "HTTP/1.1 401 "},
        {"POST / HTTP/1.1\r\n" HOST "Expect: x\r\n\r\n", "HTTP/1.1 417 "},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\n", "HTTP/1.1 501 "},
    };
    for (size_t i = 0; i < BT_COUNT(cases); i++) {
        int fd = dial(f.port);
        say(fd, cases[i].bytes);
        bool end;
        const char *text = hear(fd, NULL, &end);
        expect(text, cases[i].status);
        expect(text, "Connection: close");
        if (strstr(text, " 401 ") == NULL) {
            expect(text, "application/json");
            expect(text, "{\"status\":");
        }
        assert_true(end);
        close(fd);
    }
    assert_int_equal(atomic_load(&f.n_running), 0);
    /* Without a body a refusal keeps the connection. */
    int fd = dial(f.port);
    say(fd, "GET /refuse HTTP/1.1\r\n" HOST "\r\nGET /inject HTTP/1.1\r\n" HOST
            "\r\nGET /after HTTP/1.1\r\n" HOST "\r\n");
    const char *text = hear(fd, "/after", NULL);
    expect(text, "HTTP/1.1 401 ");
    expect(text, "X-Id: a  X-Evil: 1\r\n");
    close(fd);
    finish(&f, 0);
}

/* A client that is still sending megabytes must be able to read the refusal. */
static void refusal_survives_unread_input(void **state)
{
    (void)state;
    fixture f;
    start(&f);
    static const char body[1 << 20];
    int fd = dial(f.port);
    say(fd, "POST /refuse HTTP/1.1\r\n" HOST "Content-Length: 1048576\r\n\r\n");
    say_n(fd, body, sizeof body);
    bool end;
    expect(hear(fd, NULL, &end), "HTTP/1.1 401 ");
    assert_true(end);
    close(fd);
    finish(&f, 0);
}

/* Case 68. */
static void expectation_is_met_once_the_head_is_accepted(void **state)
{
    (void)state;
    fixture f;
    start(&f);
    int fd = dial(f.port);
    say(fd, "POST /x HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    expect(hear(fd, "\r\n\r\n", NULL), "HTTP/1.1 100 Continue\r\n\r\n");
    say(fd, "body");
    expect(hear(fd, "body", NULL), "HTTP/1.1 200 OK");
    say(fd, "POST /refuse HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    const char *text = hear(fd, NULL, NULL);
    expect(text, "HTTP/1.1 401 ");
    assert_null(strstr(text, "100 Continue"));
    close(fd);
    fd = dial(f.port);
    say(fd, "POST /small HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 11\r\n\r\n");
    text = hear(fd, NULL, NULL);
    expect(text, "HTTP/1.1 413 ");
    assert_null(strstr(text, "100 Continue"));
    close(fd);
    finish(&f, 0);
}

/* Case 64: HEAD has the head of GET and no body. */
static void head_and_old_clients(void **state)
{
    (void)state;
    fixture f;
    start(&f);
    int fd = dial(f.port);
    say(fd, "HEAD /abcdef HTTP/1.1\r\n" HOST "\r\nHEAD /holdstream HTTP/1.1\r\n" HOST "\r\n");
    assert_true(reaches(&f.n_running, 2));
    release(&f, 2);
    const char *text = hear(fd, NULL, NULL);
    expect(text, "Content-Length: 7\r\n");
    assert_null(strstr(text, "/abcdef"));
    assert_null(strstr(text, "data: 1"));
    close(fd);
    fd = dial(f.port);
    say(fd, "GET /old HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    expect(hear(fd, "/old", NULL), "Connection: keep-alive");
    say(fd, "GET /holdstream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_true(reaches(&f.n_running, 4));
    release(&f, 2);
    bool end;
    text = hear(fd, NULL, &end);
    assert_true(end);
    assert_null(strstr(text, "chunked"));
    expect(text, "Connection: close\r\n\r\ndata: 1\n\n");
    close(fd);
    /* Half-close after a request whose answer is short. */
    fd = dial(f.port);
    say(fd, "GET /half HTTP/1.1\r\n" HOST "\r\n");
    shutdown(fd, SHUT_WR);
    expect(hear(fd, NULL, &end), "/half");
    assert_true(end);
    close(fd);
    finish(&f, 0);
}

static void clients_that_leave_are_noticed(void **state)
{
    (void)state;
    fixture f;
    start(&f);
    static const char *const paths[] = {"GET /hold HTTP/1.1\r\n" HOST "\r\n",
                                        "GET /holdstream HTTP/1.1\r\n" HOST "\r\n",
                                        "GET /hold HTTP/1.1\r\n" HOST "\r\nGET /more"};
    for (int i = 0; i < (int)BT_COUNT(paths); i++) {
        int fd = dial(f.port);
        say(fd, paths[i]);
        assert_true(reaches(&f.n_running, i + 1));
        int64_t before = bt_clock_now_ns();
        close(fd);
        assert_true(reaches(&f.n_gone, i + 1));
        assert_true(bt_clock_now_ns() - before < 500 * MS);
    }
    /* More than 64 KB sent while the request runs. */
    static char junk[80 << 10];
    memset(junk, 'x', sizeof junk);
    int fd = dial(f.port);
    say(fd, paths[0]);
    assert_true(reaches(&f.n_running, 4));
    say_n(fd, junk, sizeof junk);
    assert_true(reaches(&f.n_gone, 4));
    close(fd);
    /* Waiting for an answer has no deadline. */
    fd = dial(f.port);
    say(fd, paths[0]);
    assert_true(reaches(&f.n_running, 5));
    bt_clock_sleep_ns(700 * MS);
    release(&f, 1);
    expect(hear(fd, "released", NULL), "200 OK");
    close(fd);
    finish(&f, 0);
}

/* Sends the bytes one by one, 10 ms apart, until the server answers. */
static const char *trickle(int fd, const char *bytes, int64_t *took_ns)
{
    int64_t before = bt_clock_now_ns();
    for (size_t i = 0; bytes[i] != '\0'; i++) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 10) != 0) {
            break;
        }
        say_n(fd, bytes + i, 1);
    }
    const char *text = hear(fd, NULL, NULL);
    *took_ns = bt_clock_now_ns() - before;
    return text;
}

static void slow_senders_meet_a_deadline(void **state)
{
    (void)state;
    fixture f;
    start(&f);
    int64_t took_ns;
    int fd = dial(f.port);
    expect(
        trickle(fd, "GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", &took_ns),
        "HTTP/1.1 408 ");
    assert_true(took_ns > 100 * MS && took_ns < 550 * MS);
    close(fd);
    fd = dial(f.port);
    say(fd, "POST / HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\n");
    expect(trickle(fd, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", &took_ns),
           "HTTP/1.1 408 ");
    close(fd);
    /* Silence gets silence. */
    bool end;
    fd = dial(f.port);
    assert_string_equal(hear(fd, NULL, &end), "");
    assert_true(end);
    close(fd);
    fd = dial(f.port);
    say(fd, "GET /a HTTP/1.1\r\n" HOST "\r\n");
    int64_t before = bt_clock_now_ns();
    expect(hear(fd, NULL, &end), "200 OK");
    assert_true(end && bt_clock_now_ns() - before > 200 * MS);
    close(fd);
    finish(&f, 0);
}

static void slow_readers_pause_the_stream(void **state)
{
    (void)state;
    fixture f;
    start(&f);
    int fd = dial(f.port);
    say(fd, "GET /stream HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    assert_true(reaches(&f.n_paused, 1));
    bt_clock_sleep_ns(50 * MS);
    static char sink[1 << 16];
    size_t n = 0;
    for (;;) {
        ssize_t got = recv(fd, sink, sizeof sink, 0);
        if (got <= 0) {
            break;
        }
        n += (size_t)got;
    }
    assert_true(n > STREAM_BYTES && memmem(sink, 64, "x", 1) == NULL);
    assert_true(atomic_load(&f.n_drained) >= 1);
    assert_int_equal(atomic_load(&f.n_gone), 0);
    close(fd);
    /* One that never reads is dropped after the drain deadline, one that floods at once. */
    fd = dial(f.port);
    int small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    say(fd, "GET /stream HTTP/1.1\r\n" HOST "\r\n");
    assert_true(reaches(&f.n_gone, 1) || reaches(&f.n_gone, 1) || reaches(&f.n_gone, 1));
    close(fd);
    fd = dial(f.port);
    say(fd, "GET /flood HTTP/1.1\r\n" HOST "\r\n");
    assert_true(reaches(&f.n_gone, 2));
    close(fd);
    finish(&f, 0);
}

static void connections_beyond_the_cap_wait(void **state)
{
    (void)state;
    fixture f;
    memset(&f, 0, sizeof f);
    bt_http_config config = config_of(&f);
    config.n_connections_max = 2;
    config.head_ns = 3000 * MS;
    start_with(&f, &config);
    int a = dial(f.port);
    int b = dial(f.port);
    int c = dial(f.port);
    say(c, "GET /third HTTP/1.1\r\n" HOST "\r\n");
    struct pollfd p = {.fd = c, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 50), 0);
    close(a);
    expect(hear(c, "/third", NULL), "200 OK");
    close(b);
    close(c);
    finish(&f, 0);
}

/* Out of file descriptors: the server waits without spinning and goes on when there are some. */
static void missing_descriptors_pause_accept(void **state)
{
    (void)state;
    fixture f;
    start(&f);
    int first = dial(f.port);
    say(first, "GET /a HTTP/1.1\r\n" HOST "\r\n");
    hear(first, "/a", NULL);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct rlimit before;
    getrlimit(RLIMIT_NOFILE, &before);
    struct rlimit tight = {.rlim_cur = (rlim_t)fd + 1, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &tight);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)f.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    say(fd, "GET /late HTTP/1.1\r\n" HOST "\r\n");
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 60), 0);
    setrlimit(RLIMIT_NOFILE, &before);
    expect(hear(fd, "/late", NULL), "200 OK");
    close(fd);
    close(first);
    finish(&f, 0);
}

static void stop_lets_running_requests_finish(void **state)
{
    (void)state;
    fixture f;
    start(&f);
    int idle = dial(f.port);
    say(idle, "GET /a HTTP/1.1\r\n" HOST "\r\n");
    hear(idle, "/a", NULL);
    int busy = dial(f.port);
    say(busy, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    assert_true(reaches(&f.n_running, 2));
    bt_http_server_stop(f.server, 5000 * MS);
    bool end;
    assert_string_equal(hear(idle, NULL, &end), "");
    assert_true(end);
    release(&f, 1);
    const char *text = hear(busy, NULL, &end);
    expect(text, "released");
    expect(text, "Connection: close");
    close(busy);
    close(idle);
    finish(&f, 5000 * MS);
    /* What outlasts the grace is dropped and told. */
    start(&f);
    busy = dial(f.port);
    say(busy, "GET /holdstream HTTP/1.1\r\n" HOST "\r\n");
    hear(busy, "data: 1", NULL);
    finish(&f, 20 * MS);
    assert_int_equal(atomic_load(&f.n_gone), 1);
    close(busy);
}

static void signals_ticks_and_wakeups_arrive(void **state)
{
    (void)state;
    fixture f;
    start(&f);
    kill(getpid(), SIGUSR1);
    assert_true(reaches(&f.n_signals, 1));
    assert_true(reaches(&f.n_ticks, 2));
    int seen = atomic_load(&f.n_wakeups);
    bt_http_server_wake(f.server);
    assert_true(reaches(&f.n_wakeups, seen + 1));
    finish(&f, 0);
}

/* Case 79. */
static void ports_in_use_and_restarts(void **state)
{
    (void)state;
    fixture f;
    start(&f);
    bt_http_config config = config_of(&f);
    bt_http_server *second = NULL;
    bt_err err;
    config.port = f.port;
    char place[32];
    snprintf(place, sizeof place, "127.0.0.1:%d", f.port);
    assert_int_equal(bt_http_server_open(&config, &second, &err), BT_E_IO);
    expect(err.message, place);
    static const int bad[] = {-1, 65536, 70000};
    for (size_t i = 0; i < BT_COUNT(bad); i++) {
        config.port = bad[i];
        assert_int_equal(bt_http_server_open(&config, &second, &err), BT_E_INVALID);
    }
    config.port = 0;
    config.host = "no such name.invalid";
    assert_int_equal(bt_http_server_open(&config, &second, &err), BT_E_INVALID);
    expect(err.message, "no such name.invalid:0");
    assert_null(second);
    int port = f.port;
    for (int round = 0; round < 20; round++) {
        /* The server closes first, so its side is the one in TIME_WAIT. */
        for (int i = 0; i < (round == 0 ? 50 : 1); i++) {
            int fd = dial(port);
            say(fd, "GET /a HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
            hear(fd, NULL, NULL);
            close(fd);
        }
        finish(&f, 0);
        memset(&f, 0, sizeof f);
        config = config_of(&f);
        config.port = port;
        start_with(&f, &config);
        assert_int_equal(f.port, port);
    }
    finish(&f, 0);
}

static void the_wildcard_serves_both_families(void **state)
{
    (void)state;
    int probe = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool has_v6 = probe >= 0 && bind(probe, (struct sockaddr *)&to, sizeof to) == 0;
    if (probe >= 0) {
        close(probe);
    }
    if (!has_v6) {
        print_message("this machine has no IPv6 loopback\n");
        skip();
    }
    fixture f;
    memset(&f, 0, sizeof f);
    bt_http_config config = config_of(&f);
    config.host = "::";
    start_with(&f, &config);
    int fd = dial(f.port);
    say(fd, "GET /v4 HTTP/1.1\r\n" HOST "\r\n");
    expect(hear(fd, "/v4", NULL), "200 OK");
    close(fd);
    fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin6_port = htons((uint16_t)f.port);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    say(fd, "GET /v6 HTTP/1.1\r\n" HOST "\r\n");
    expect(hear(fd, "/v6", NULL), "200 OK");
    close(fd);
    finish(&f, 0);
}

/* Law 5: whatever clients send, whenever they leave, the server goes on. Seeded mutations of good
 * requests in random pieces, with all kinds of endings, while answers are released at random. */
static void random_clients_break_nothing(void **state)
{
    (void)state;
    static const char *const seeds[] = {
        "GET /hold HTTP/1.1\r\n" HOST "\r\nGET /two HTTP/1.1\r\n" HOST "\r\n",
        "POST /x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "POST /x HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nabcde",
        "GET /holdstream HTTP/1.0\r\n\r\nGET /x HTTP/1.1\r\n" HOST "\r\n",
        "HEAD /refuse HTTP/1.1\r\n" HOST "\r\nGET /stream HTTP/1.1\r\n" HOST "\r\n",
        "POST /refuse HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\n123",
        "GET /flood HTTP/1.1\r\n" HOST "\r\n",
    };
    fixture f;
    start(&f);
    uint64_t seed = 2026;
    int held_open[16];
    int n_open = 0;
    for (int i = 0; i < 400; i++) {
        uint64_t r = bt_rng_next(&seed);
        char text[256];
        int n = snprintf(text, sizeof text, "%s", seeds[r % BT_COUNT(seeds)]);
        if ((r >> 8) % 3 == 0) {
            text[(r >> 16) % (uint64_t)n] = (char)(r >> 32);
        }
        int fd = dial(f.port);
        size_t cut = (size_t)((r >> 40) % (uint64_t)n);
        say_n(fd, text, cut);
        if ((r >> 12) % 4 == 0) {
            sched_yield();
        }
        say_n(fd, text + cut, (size_t)n - cut);
        if ((r >> 14) % 4 == 0) {
            shutdown(fd, SHUT_WR);
        }
        if ((r >> 20) % 4 == 0) {
            release(&f, (int)(r >> 22) % 2 == 0 ? 1 : 2);
        }
        if ((r >> 24) % 2 == 0 && n_open < (int)BT_COUNT(held_open)) {
            held_open[n_open++] = fd;
        } else {
            char sink[512];
            recv(fd, sink, sizeof sink, MSG_DONTWAIT);
            close(fd);
        }
        if (n_open == (int)BT_COUNT(held_open)) {
            while (n_open > 0) {
                close(held_open[--n_open]);
            }
        }
    }
    while (n_open > 0) {
        close(held_open[--n_open]);
    }
    int fd = dial(f.port);
    say(fd, "GET /alive HTTP/1.1\r\n" HOST "\r\n");
    expect(hear(fd, "/alive", NULL), "200 OK");
    close(fd);
    finish(&f, 0);
}

/* The n-th allocation fails, n = 1, 2, 3 …: open says so and leaves nothing behind. */
static void open_survives_missing_memory(void **state)
{
    (void)state;
    fixture f;
    memset(&f, 0, sizeof f);
    bt_http_config config = config_of(&f);
    bt_status status = BT_E_NO_MEMORY;
    for (uint64_t n = 1; status != BT_OK; n++) {
        assert_true(n < 100);
        bt_http_server *server = NULL;
        bt_mem_fail_after(n);
        status = bt_http_server_open(&config, &server, NULL);
        bt_mem_fail_after(0);
        assert_true(status == BT_OK || (status == BT_E_NO_MEMORY && server == NULL));
        bt_http_server_close(server);
        assert_int_equal(bt_mem_used(BT_MEM_HTTP), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pipelined_requests_are_answered_in_order),
        cmocka_unit_test(errors_are_readable_and_close),
        cmocka_unit_test(refusal_survives_unread_input),
        cmocka_unit_test(expectation_is_met_once_the_head_is_accepted),
        cmocka_unit_test(head_and_old_clients),
        cmocka_unit_test(clients_that_leave_are_noticed),
        cmocka_unit_test(slow_senders_meet_a_deadline),
        cmocka_unit_test(slow_readers_pause_the_stream),
        cmocka_unit_test(connections_beyond_the_cap_wait),
        cmocka_unit_test(missing_descriptors_pause_accept),
        cmocka_unit_test(stop_lets_running_requests_finish),
        cmocka_unit_test(signals_ticks_and_wakeups_arrive),
        cmocka_unit_test(ports_in_use_and_restarts),
        cmocka_unit_test(the_wildcard_serves_both_families),
        cmocka_unit_test(random_clients_break_nothing),
        cmocka_unit_test(open_survives_missing_memory),
    };
    return cmocka_run_group_tests_name("http/server", tests, NULL, NULL);
}
