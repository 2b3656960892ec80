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

typedef struct bt_serve_config {
    const char *host;              /* NULL: all interfaces */
    int port;                      /* 0…65535; 0 lets the system choose */
    const char *const *model_name; /* served names; the first one stands in answers by default */
    size_t n_model_names;          /* 0: options->model is the name */
    const char *const *api_key;    /* any of them opens the door */
    size_t n_api_keys;             /* 0: no key is asked for */
    const betoken_options *options;
    /* May be NULL. Called on the I/O thread when the model is loaded, before the ready line. */
    void (*ready)(void *ctx, const betoken_engine *engine, int port);
    void *ctx;
} bt_serve_config;

/* Serves until SIGTERM or SIGINT, then lets running requests finish (at most 30 s); a second signal
 * ends the process at once. Prints the ready line and a command to try on stdout. Everything in
 * `config` is borrowed until the return. Errors: BT_E_IO (host:port in use), BT_E_INVALID, and what
 * betoken_engine_open returns. A signal while the model loads ends the process with status 0. */
bt_status bt_serve_run(const bt_serve_config *config, bt_err *err) BT_MUST_USE;

#endif
