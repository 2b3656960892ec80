/* SPDX-License-Identifier: MIT
 *
 * server.c: the loop and what hangs on it beside connections: listening sockets, wake-ups from
 * other threads, signals, the tick, the stop. */
#include "http/conn.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ACCEPTS_PER_TURN = 64 };

static struct timeval timeval_of(int64_t ns)
{
    ns = BT_MAX(ns, (int64_t)0);
    return (struct timeval){.tv_sec = ns / BT_NS_PER_S, .tv_usec = ns % BT_NS_PER_S / 1000};
}

void bt_http_server_assert_thread(const bt_http_server *server)
{
    BT_ASSERT(!server->running || pthread_equal(server->thread, pthread_self()));
}

const char *bt_http_server_date(bt_http_server *server)
{
    time_t now = time(NULL);
    if (now != server->date_s) {
        static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
        static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                           "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
        struct tm tm;
        gmtime_r(&now, &tm);
        /* strftime's names would follow the locale. */
        snprintf(server->date_text, sizeof server->date_text, "%s, %02d %s %04d %02d:%02d:%02d GMT",
                 days[tm.tm_wday % 7], tm.tm_mday % 100, months[tm.tm_mon % 12],
                 (tm.tm_year + 1900) % 10000, tm.tm_hour % 100, tm.tm_min % 100, tm.tm_sec % 100);
        server->date_s = now;
    }
    return server->date_text;
}

static void set_accepting(bt_http_server *server, bool on)
{
    server->paused_accept = !on;
    for (int i = 0; i < server->n_fds; i++) {
        if (on) {
            event_add(server->accepts[i], NULL);
        } else {
            event_del(server->accepts[i]);
        }
    }
}

void bt_http_server_bury(bt_http_server *server, bt_http_conn *conn)
{
    if (conn->prev != NULL) {
        conn->prev->next = conn->next;
    } else {
        BT_ASSERT(server->conns == conn);
        server->conns = conn->next;
    }
    if (conn->next != NULL) {
        conn->next->prev = conn->prev;
    }
    conn->next = server->graves;
    server->graves = conn;
    server->stats.n_connections--;
    event_active(server->reap, EV_TIMEOUT, 0);
}

static void free_graves(bt_http_server *server)
{
    while (server->graves != NULL) {
        bt_http_conn *conn = server->graves;
        server->graves = conn->next;
        bt_mem_free(conn);
    }
}

/* Callbacks of a connection may still be on the stack when it is buried; here none is. */
static void on_reap(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    bt_http_server *server = arg;
    free_graves(server);
    if (server->stopping) {
        if (server->stats.n_connections == 0) {
            event_base_loopexit(server->base, NULL);
        }
    } else if (server->paused_accept &&
               server->stats.n_connections < server->config.n_connections_max) {
        set_accepting(server, true);
    }
}

static void on_accept(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    bt_http_server *server = arg;
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        if (server->stats.n_connections >= server->config.n_connections_max) {
            set_accepting(server, false);
            return;
        }
        struct sockaddr_storage address = {0};
        socklen_t n = sizeof address;
        int peer_fd = accept4(fd, (struct sockaddr *)&address, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (peer_fd >= 0) {
            char peer[BT_HTTP_PEER_MAX];
            bt_http_peer_text((const struct sockaddr *)&address, peer);
            server->stats.n_accepted++;
            if (!bt_http_conn_open(server, peer_fd, peer)) {
                bt_log(BT_LOG_WARN, "http accept", "peer=%s out of memory", peer);
            }
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            /* The connection stays in the queue, so the socket stays readable: without a pause
             * the loop would spin. */
            bt_log(BT_LOG_WARN, "http accept", "paused: %s", strerror(errno));
            set_accepting(server, false);
            struct timeval tv = timeval_of(BT_NS_PER_S / 10);
            evtimer_add(server->retry_accept, &tv);
            return;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        }
    }
}

static void on_retry_accept(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    bt_http_server *server = arg;
    if (!server->stopping && server->paused_accept) {
        set_accepting(server, true);
    }
}

static void close_listeners(bt_http_server *server)
{
    for (int i = 0; i < server->n_fds; i++) {
        if (server->accepts[i] != NULL) {
            event_free(server->accepts[i]);
        }
        close(server->fds[i]);
    }
    server->n_fds = 0;
}

static void on_stop_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    bt_http_server *server = arg;
    while (server->conns != NULL) {
        bt_http_conn_drop(server->conns);
    }
}

static void carry_out_stop(bt_http_server *server, int64_t grace_ns)
{
    int64_t at = bt_clock_now_ns() + grace_ns;
    if (!server->stopping) {
        server->stopping = true;
        server->stop_at_ns = at;
        close_listeners(server);
        for (bt_http_conn *conn = server->conns; conn != NULL;) {
            bt_http_conn *next = conn->next;
            bt_http_conn_quiesce(conn);
            conn = next;
        }
        event_active(server->reap, EV_TIMEOUT, 0);
    } else if (at >= server->stop_at_ns) {
        return;
    }
    server->stop_at_ns = at;
    struct timeval tv = timeval_of(grace_ns);
    evtimer_add(server->stop_event, &tv);
}

