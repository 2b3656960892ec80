/* SPDX-License-Identifier: MIT
 *
 * serve.h: the OpenAI-compatible server around one engine.
 *
 * The port is bound first; then the engine loads on a thread of its own while the I/O loop already
 * answers /health with 503. Three threads work from then on: I/O (bytes, and events into answers),
 * intake (bodies into engine requests) and the engine's own. */
#ifndef BT_SERVE_SERVE_H
#define BT_SERVE_SERVE_H

#include "base/status.h"

#include <betoken.h>

typedef struct bt_serve_ready {
    const char *name, *host; /* host as configured, may be NULL */
    int port;                /* that was bound */
    bool has_chat_template, asks_key;
} bt_serve_ready;

typedef struct bt_serve_config {
    const char *host;              /* NULL: all interfaces */
    int port;                      /* 0…65535; 0 lets the system choose */
    const char *const *model_name; /* served names; the first one stands in answers by default */
    size_t n_model_names;          /* 0: options->model is the name */
    const char *const *api_key;    /* any of them opens the door */
    size_t n_api_keys;             /* 0: no key is asked for */
    const betoken_options *options;
    void *ctx; /* of the callbacks, which are called on the I/O thread */
    /* The model is loaded and requests are taken. May be NULL. */
    void (*ready)(void *ctx, const bt_serve_ready *ready);
    /* Must end the process at once, with this status: a second signal, or one while the model loads
     * (which cannot be interrupted). Required. */
    void (*end_now)(void *ctx, int status);
} bt_serve_config;

/* Serves until SIGTERM or SIGINT, then lets running requests finish (at most 30 s) and returns.
 * Everything in `config` is borrowed until then. Errors: BT_E_IO (host:port in use), BT_E_INVALID,
 * and what betoken_engine_open returns. */
bt_status bt_serve_run(const bt_serve_config *config, bt_err *err) BT_MUST_USE;

#endif
