/* SPDX-License-Identifier: MIT
 *
 * reply.h: events of the engine as an answer of the OpenAI-compatible API, whole or streamed.
 *
 *   bt_api_reply_open(&reply, request, engine, model, number, &err);
 *   for each event: bt_api_reply_event(reply, choice_idx, &event);
 *   stream: bt_api_reply_chunk(reply, choice_idx, out) as often as wanted, at the end
 *           bt_api_reply_end(reply, out); else once bt_api_reply_body(reply, out).
 *
 * What is streamed, joined, is what the whole answer holds: both come from the same state. A chunk
 * holds all that has arrived since the last one, so it may hold several tokens. One thread. */
#ifndef BT_API_REPLY_H
#define BT_API_REPLY_H

#include "api/apirequest.h"

enum { BT_API_ID_MAX = 48 };

typedef struct bt_api_choice {
    bt_buf text;      /* not yet written */
    bt_buf token_ids; /* "1,2,3", not yet written */
    /* Log-probabilities not yet written, as JSON items: chats fill `entry` alone. */
    bt_buf entry, value, top, offset;
    const int32_t *prompt; /* NULL: not to be returned; borrowed */
    size_t n_prompt;
    int64_t n_chars;     /* code points of all tokens so far, for text_offset */
    int64_t n_tokens;    /* so far */
    bool begun;          /* generation has */
    bool head_written;   /* the first chunk was written */
    bool done, finished; /* the last event came; its chunk was written */
    betoken_finish finish;
    int32_t stop_token, stop_idx;
    bool stop_is_eos;
    betoken_usage usage;
} bt_api_choice;

typedef struct bt_api_reply {
    const bt_api_request *request; /* borrowed */
    const betoken_engine *engine;  /* borrowed */
    bt_str model;                  /* borrowed */
    char id[BT_API_ID_MAX];
    int64_t created;
    bt_api_choice *choice; /* [n_items of request] */
    size_t n_choices, n_done;
} bt_api_reply;

/* `number` is unique in this process; the id has it and a random part. BT_E_NO_MEMORY. */
bt_status bt_api_reply_open(bt_api_reply *reply, const bt_api_request *request,
                            const betoken_engine *engine, bt_str model, uint64_t number,
                            bt_err *err) BT_MUST_USE;
/* A zeroed reply is allowed. */
void bt_api_reply_close(bt_api_reply *reply);

/* Ids to return as the prompt's; borrowed until close. */
void bt_api_reply_prompt(bt_api_reply *reply, size_t choice_idx, const int32_t *ids, size_t n);
/* Any event but BETOKEN_EVENT_ERROR. BT_E_NO_MEMORY. */
bt_status bt_api_reply_event(bt_api_reply *reply, size_t choice_idx,
                             const betoken_event *event) BT_MUST_USE;
/* True when every choice has ended. */
bool bt_api_reply_is_done(const bt_api_reply *reply);

/* Appends what has arrived of a choice as server-sent events; nothing when there is nothing new. */
void bt_api_reply_chunk(bt_api_reply *reply, size_t choice_idx, bt_buf *out);
/* Appends the usage chunk when it was asked for, and [DONE]. */
void bt_api_reply_end(bt_api_reply *reply, bt_buf *out);
/* Appends the whole answer. */
void bt_api_reply_body(bt_api_reply *reply, bt_buf *out);

/* The sum over the choices that have ended; times are the largest. */
betoken_usage bt_api_reply_usage(const bt_api_reply *reply);

#endif