void bt_http_server_stop(bt_http_server *server, int64_t grace_ns)
{
    /* A hundred days are as good as for ever, and their sum with the clock cannot overflow. */
    grace_ns = BT_MIN(BT_MAX(grace_ns, (int64_t)0), 8640000 * BT_NS_PER_S);
    int64_t seen = atomic_load_explicit(&server->stop_grace_ns, memory_order_relaxed);
    while ((seen < 0 || grace_ns < seen) &&
           !atomic_compare_exchange_weak_explicit(&server->stop_grace_ns, &seen, grace_ns,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
    bt_http_server_wake(server); /* its exchange publishes the store */
}

void bt_http_server_wake(bt_http_server *server)
{
    if (atomic_exchange_explicit(&server->wake_pending, 1, memory_order_acq_rel) == 0) {
        int saved = errno;
        uint64_t one = 1;
        ssize_t written = write(server->wake_fd, &one, sizeof one);
        (void)written; /* cannot fail: the counter is 0 or 1 */
        errno = saved;
    }
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    bt_http_server *server = arg;
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof count);
    (void)got;
    /* Cleared after the read and before the work: a wake from here on writes again. */
    atomic_exchange_explicit(&server->wake_pending, 0, memory_order_acq_rel);
    int64_t grace_ns = atomic_load_explicit(&server->stop_grace_ns, memory_order_relaxed);
    if (grace_ns >= 0) {
        carry_out_stop(server, grace_ns);
    }
    if (server->wakeup != NULL) {
        server->wakeup(server->wakeup_ctx);
    }
}

void bt_http_server_on_wakeup(bt_http_server *server, void (*fn)(void *ctx), void *ctx)
{
    BT_ASSERT(!server->running);
    server->wakeup = fn;
    server->wakeup_ctx = ctx;
}

static void on_tick_event(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    bt_http_server *server = arg;
    server->tick(server->tick_ctx);
}

bt_status bt_http_server_on_tick(bt_http_server *server, int64_t period_ns, void (*fn)(void *ctx),
                                 void *ctx, bt_err *err)
{
    BT_ASSERT(!server->running && server->tick_event == NULL && period_ns > 0 && fn != NULL);
    server->tick = fn;
    server->tick_ctx = ctx;
    server->tick_event = event_new(server->base, -1, EV_PERSIST, on_tick_event, server);
    struct timeval tv = timeval_of(period_ns);
    if (server->tick_event == NULL || event_add(server->tick_event, &tv) != 0) {
        return bt_fail(err, BT_E_NO_MEMORY, "out of memory for a timer");
    }
    return BT_OK;
}

static void on_signal_fd(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    bt_http_server *server = arg;
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo < BT_COUNT(server->on_signal) &&
            server->on_signal[info.ssi_signo].fn != NULL) {
            server->on_signal[info.ssi_signo].fn(server->on_signal[info.ssi_signo].ctx,
                                                 (int)info.ssi_signo);
        }
    }
}

bt_status bt_http_server_on_signal(bt_http_server *server, int signo,
                                   void (*fn)(void *ctx, int signo), void *ctx, bt_err *err)
{
    BT_ASSERT(!server->running && fn != NULL);
    if (signo < 1 || signo >= (int)BT_COUNT(server->on_signal) ||
        sigaddset(&server->signals, signo) != 0) {
        return bt_fail(err, BT_E_INVALID, "no such signal: %d", signo);
    }
    sigset_t before;
    pthread_sigmask(SIG_BLOCK, &server->signals, &before);
    if (server->signal_fd < 0) {
        server->signals_before = before;
    }
    int fd = signalfd(server->signal_fd, &server->signals, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd < 0) {
        return bt_fail(err, BT_E_IO, "cannot watch signal %d: %s", signo, strerror(errno));
    }
    server->signal_fd = fd;
    server->on_signal[signo].fn = fn;
    server->on_signal[signo].ctx = ctx;
    if (server->signal_event == NULL) {
        server->signal_event =
            event_new(server->base, fd, EV_READ | EV_PERSIST, on_signal_fd, server);
        if (server->signal_event == NULL || event_add(server->signal_event, NULL) != 0) {
            return bt_fail(err, BT_E_NO_MEMORY, "out of memory for a signal");
        }
    }
    return BT_OK;
}

static void on_libevent_log(int severity, const char *message)
{
    bt_log(severity >= EVENT_LOG_ERR    ? BT_LOG_ERROR
           : severity >= EVENT_LOG_WARN ? BT_LOG_WARN
                                        : BT_LOG_DEBUG,
           "libevent", "%s", message);
}

static int64_t or_default(int64_t value, int64_t otherwise)
{
    return value > 0 ? value : otherwise;
}

