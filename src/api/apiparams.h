/* SPDX-License-Identifier: MIT
 *
 * params.h: the one table of request fields: name, type, range, and whether betoken does it. */
#ifndef BT_API_PARAMS_H
#define BT_API_PARAMS_H

#include "api/apirequest.h"

/* Values as read and checked; unset ones hold the default named here. Pointers into the tree. */
typedef struct bt_api_fields {
    const bt_json *prompt, *prompt_token_ids, *messages; /* NULL */
    const bt_json *content, *tokens;                     /* tokenize, detokenize */
    const bt_json *stop, *stop_token_ids, *stream_options;
    const bt_json *logprobs; /* an integer for completions, a boolean for chats */
    const bt_json *model;
    double temperature, top_p, min_p;          /* NAN */
    int64_t top_k;                             /* BETOKEN_UNSET_INT */
    int64_t max_tokens, max_completion_tokens; /* -1 */
    int64_t top_logprobs;                      /* -1 */
    int64_t seed;
    const bt_json *seed_json;                      /* NULL: no seed */
    int add_special_tokens, add_generation_prompt; /* -1, else 0 or 1 */
    int ignore_eos, stream, return_token_ids, return_drafts;
    int add_special, with_pieces, return_token_strs; /* tokenize */
    int n_unknown;
} bt_api_fields;

/* Reads all members of a request object. *out is filled only on success. */
bt_status bt_api_fields_read(const bt_json *object, bt_api_kind kind, bt_api_fields *out,
                             bt_err *err) BT_MUST_USE;

/* An integer, or a real that holds one exactly; false otherwise. */
bool bt_api_integer(const bt_json *value, int64_t *out) BT_MUST_USE;

/* The value as compact JSON, cut short, for messages. Returns `out`. */
enum { BT_API_QUOTE_MAX = 64 };
const char *bt_api_quote(const bt_json *value, char out[BT_API_QUOTE_MAX]);

#endif
