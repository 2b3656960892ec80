/* SPDX-License-Identifier: MIT
 *
 * request.h: one request as the floors above see it, and the ways to answer it.
 *
 * A request lives from the head callback until it is answered (bt_http_respond, stream_end,
 * stream_abort) or until the gone callback has returned; after that the pointer is dead. All
 * functions are for the I/O thread only, and none of them calls back: what they cause (gone,
 * drained, the next request) comes later, from the loop. */
#ifndef BT_HTTP_REQUEST_H
#define BT_HTTP_REQUEST_H

#include "http/parse.h"

typedef struct bt_http_request bt_http_request;

/* Borrowed until the request ends. The method as sent (case matters); the path as sent, up to '?',
 * neither decoded nor cleaned up; the query behind '?', "" when there is none. */
bt_str bt_http_request_method(const bt_http_request *request);
bt_str bt_http_request_path(const bt_http_request *request);
bt_str bt_http_request_query(const bt_http_request *request);
/* How many fields have this name (ASCII case does not matter); *value is the first one's, untouched
 * when there is none. value may be NULL. */
size_t bt_http_request_find(const bt_http_request *request, const char *name, bt_str *value);
size_t bt_http_request_n_fields(const bt_http_request *request);
bt_http_field bt_http_request_field(const bt_http_request *request, size_t field_idx);

/* The body; complete from the request callback on. Borrowed until the request ends. */
bt_str bt_http_request_body(const bt_http_request *request);
/* Hands the body over, so that another thread may read it whatever becomes of the connection:
 * *out becomes owned (bt_buf_deinit), the request's own body is empty from then on. */
void bt_http_request_take_body(bt_http_request *request, bt_buf *out);

/* 1, 2, 3 … in the order of arrival, for one server. */
uint64_t bt_http_request_id(const bt_http_request *request);
/* "127.0.0.1:40312" or "[::1]:40312"; borrowed until the request ends. */
const char *bt_http_request_peer(const bt_http_request *request);
void bt_http_request_set_user(bt_http_request *request, void *user);
void *bt_http_request_user(const bt_http_request *request);

typedef struct bt_http_answer {
    int status;                  /* 200…599 */
    const char *content_type;    /* NULL: no Content-Type */
    const bt_http_field *fields; /* further ones, not the framing ones; control bytes in values are
                                    sent as blanks */
    size_t n_fields;
    bt_str body; /* copied; not used by stream_begin */
} bt_http_answer;

/* Sends a complete answer and ends the request. Allowed from the head callback (this refuses the
 * request: its body is not read) and from the request callback on. A HEAD request gets the head
 * with the length that the body would have. */
void bt_http_respond(bt_http_request *request, const bt_http_answer *answer);

/* Begins an answer of unknown length: chunked for HTTP/1.1, up to the close for HTTP/1.0. */
void bt_http_stream_begin(bt_http_request *request, const bt_http_answer *answer);
/* Appends bytes (nothing when n is 0). True: more than 256 KB wait for this client; write no more
 * until the drained callback. A caller that goes on past 16 MB loses the connection (gone). */
bool bt_http_stream_write(bt_http_request *request, const void *bytes, size_t n);
/* True between a write that returned true and the drained callback. */
bool bt_http_stream_is_paused(const bt_http_request *request);
/* Ends the answer and the request. */
void bt_http_stream_end(bt_http_request *request);
/* Ends the request by closing after what was written, without the mark of completeness, so that
 * the client can tell that something is missing. */
void bt_http_stream_abort(bt_http_request *request);

/* "Not Found" for 404; "Unknown" for a code without a name. */
const char *bt_http_status_text(int status);

#endif
