/* SPDX-License-Identifier: MIT
 *
 * serving.h: the server's state and the parts that share it. Internal to serve.
 *
 * Owner of everything is the I/O thread, but for what a comment gives to another one. A link belongs
 * to the I/O thread, to intake between bt_intake_give and bt_intake_take, and is never touched by
 * both. */
#ifndef BT_SERVE_SERVING_H
#define BT_SERVE_SERVING_H

#include "api/models.h"
#include "api/reply.h"
#include "api/route.h"
#include "base/bell.h"
#include "base/ring.h"
#include "http/server.h"
#include "serve/serve.h"

#include <pthread.h>

typedef struct bt_serve bt_serve;

/* One request that needs the engine, from its body to the end of its answer. */
typedef struct bt_link {
    bt_serve *serve;
    struct bt_link *prev, *next; /* among those whose streams run */
    bt_http_request *http;       /* NULL: the client has left */
    uint64_t number;             /* of the HTTP request */
    bt_api_endpoint endpoint;
    bt_buf body;
    size_t n_body;     /* bytes that the body had */
    _Atomic bool gone; /* set by I/O, read by intake: spare the work */
    _Atomic bool news; /* set by the engine thread, taken by I/O */

    /* Filled by intake: an answer (http_status != 0), or streams. */
    int http_status;
    bt_buf answer;
    bt_api_request request;
    bt_api_reply reply;
    betoken_stream **stream; /* [n_streams] */
    bool *ended;             /* [n_streams] the last event was taken */
    size_t n_streams;
    bool listed, begun; /* in the list of links; the event stream has begun */
} bt_link;

typedef struct bt_intake {
    bt_ring todo, done;  /* bt_link * */
    size_t n_inside;     /* I/O thread: links given and not yet taken back */
    size_t bytes_inside; /* of their bodies */
    bt_bell bell;
    _Atomic bool stop;
    pthread_t thread;
    bool started;
} bt_intake;

typedef enum bt_serve_state { BT_SERVE_LOADING, BT_SERVE_READY, BT_SERVE_STOPPING } bt_serve_state;

struct bt_serve {
    const bt_serve_config *config;
    bt_http_server *http;
    bt_serve_state state;
    int n_signals;
    const char *own_name; /* stands in for served names that were not given */
    bt_api_models models;
    betoken_engine *engine; /* written by the loader before `loaded` */
    betoken_info info;
    pthread_t loader;
    bool loader_started;
    _Atomic int loaded; /* 0 not yet, 1 ready, -1 failed: release by the loader, acquire by I/O */
    betoken_error load_error;
    bt_intake intake;
    bt_link *links;
    bt_buf scratch; /* bytes of an answer under way */
};

/* --- gate.c: what is decided from a request's head ------------------------------------------- */

/* Refuses (answers) what needs no body to be refused, and sets the limit of the body. */
void bt_gate_head(void *ctx, bt_http_request *request, uint64_t *body_max);
void bt_gate_error_body(void *ctx, int status, const char *text, bt_buf *out);
/* Answers with an error body; adds Retry-After to 429 and 503. */
void bt_gate_refuse(bt_http_request *request, int http_status, const char *param, const char *code,
                    const char *message);
/* Answers with ready JSON (or another type); the same fields are added. */
void bt_gate_respond(bt_http_request *request, int http_status, const char *type, bt_str body);

/* --- pages.c: answers that need no work ------------------------------------------------------- */

void bt_pages_answer(bt_serve *serve, bt_http_request *request, const bt_api_route *route,
                     bt_str rest);

/* --- intake.c --------------------------------------------------------------------------------- */

bt_status bt_intake_open(bt_serve *serve, bt_err *err) BT_MUST_USE;
bt_status bt_intake_start(bt_serve *serve, bt_err *err) BT_MUST_USE;
/* False when too many are inside. */
bool bt_intake_give(bt_serve *serve, bt_link *link) BT_MUST_USE;
/* The next one that is ready; NULL when there is none. */
bt_link *bt_intake_take(bt_serve *serve);
/* Joins the thread; what it held can then be taken. */
void bt_intake_stop(bt_serve *serve);
void bt_intake_close(bt_serve *serve);

/* --- link.c ----------------------------------------------------------------------------------- */

/* Takes the request's body and gives it to intake, or refuses. */
void bt_link_open(bt_serve *serve, bt_http_request *request, bt_api_endpoint endpoint);
/* Back from intake: answers, or begins to follow its streams. */
void bt_link_arrived(bt_link *link);
/* Moves events to the client. May end and free the link. */
void bt_link_drain(bt_link *link);
/* The client has left: cancels. */
void bt_link_gone(bt_link *link);
/* Closes streams (which cancels them) and frees; the HTTP request is not touched. */
void bt_link_free(bt_link *link);
/* Called by the engine thread. */
void bt_link_wake(void *ctx);

#endif
