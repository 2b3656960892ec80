/* SPDX-License-Identifier: MIT
 *
 * request.h: a request body of the OpenAI-compatible API as requests of the engine.
 *
 * Pure functions over bytes: no sockets, no engine, any thread. Known fields are honoured, or
 * refused with an error that names them, unless they hold a value that changes nothing; null stands
 * for the default; unknown fields are counted. Errors carry the field in err->param. */
#ifndef BT_API_REQUEST_H
#define BT_API_REQUEST_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/status.h"
#include "text/json.h"

#include <betoken.h>

enum { BT_API_PROMPTS_MAX = 256 }; /* prompts of one request */

typedef enum bt_api_kind {
    BT_API_COMPLETION = 1, /* /v1/completions */
    BT_API_CHAT = 2,       /* /v1/chat/completions */
    BT_API_OFFLINE = 4,    /* a line of `betoken generate --prompts` */
    BT_API_TOKENIZE = 8,   /* /tokenize; see tokenize.h */
    BT_API_DETOKENIZE = 16 /* /detokenize */
} bt_api_kind;

typedef struct bt_api_request {
    bt_arena arena; /* owns everything below */
    bt_api_kind kind;
    betoken_request *item; /* one for each prompt, in order */
    size_t n_items;
    bt_str model; /* p == NULL: not given */
    bool stream, include_usage;
    bool return_token_ids;
    bool max_tokens_given; /* offline: item[].max_tokens is -1 where it is not given */
    int n_unknown;         /* fields that were not known and are not looked at */
} bt_api_request;

/* Reads the body of a completion or chat request. BT_E_INVALID: the client's mistake (malformed
 * JSON too, with the byte in err->position); BT_E_NO_MEMORY. *out is the caller's to deinit when
 * BT_OK. */
bt_status bt_api_parse(bt_api_kind kind, bt_str body, bt_api_request *out, bt_err *err) BT_MUST_USE;

/* Reads one object of a --prompts file: `prompt` (as the completions API: may be several),
 * `prompt_token_ids` or `messages`, any field of the completions API, `logprobs`: N and
 * `return_drafts`. Copies what it needs. Unset values keep betoken_request_init's defaults, so that
 * the caller can fill in those of the command line (temperature: NAN, seed_given: false, …). */
bt_status bt_api_offline_parse(const bt_json *object, bt_api_request *out, bt_err *err) BT_MUST_USE;

/* A zeroed request is allowed. */
void bt_api_request_deinit(bt_api_request *request);

#endif
