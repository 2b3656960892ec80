/* SPDX-License-Identifier: MIT
 *
 * sse.h: server-sent events from bytes, piece by piece (WHATWG HTML, 9.2.6). Only `data` fields
 * matter to betoken; other fields and comments are read over. */
#ifndef BT_HTTP_SSE_H
#define BT_HTTP_SSE_H

#include "base/buf.h"

/* The data of one event, lines joined by LF; borrowed for the call. False stops the reading. */
typedef bool bt_http_sse_fn(void *ctx, bt_str data);

typedef struct bt_http_sse {
    bt_buf line, data;
    bool has_data;
    bool after_cr; /* an LF that follows belongs to the same line end */
    bool started;  /* a byte order mark can no longer come */
} bt_http_sse;

/* `event_max` bounds the bytes of one event and of one line. */
void bt_http_sse_init(bt_http_sse *sse, size_t event_max);
void bt_http_sse_deinit(bt_http_sse *sse);

/* Reads on and calls fn for each event that is complete. *stopped says that fn returned false; the
 * rest of the bytes is then dropped. BT_E_LIMIT: an event is too long; BT_E_NO_MEMORY. */
bt_status bt_http_sse_push(bt_http_sse *sse, bt_str bytes, bt_http_sse_fn *fn, void *ctx,
                           bool *stopped) BT_MUST_USE;

#endif
