/* SPDX-License-Identifier: MIT
 *
 * conn.h: what server.c, conn.c and respond.c share. Internal to this folder.
 *
 *          ┌──────────── keep-alive ────────────┐
 *          ▼                                    │
 *   accept → READ (idle, head, body) → RUN ─────┤
 *             │ refused                         │ last answer
 *             └────────→ FLUSH ←────────────────┘
 *                          │ output sent, write side shut
 *                          ▼
 *                        LINGER → DEAD
 *
 * All of it belongs to the I/O thread. */
#ifndef BT_HTTP_CONN_H
#define BT_HTTP_CONN_H

#include "http/listen.h"
#include "http/server.h"

#include <event2/event.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

struct bufferevent;
struct evbuffer;

enum {
    BT_HTTP_OUT_HIGH = 256 << 10, /* waiting output that pauses a stream */
    BT_HTTP_OUT_LOW = 64 << 10,   /* and that lets it go on */
    BT_HTTP_OUT_MAX = 16 << 20,   /* where a stream that does not pause is cut */
    BT_HTTP_IN_HIGH = 64 << 10,   /* unread input; more while a request runs is abuse */
    BT_HTTP_TURN_MAX = 16         /* pipelined requests of one connection in one turn */
};

typedef enum bt_http_conn_state {
    BT_HTTP_CONN_READ,
    BT_HTTP_CONN_RUN,
    BT_HTTP_CONN_FLUSH,
    BT_HTTP_CONN_LINGER,
    BT_HTTP_CONN_DEAD
} bt_http_conn_state;

typedef enum bt_http_phase {
    BT_HTTP_PHASE_NONE,   /* no request, or answered */
    BT_HTTP_PHASE_HEAD,   /* inside the head callback */
    BT_HTTP_PHASE_BODY,   /* accepted, the body is being read */
    BT_HTTP_PHASE_RUN,    /* handed to the request callback */
    BT_HTTP_PHASE_STREAM, /* an answer without length has begun */
    BT_HTTP_PHASE_GONE    /* inside the gone callback */
} bt_http_phase;

typedef struct bt_http_conn bt_http_conn;

/* A connection has one request at a time, so the request is a part of it. */
struct bt_http_request {
    bt_http_conn *conn;
    void *user;
    uint64_t id;
    bt_http_phase phase;
    bool paused;     /* a write said "above the high mark" */
    bool chunked;    /* the stream is sent in chunks */
    bool keep_alive; /* of the answer whose head has been sent */
    bool no_body;    /* HEAD */
    bt_buf body;
    size_t body_counted; /* bytes of `body` in server->stats.body_bytes */
};

struct bt_http_conn {
    bt_http_server *server;
    bt_http_conn *prev, *next; /* in server->conns; next alone in server->graves */
    struct bufferevent *bev;
    struct event *timer;  /* the deadline, see deadline_ns */
    struct event *resume; /* activated by hand: go on from the loop */
    bt_http_conn_state state;
    bool in_process; /* conn_process is on the stack */
    bool in_head;    /* the first byte of a head has come */
    bool blocked;    /* waits for output to drain before the next request */
    bool doomed;     /* to be dropped from the loop: memory out, output beyond its maximum */
    bool eof;        /* the peer will send no more */
    uint64_t n_requests;
    int64_t since_ns; /* start of what the state waits for: connect, idle, head, body, linger */
    int64_t out_since_ns;
    uint64_t out_sent; /* bytes drained since out_since_ns */
    int64_t armed_ns;  /* when the timer fires; INT64_MAX: not armed */
    bt_http_parser parser;
    bt_http_request request;
    char peer[BT_HTTP_PEER_MAX];
};

struct bt_http_server {
    bt_http_config config; /* with defaults filled in */
    char *error_type;      /* owned copy behind config.error_type */
    struct event_base *base;
    int fds[BT_HTTP_LISTEN_MAX];
    struct event *accepts[BT_HTTP_LISTEN_MAX];
    int n_fds;
    int port;
    bool paused_accept;
    struct event *retry_accept; /* timer after EMFILE and its kin */
    struct event *reap;         /* activated by hand: frees the graves */
    bt_http_conn *conns, *graves;
    bt_http_stats stats;
    uint64_t next_id;

    int wake_fd;
    struct event *wake_event;
    _Atomic int wake_pending;      /* 1: wake_fd has been written; pairs wake with on_wake */
    _Atomic int64_t stop_grace_ns; /* -1: no stop asked for; read after wake_pending */
    void (*wakeup)(void *ctx);
    void *wakeup_ctx;
    struct event *tick_event;
    void (*tick)(void *ctx);
    void *tick_ctx;

    bool stopping;
    int64_t stop_at_ns;
    struct event *stop_event;
    bool running;
    pthread_t thread; /* of run */

    int signal_fd;
    sigset_t signals, signals_before;
    struct event *signal_event;
    struct {
        void (*fn)(void *ctx, int signo);
        void *ctx;
    } on_signal[65];

    time_t date_s; /* of date_text */
    char date_text[40];
};

/* server.c */
/* The connection has been unlinked; accepting may go on, and the loop may end. */
void bt_http_server_bury(bt_http_server *server, bt_http_conn *conn);
/* "Tue, 01 Dec 2026 02:00:00 GMT". */
const char *bt_http_server_date(bt_http_server *server);
/* The loop's own thread, or no loop runs. */
void bt_http_server_assert_thread(const bt_http_server *server);

/* conn.c */
/* Takes the socket over in any case; false (socket closed) when memory is out. */
bool bt_http_conn_open(bt_http_server *server, int fd, const char *peer);
/* Closes at once; a running request gets `gone`. */
void bt_http_conn_drop(bt_http_conn *conn);
/* Part of a stop: closes what waits for a request. */
void bt_http_conn_quiesce(bt_http_conn *conn);
/* Goes on from the loop soon. */
void bt_http_conn_resume(bt_http_conn *conn);
/* Sets the deadline timer as the state asks. */
void bt_http_conn_arm(bt_http_conn *conn);
struct evbuffer *bt_http_conn_output(const bt_http_conn *conn);

/* respond.c */
/* Answers with an error of http's own and closes. */
void bt_http_conn_refuse(bt_http_conn *conn, int status, const char *text);
/* Frees the body and takes it out of the count. */
void bt_http_request_clear(bt_http_request *request);

#endif
