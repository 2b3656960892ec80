/* SPDX-License-Identifier: MIT
 *
 * replyparts.h: what completions and chats write differently. Internal to api. */
#ifndef BT_API_REPLYPARTS_H
#define BT_API_REPLYPARTS_H

#include "api/reply.h"

#include "text/json.h"

/* Adds a token's log-probability to the choice. */
void bt_api_completion_logprob(const bt_api_reply *reply, bt_api_choice *choice,
                               const betoken_event *event);
void bt_api_chat_logprob(const bt_api_reply *reply, bt_api_choice *choice,
                         const betoken_event *event);

/* Writes a choice of the whole answer. */
void bt_api_completion_choice(const bt_api_reply *reply, size_t choice_idx, bt_jsonw *w);
void bt_api_chat_choice(const bt_api_reply *reply, size_t choice_idx, bt_jsonw *w);

/* Appends the chunks for what is new. */
void bt_api_completion_chunks(bt_api_reply *reply, size_t choice_idx, bt_buf *out);
void bt_api_chat_chunks(bt_api_reply *reply, size_t choice_idx, bt_buf *out);

/* Begins "data: {…,"choices":[" and ends it. */
void bt_api_chunk_open(const bt_api_reply *reply, bt_jsonw *w, bt_buf *out);
void bt_api_chunk_close(const bt_api_reply *reply, bt_jsonw *w, bt_buf *out);

/* "finish_reason" and "stop_reason"; null until the choice has ended. */
void bt_api_write_finish(const bt_api_reply *reply, size_t choice_idx, bool ended, bt_jsonw *w);
/* "name": [items]. */
void bt_api_write_list(const char *name, const bt_buf *items, bt_jsonw *w);
void bt_api_write_ids(const char *name, const int32_t *ids, size_t n, bt_jsonw *w);
/* JSON has no infinity: -9999.0 stands for it, as in vLLM. */
double bt_api_finite_logprob(double value);
/* True when something has arrived that was not written. */
bool bt_api_choice_has_news(const bt_api_choice *choice);
void bt_api_choice_clear(bt_api_choice *choice);

#endif
