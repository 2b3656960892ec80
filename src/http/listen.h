/* SPDX-License-Identifier: MIT
 *
 * listen.h: listening sockets for a host and a port. */
#ifndef BT_HTTP_LISTEN_H
#define BT_HTTP_LISTEN_H

#include "base/status.h"

enum { BT_HTTP_LISTEN_MAX = 8, BT_HTTP_PEER_MAX = 64 };

/* Binds every address of the host to one port, non-blocking and close-on-exec, and listens.
 * SO_REUSEADDR is on (connections in TIME_WAIT do not hinder a restart), SO_REUSEPORT is off (a
 * second server must fail, not share). fds has room for BT_HTTP_LISTEN_MAX; owned by the caller on
 * success. Errors as in bt_http_server_open. */
bt_status bt_http_listen(const char *host, int port, int *fds, int *n_fds, int *port_bound,
                         bt_err *err) BT_MUST_USE;

struct sockaddr;
/* "127.0.0.1:80" or "[::1]:80"; IPv4 inside IPv6 is shown as IPv4. */
void bt_http_peer_text(const struct sockaddr *address, char out[BT_HTTP_PEER_MAX]);

#endif
