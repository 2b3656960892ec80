/* SPDX-License-Identifier: MIT
 *
 * server.h: a strict HTTP/1.1 server on one thread, over libevent's loop and buffers.
 *
 * Order of life: open (binds and listens; before any thread is started), on_signal, on_wakeup,
 * on_tick, run (the calling thread becomes the I/O thread until a stop), close. Callbacks run on
 * the I/O thread. Only bt_http_server_wake and bt_http_server_stop may be called from others.
 *
 * A client that shuts down its sending side while its request runs is taken for gone: before
 * something is written, a half-close cannot be told from a close. */
#ifndef BT_HTTP_SERVER_H
#define BT_HTTP_SERVER_H

#include "http/request.h"

typedef struct bt_http_server bt_http_server;

typedef struct bt_http_config {
    const char *host; /* name or number; "0.0.0.0", "::" (IPv6 and IPv4); NULL or "": as "::", or
                         "0.0.0.0" on a machine without IPv6 */
    int port;         /* 0…65535; 0 lets the system choose */
    void *ctx;        /* first argument of the callbacks */

    /* The head is there, the body is not. May refuse by answering; may set *body_max, preset to
     * body_max below. NULL: accept all. */
    void (*head)(void *ctx, bt_http_request *request, uint64_t *body_max);
    /* The request is complete. Answer now or later. Required. */
    void (*request)(void *ctx, bt_http_request *request);
    /* The client left, or the connection failed, after `request` was called and before the answer
     * was complete. The pointer is dead when this returns. NULL: nobody wants to know. */
    void (*gone)(void *ctx, bt_http_request *request);
    /* A paused stream may go on. */
    void (*drained)(void *ctx, bt_http_request *request);
    /* Writes the body of an error that http itself answers (400, 408, 413, …); `text` is for a
     * person. NULL: the text itself as text/plain. */
    void (*error_body)(void *ctx, int status, const char *text, bt_buf *out);
    const char *error_type; /* content type of error_body's output */

    /* Limits; 0 or less means the default. */
    int n_connections_max;   /* 1024; beyond, connections wait in the system's queue */
    uint64_t body_max;       /* 16 MiB a request, where the head callback does not say */
    uint64_t body_bytes_max; /* 1 GiB of bodies held by connections together; beyond: 503 */
    int64_t head_ns;         /* 20 s from the first byte (or the connect) to the end of the head */
    int64_t body_ns;         /* 30 s, and one second more for each rate_min bytes */
    int64_t idle_ns;         /* 75 s between two requests */
    int64_t drain_ns;        /* 60 s for written bytes to leave, and more as for the body */
    int64_t linger_ns;       /* 2 s for the client to read an answer that ends the connection */
    int64_t rate_min;        /* 1024 bytes a second */
} bt_http_config;

typedef struct bt_http_stats {
    uint64_t n_accepted; /* connections so far */
    uint64_t n_requests; /* complete heads so far */
    uint64_t n_bad;      /* errors that http answered itself */
    uint64_t n_gone;     /* requests whose client left */
    uint64_t n_timeout;  /* connections closed by a deadline */
    int n_connections;   /* now */
    int n_running;       /* requests now between `request` and the end of the answer */
    uint64_t body_bytes; /* of request bodies held now */
} bt_http_stats;

/* Binds and listens. Copies the config (strings included). Errors name host:port: BT_E_INVALID (a
 * port out of range, a name that does not resolve), BT_E_IO (in use, not permitted). Ignores
 * SIGPIPE for the process. Returns owned. */
bt_status bt_http_server_open(const bt_http_config *config, bt_http_server **out,
                              bt_err *err) BT_MUST_USE;
/* After run has returned (or was never called). Running requests get `gone`. NULL is allowed. */
void bt_http_server_close(bt_http_server *server);

/* The port that was bound. */
int bt_http_server_port(const bt_http_server *server);
/* On the I/O thread, or after run has returned. */
void bt_http_server_stats(const bt_http_server *server, bt_http_stats *out);

/* Serves until a stop has been carried out. */
bt_status bt_http_server_run(bt_http_server *server, bt_err *err) BT_MUST_USE;

/* From any thread: accept no more, close idle connections, let requests that have begun finish;
 * after grace_ns drop what is left (with `gone`). A second call can only shorten the grace. */
void bt_http_server_stop(bt_http_server *server, int64_t grace_ns);

/* `fn` runs on the I/O thread after bt_http_server_wake; several wakes may become one call, and a
 * wake that happens during `fn` leads to another. Set before run. */
void bt_http_server_on_wakeup(bt_http_server *server, void (*fn)(void *ctx), void *ctx);
/* From any thread, async-signal-safe, never blocks. What the caller wrote before is visible to
 * `fn`. */
void bt_http_server_wake(bt_http_server *server);

/* `fn` runs on the I/O thread every period_ns. Set before run; one tick a server. */
bt_status bt_http_server_on_tick(bt_http_server *server, int64_t period_ns, void (*fn)(void *ctx),
                                 void *ctx, bt_err *err) BT_MUST_USE;

/* `fn` runs on the I/O thread when the process gets the signal, outside of signal context. Blocks
 * the signal in the calling thread: call before other threads are created, so that they inherit
 * the mask and none of them takes the signal by its default action. close restores the mask of the
 * thread that calls it. */
bt_status bt_http_server_on_signal(bt_http_server *server, int signo,
                                   void (*fn)(void *ctx, int signo), void *ctx,
                                   bt_err *err) BT_MUST_USE;

#endif
