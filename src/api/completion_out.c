/* SPDX-License-Identifier: MIT
 *
 * Answers of /v1/completions: `text_completion` objects, whole and in chunks. */
#include "api/replyparts.h"

#include "base/map.h"
#include "text/utf8.h"

/* The text of a token as the legacy log-probability lists name it: bytes that are not whole
 * characters in OpenAI's form "bytes:\xe2\x80". */
static void push_name(betoken_text text, bt_buf *out)
{
    bt_str s = {text.p, text.n};
    if (bt_utf8_valid(s) == s.n) {
        bt_buf_push_str(out, s);
        return;
    }
    bt_buf_pushz(out, "bytes:");
    for (size_t i = 0; i < s.n; i++) {
        bt_buf_printf(out, "\\x%02x", (unsigned char)s.p[i]);
    }
}

static void push_name_json(betoken_text text, bt_buf *out)
{
    bt_buf name;
    bt_jsonw w;
    bt_buf_init(&name, BT_MEM_ENGINE, SIZE_MAX / 4);
    push_name(text, &name);
    bt_jsonw_init(&w, out);
    bt_jsonw_str(&w, bt_buf_str(&name));
    bt_buf_deinit(&name);
}

static void push_real(double value, bt_buf *out)
{
    bt_jsonw w;
    bt_jsonw_init(&w, out);
    bt_jsonw_real(&w, bt_api_finite_logprob(value));
}

/* One member of the object token text → log-probability. Two ids may have the same text; the first,
 * which is the likelier one, stays. */
static void push_top(const bt_api_reply *reply, bt_api_choice *c, betoken_logprob item,
                     bt_map *seen)
{
    betoken_text text = betoken_token_bytes(reply->engine, item.token);
    bool added = false;
    if (!bt_map_add(seen, (bt_str){text.p, text.n}, item.token, &added) || !added) {
        return;
    }
    bt_buf_pushz(&c->top, seen->n > 1 ? "," : "");
    push_name_json(text, &c->top);
    bt_buf_pushz(&c->top, ":");
    push_real(item.logprob, &c->top);
}

void bt_api_completion_logprob(const bt_api_reply *reply, bt_api_choice *c,
                               const betoken_event *event)
{
    const char *comma = c->entry.n > 0 ? "," : "";
    betoken_text text = betoken_token_bytes(reply->engine, event->token);
    bt_buf_pushz(&c->entry, comma);
    push_name_json(text, &c->entry);
    bt_buf_pushz(&c->value, comma);
    push_real(event->logprob, &c->value);
    bt_buf_printf(&c->offset, "%s%lld", comma, (long long)c->n_chars);
    for (size_t i = 0; i < text.n; i++) {
        c->n_chars += ((unsigned char)text.p[i] & 0xC0) != 0x80;
    }
    bt_map seen;
    bt_map_init(&seen, BT_MEM_ENGINE);
    bt_buf_pushz(&c->top, comma);
    bt_buf_pushz(&c->top, "{");
    for (int i = 0; i < event->n_top; i++) {
        push_top(reply, c, event->top[i], &seen);
    }
    push_top(reply, c, (betoken_logprob){event->token, event->logprob}, &seen);
    bt_buf_pushz(&c->top, "}");
    bt_map_deinit(&seen);
}

static void write_choice(const bt_api_reply *reply, size_t choice_idx, bool ended, bt_jsonw *w)
{
    const bt_api_choice *c = &reply->choice[choice_idx];
    bt_jsonw_open(w, '{');
    bt_jsonw_key(w, "index");
    bt_jsonw_int(w, (int64_t)choice_idx);
    bt_jsonw_key(w, "text");
    bt_jsonw_str(w, bt_buf_str(&c->text));
    bt_jsonw_key(w, "logprobs");
    if (c->entry.n > 0) {
        bt_jsonw_open(w, '{');
        bt_api_write_list("text_offset", &c->offset, w);
        bt_api_write_list("token_logprobs", &c->value, w);
        bt_api_write_list("tokens", &c->entry, w);
        bt_api_write_list("top_logprobs", &c->top, w);
        bt_jsonw_close(w, '}');
    } else {
        bt_jsonw_null(w);
    }
    bt_api_write_finish(reply, choice_idx, ended, w);
    if (reply->request->return_token_ids) {
        bt_api_write_list("token_ids", &c->token_ids, w);
        if (c->prompt != NULL && !c->head_written) {
            bt_api_write_ids("prompt_token_ids", c->prompt, c->n_prompt, w);
        }
    }
    bt_jsonw_close(w, '}');
}

void bt_api_completion_choice(const bt_api_reply *reply, size_t choice_idx, bt_jsonw *w)
{
    write_choice(reply, choice_idx, true, w);
}

void bt_api_completion_chunks(bt_api_reply *reply, size_t choice_idx, bt_buf *out)
{
    bt_api_choice *c = &reply->choice[choice_idx];
    bool last = c->done && !c->finished;
    if (!bt_api_choice_has_news(c) && !last) {
        return;
    }
    bt_jsonw w;
    bt_api_chunk_open(reply, &w, out);
    write_choice(reply, choice_idx, last, &w);
    bt_api_chunk_close(reply, &w, out);
    bt_api_choice_clear(c);
    c->head_written = true;
    c->finished = c->finished || last;
}
