/* SPDX-License-Identifier: MIT
 *
 * The clients of the server tests: raw sockets that say bytes and hear answers. */
#ifndef TEST_HTTPKIT_CLIENT_H
#define TEST_HTTPKIT_CLIENT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "httpkit_server.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

static inline int dial(int port)
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

static inline void say_n(int fd, const char *bytes, size_t n)
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

static inline void say(int fd, const char *text)
{
    say_n(fd, text, strlen(text));
}

/* Reads until the text holds `until` (NULL: until the end). Returns the text; *end says whether the
 * peer closed in an orderly way. */
static inline const char *hear(int fd, const char *until, bool *end)
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

static inline void expect(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" is missing in \"%s\"", part, text);
    }
}

/* Waits until *counter reaches n; false after two seconds. */
static inline bool reaches(_Atomic int *counter, int n)
{
    for (int i = 0; i < 2000 && atomic_load(counter) < n; i++) {
        bt_clock_sleep_ns(MS);
    }
    return atomic_load(counter) >= n;
}

static inline void release(fixture *f, int how)
{
    atomic_store(&f->release, how);
    bt_http_server_wake(f->server);
}

#define HOST "Host: a\r\n"

#endif
