/* SPDX-License-Identifier: MIT
 *
 * Answers of /v1/chat/completions. In a stream the first delta of a choice holds the role and comes
 * when generation has begun, so that it tells the time of the first token; the last is empty and
 * carries the reason of the end. */
#include "api/replyparts.h"

static void push_entry_body(const bt_api_reply *reply, betoken_logprob item, bt_jsonw *w)
{
    betoken_text text = betoken_token_bytes(reply->engine, item.token);
    bt_jsonw_key(w, "token");
    bt_jsonw_str(w, (bt_str){text.p, text.n});
    bt_jsonw_key(w, "logprob");
    bt_jsonw_real(w, bt_api_finite_logprob(item.logprob));
    bt_jsonw_key(w, "bytes");
    bt_jsonw_open(w, '[');
    for (size_t i = 0; i < text.n; i++) {
        bt_jsonw_int(w, (unsigned char)text.p[i]);
    }
    bt_jsonw_close(w, ']');
}

void bt_api_chat_logprob(const bt_api_reply *reply, bt_api_choice *c, const betoken_event *event)
{
    bt_jsonw w;
    bt_buf_pushz(&c->entry, c->entry.n > 0 ? "," : "");
    bt_jsonw_init(&w, &c->entry);
    bt_jsonw_open(&w, '{');
    push_entry_body(reply, (betoken_logprob){event->token, event->logprob}, &w);
    bt_jsonw_key(&w, "top_logprobs");
    bt_jsonw_open(&w, '[');
    for (int i = 0; i < event->n_top; i++) {
        bt_jsonw_open(&w, '{');
        push_entry_body(reply, event->top[i], &w);
        bt_jsonw_close(&w, '}');
    }
    bt_jsonw_close(&w, ']');
    bt_jsonw_close(&w, '}');
}

static void write_logprobs(const bt_api_choice *c, bt_jsonw *w)
{
    bt_jsonw_key(w, "logprobs");
    if (c->entry.n == 0) {
        bt_jsonw_null(w);
        return;
    }
    bt_jsonw_open(w, '{');
    bt_api_write_list("content", &c->entry, w);
    bt_jsonw_close(w, '}');
}

void bt_api_chat_choice(const bt_api_reply *reply, size_t choice_idx, bt_jsonw *w)
{
    const bt_api_choice *c = &reply->choice[choice_idx];
    bt_jsonw_open(w, '{');
    bt_jsonw_key(w, "index");
    bt_jsonw_int(w, (int64_t)choice_idx);
    bt_jsonw_key(w, "message");
    bt_jsonw_open(w, '{');
    bt_jsonw_key(w, "role");
    bt_jsonw_strz(w, "assistant");
    bt_jsonw_key(w, "content");
    bt_jsonw_str(w, bt_buf_str(&c->text));
    bt_jsonw_key(w, "refusal");
    bt_jsonw_null(w);
    bt_jsonw_close(w, '}');
    write_logprobs(c, w);
    bt_api_write_finish(reply, choice_idx, true, w);
    if (reply->request->return_token_ids) {
        bt_api_write_list("token_ids", &c->token_ids, w);
    }
    bt_jsonw_close(w, '}');
}

typedef enum delta_kind { DELTA_ROLE, DELTA_CONTENT, DELTA_LAST } delta_kind;

static void write_delta(bt_api_reply *reply, size_t choice_idx, delta_kind kind, bt_buf *out)
{
    const bt_api_choice *c = &reply->choice[choice_idx];
    bt_jsonw w;
    bt_api_chunk_open(reply, &w, out);
    bt_jsonw_open(&w, '{');
    bt_jsonw_key(&w, "index");
    bt_jsonw_int(&w, (int64_t)choice_idx);
    bt_jsonw_key(&w, "delta");
    bt_jsonw_open(&w, '{');
    if (kind == DELTA_ROLE) {
        bt_jsonw_key(&w, "role");
        bt_jsonw_strz(&w, "assistant");
    }
    if (kind != DELTA_LAST) {
        bt_jsonw_key(&w, "content");
        bt_jsonw_str(&w, kind == DELTA_CONTENT ? bt_buf_str(&c->text) : BT_STR(""));
    }
    bt_jsonw_close(&w, '}');
    if (kind == DELTA_CONTENT) {
        write_logprobs(c, &w);
    } else {
        bt_jsonw_key(&w, "logprobs");
        bt_jsonw_null(&w);
    }
    bt_api_write_finish(reply, choice_idx, kind == DELTA_LAST, &w);
    if (kind == DELTA_CONTENT && reply->request->return_token_ids) {
        bt_api_write_list("token_ids", &c->token_ids, &w);
    }
    if (kind == DELTA_ROLE && c->prompt != NULL) {
        bt_api_write_ids("prompt_token_ids", c->prompt, c->n_prompt, &w);
    }
    bt_jsonw_close(&w, '}');
    bt_api_chunk_close(reply, &w, out);
}

void bt_api_chat_chunks(bt_api_reply *reply, size_t choice_idx, bt_buf *out)
{
    bt_api_choice *c = &reply->choice[choice_idx];
    if (c->begun && !c->head_written) {
        write_delta(reply, choice_idx, DELTA_ROLE, out);
        c->head_written = true;
    }
    if (bt_api_choice_has_news(c)) {
        write_delta(reply, choice_idx, DELTA_CONTENT, out);
        bt_api_choice_clear(c);
    }
    if (c->done && !c->finished) {
        write_delta(reply, choice_idx, DELTA_LAST, out);
        c->finished = true;
    }
}
