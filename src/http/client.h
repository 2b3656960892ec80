/* SPDX-License-Identifier: MIT
 *
 * client.h: a small blocking HTTP/1.1 client for the load generator and the evaluation. Every wait
 * has a deadline; the answer is read by the same strict parser as the server's requests. One
 * connection a client, kept alive between calls and opened again when the server closed it.
 *
 * One thread at a time for one client; many clients may run on many threads. No TLS. */
#ifndef BT_HTTP_CLIENT_H
#define BT_HTTP_CLIENT_H

#include "http/parse.h"
#include "http/sse.h"

typedef struct bt_http_client bt_http_client;

/* `url` is "http://host[:port][/prefix]" or "host[:port]"; the port defaults to 80, IPv6 numbers
 * stand in brackets, the prefix is put before the path of each call. Resolves the name, connects at
 * the first call. Returns owned. BT_E_INVALID (malformed, unknown name), BT_E_UNSUPPORTED (https),
 * BT_E_NO_MEMORY. */
bt_status bt_http_client_open(const char *url, bt_http_client **out, bt_err *err) BT_MUST_USE;
/* NULL is allowed. */
void bt_http_client_close(bt_http_client *client);
/* Closes the connection (the server sees the client leave); the next call opens a new one. */
void bt_http_client_hang_up(bt_http_client *client);

typedef struct bt_http_call {
    const char *method;          /* NULL: "GET", or "POST" where there is a body */
    const char *path;            /* begins with '/'; may hold a query */
    const char *content_type;    /* of the body; NULL: "application/json" */
    const bt_http_field *fields; /* further ones, such as Authorization; no control bytes */
    size_t n_fields;
    bt_str body;           /* n = 0: none */
    int64_t timeout_ns;    /* for the whole call; 0 or less: 300 s */
    size_t answer_max;     /* bytes of the collected answer, or of one event; 0: 64 MiB */
    bt_http_sse_fn *event; /* called for each event of a text/event-stream answer with a 2xx status,
                              as it arrives; false ends the call. NULL: collect every answer */
    void *event_ctx;
} bt_http_call;

typedef struct bt_http_reply {
    int status;
    bool streamed;                     /* the answer went to `event` */
    bool stopped;                      /* `event` returned false; the connection was closed */
    bt_buf body;                       /* what was not streamed */
    int64_t sent_ns, head_ns, done_ns; /* bt_clock times: request sent, head read, all read */
} bt_http_reply;

/* Sends a request and reads its answer. *reply is filled on success only; release it with
 * bt_http_reply_deinit. An answer with an error status is a success here. BT_E_IO (refused,
 * broken off, deadline; a stream that breaks off before its end is one of these), BT_E_FORMAT (not
 * HTTP/1.1), BT_E_LIMIT, BT_E_INVALID (the call). A request on a kept connection that the server
 * closed without a byte of answer is sent once more. */
bt_status bt_http_client_call(bt_http_client *client, const bt_http_call *call,
                              bt_http_reply *reply, bt_err *err) BT_MUST_USE;
void bt_http_reply_deinit(bt_http_reply *reply);

#endif
