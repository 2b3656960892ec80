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
#include "http/server.h"
#include "httpkit_client.h"

#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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
    };
    return cmocka_run_group_tests_name("http/server", tests, NULL, NULL);
}