static bool copy_config(bt_http_server *server, const bt_http_config *config)
{
    bt_http_config *c = &server->config;
    *c = *config;
    c->n_connections_max = (int)or_default(c->n_connections_max, 1024);
    c->body_max = c->body_max == 0 ? 16u << 20 : c->body_max;
    c->body_bytes_max = c->body_bytes_max == 0 ? 1u << 30 : c->body_bytes_max;
    c->head_ns = or_default(c->head_ns, 20 * BT_NS_PER_S);
    c->body_ns = or_default(c->body_ns, 30 * BT_NS_PER_S);
    c->idle_ns = or_default(c->idle_ns, 75 * BT_NS_PER_S);
    c->drain_ns = or_default(c->drain_ns, 60 * BT_NS_PER_S);
    c->linger_ns = or_default(c->linger_ns, 2 * BT_NS_PER_S);
    c->rate_min = or_default(c->rate_min, 1024);
    const char *type = c->error_type == NULL ? "text/plain; charset=utf-8" : c->error_type;
    server->error_type = bt_mem_dup(BT_MEM_HTTP, type, strlen(type));
    c->error_type = server->error_type;
    c->host = NULL; /* not needed after the bind */
    return server->error_type != NULL;
}

static bool make_events(bt_http_server *server)
{
    server->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    server->base = event_base_new();
    if (server->wake_fd < 0 || server->base == NULL) {
        return false;
    }
    server->reap = event_new(server->base, -1, 0, on_reap, server);
    server->retry_accept = evtimer_new(server->base, on_retry_accept, server);
    server->stop_event = evtimer_new(server->base, on_stop_timer, server);
    server->wake_event =
        event_new(server->base, server->wake_fd, EV_READ | EV_PERSIST, on_wake, server);
    if (server->reap == NULL || server->retry_accept == NULL || server->stop_event == NULL ||
        server->wake_event == NULL || event_add(server->wake_event, NULL) != 0) {
        return false;
    }
    for (int i = 0; i < server->n_fds; i++) {
        server->accepts[i] =
            event_new(server->base, server->fds[i], EV_READ | EV_PERSIST, on_accept, server);
        if (server->accepts[i] == NULL || event_add(server->accepts[i], NULL) != 0) {
            return false;
        }
    }
    return true;
}

bt_status bt_http_server_open(const bt_http_config *config, bt_http_server **out, bt_err *err)
{
    BT_ASSERT(config->request != NULL);
    bt_http_server *server = bt_mem_calloc(BT_MEM_HTTP, 1, sizeof *server);
    if (server == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "out of memory for the HTTP server");
    }
    server->wake_fd = server->signal_fd = -1;
    sigemptyset(&server->signals);
    atomic_init(&server->stop_grace_ns, -1);
    atomic_init(&server->wake_pending, 0);
    bt_status status =
        bt_http_listen(config->host, config->port, server->fds, &server->n_fds, &server->port, err);
    if (status == BT_OK) {
        signal(SIGPIPE, SIG_IGN);
        event_set_log_callback(on_libevent_log);
        if (!copy_config(server, config) || !make_events(server)) {
            status = bt_fail(err, BT_E_NO_MEMORY, "out of memory or files for the HTTP server");
        }
    }
    if (status != BT_OK) {
        bt_http_server_close(server);
        return status;
    }
    *out = server;
    return BT_OK;
}

static void free_event(struct event *event)
{
    if (event != NULL) {
        event_free(event);
    }
}

static void close_signals(bt_http_server *server)
{
    if (server->signal_fd < 0) {
        return;
    }
    free_event(server->signal_event);
    /* What is still pending would act by default as soon as the mask is lifted. */
    struct signalfd_siginfo info;
    while (read(server->signal_fd, &info, sizeof info) > 0) {
    }
    close(server->signal_fd);
    pthread_sigmask(SIG_SETMASK, &server->signals_before, NULL);
}

void bt_http_server_close(bt_http_server *server)
{
    if (server == NULL) {
        return;
    }
    BT_ASSERT(!server->running);
    while (server->conns != NULL) {
        bt_http_conn_drop(server->conns);
    }
    free_graves(server);
    close_listeners(server);
    close_signals(server);
    free_event(server->tick_event);
    free_event(server->wake_event);
    free_event(server->stop_event);
    free_event(server->retry_accept);
    free_event(server->reap);
    if (server->base != NULL) {
        event_base_free(server->base); /* also closes sockets whose closing was put off */
    }
    if (server->wake_fd >= 0) {
        close(server->wake_fd);
    }
    bt_mem_free(server->error_type);
    bt_mem_free(server);
}

int bt_http_server_port(const bt_http_server *server)
{
    return server->port;
}

void bt_http_server_stats(const bt_http_server *server, bt_http_stats *out)
{
    *out = server->stats;
}

bt_status bt_http_server_run(bt_http_server *server, bt_err *err)
{
    BT_ASSERT(!server->running && !server->stopping);
    server->thread = pthread_self();
    server->running = true;
    pthread_sigmask(SIG_BLOCK, &server->signals, NULL);
    int failed = event_base_dispatch(server->base);
    /* Sockets closed in the last turn are closed by the next one. */
    event_base_loop(server->base, EVLOOP_NONBLOCK);
    server->running = false;
    if (failed < 0 || !server->stopping) {
        return bt_fail(err, BT_E_IO, "the event loop failed: %s", strerror(errno));
    }
    return BT_OK;
}
