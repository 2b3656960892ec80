/* SPDX-License-Identifier: MIT */
#include "http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

/* What a message calls the place: IPv6 numbers get brackets. */
static void name_place(const char *host, int port, char *out, size_t n)
{
    snprintf(out, n, strchr(host, ':') != NULL ? "[%s]:%d" : "%s:%d", host, port);
}

/* Binds and listens on one address. Returns the socket, or -errno. */
static int open_one(const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    int on = 1;
    int failed = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->ai_family == AF_INET6) {
        const struct sockaddr_in6 *in6 =
            (const struct sockaddr_in6 *)(const void *)address->ai_addr;
        /* Only the wildcard serves both families; the system's default is left out of it. */
        int v6only = !IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
        failed |= setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof v6only);
    }
    if (failed != 0 || bind(fd, address->ai_addr, address->ai_addrlen) != 0 ||
        listen(fd, BACKLOG) != 0) {
        int why = errno;
        close(fd);
        return -why;
    }
    return fd;
}

static void set_port(struct addrinfo *address, int port)
{
    if (address->ai_family == AF_INET6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)address->ai_addr;
        in6->sin6_port = htons((uint16_t)port);
    } else if (address->ai_family == AF_INET) {
        struct sockaddr_in *in4 = (struct sockaddr_in *)(void *)address->ai_addr;
        in4->sin_port = htons((uint16_t)port);
    }
}

static int port_of(int fd)
{
    struct sockaddr_storage address;
    socklen_t n = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &n) != 0) {
        return 0;
    }
    return ntohs(address.ss_family == AF_INET6
                     ? ((struct sockaddr_in6 *)(void *)&address)->sin6_port
                     : ((struct sockaddr_in *)(void *)&address)->sin_port);
}

/* A name may stand for addresses that this machine lacks, as "localhost" for ::1: those are passed
 * over as long as one works. A port in use is never passed over. */
static bool is_absent(int why)
{
    return why == EADDRNOTAVAIL || why == EAFNOSUPPORT;
}

static bt_status bind_all(struct addrinfo *list, const char *place, int *fds, int *n_fds,
                          int *port_bound, bt_err *err)
{
    int n = 0;
    int port = 0;
    int why = 0;
    for (struct addrinfo *a = list; a != NULL && n < BT_HTTP_LISTEN_MAX; a = a->ai_next) {
        if (port != 0) {
            set_port(a, port);
        }
        int fd = open_one(a);
        if (fd < 0) {
            why = -fd;
            if (is_absent(why)) {
                continue;
            }
            break;
        }
        fds[n++] = fd;
        port = port_of(fd);
        why = 0;
    }
    if (n == 0 || (why != 0 && !is_absent(why))) {
        while (n > 0) {
            close(fds[--n]);
        }
        return bt_fail(err, BT_E_IO, "cannot listen on %s: %s", place, strerror(why));
    }
    *n_fds = n;
    *port_bound = port;
    return BT_OK;
}

bt_status bt_http_listen(const char *host, int port, int *fds, int *n_fds, int *port_bound,
                         bt_err *err)
{
    bool any = host == NULL || host[0] == '\0';
    if (any) {
        host = "::";
    }
    char place[300];
    name_place(host, port, place, sizeof place);
    if (port < 0 || port > 65535) {
        return bt_fail(err, BT_E_INVALID, "cannot listen on %s: the port must be 0 to 65535",
                       place);
    }
    char service[8];
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    int failed = getaddrinfo(host, service, &hints, &list);
    if (failed != 0) {
        return bt_fail(err, BT_E_INVALID, "cannot listen on %s: %s", place, gai_strerror(failed));
    }
    bt_err why = {0};
    bt_status status = bind_all(list, place, fds, n_fds, port_bound, &why);
    freeaddrinfo(list);
    if (status != BT_OK && any) {
        int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (probe < 0) {
            return bt_http_listen("0.0.0.0", port, fds, n_fds, port_bound, err);
        }
        close(probe);
    }
    if (status != BT_OK && err != NULL) {
        *err = why;
    }
    return status;
}

void bt_http_peer_text(const struct sockaddr *address, char out[BT_HTTP_PEER_MAX])
{
    char number[INET6_ADDRSTRLEN] = "?";
    int port = 0;
    const char *format = "%s:%d";
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in4 = (const struct sockaddr_in *)(const void *)address;
        inet_ntop(AF_INET, &in4->sin_addr, number, sizeof number);
        port = ntohs(in4->sin_port);
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;
        port = ntohs(in6->sin6_port);
        if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
            inet_ntop(AF_INET, in6->sin6_addr.s6_addr + 12, number, sizeof number);
        } else {
            inet_ntop(AF_INET6, &in6->sin6_addr, number, sizeof number);
            format = "[%s]:%d";
        }
    }
    snprintf(out, BT_HTTP_PEER_MAX, format, number, port);
}
