/* SPDX-License-Identifier: MIT
 *
 * Goal: the server at its limits: connection cap, missing descriptors and memory, stop, restart,
 * signals, random clients (cases 62, 79).
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
#include "httpkit_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

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
        cmocka_unit_test(connections_beyond_the_cap_wait),
        cmocka_unit_test(missing_descriptors_pause_accept),
        cmocka_unit_test(stop_lets_running_requests_finish),
        cmocka_unit_test(signals_ticks_and_wakeups_arrive),
        cmocka_unit_test(ports_in_use_and_restarts),
        cmocka_unit_test(the_wildcard_serves_both_families),
        cmocka_unit_test(random_clients_break_nothing),
        cmocka_unit_test(open_survives_missing_memory),
    };
    return cmocka_run_group_tests_name("http/limits", tests, NULL, NULL);
}
