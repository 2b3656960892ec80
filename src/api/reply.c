/* SPDX-License-Identifier: MIT
 *
 * What completions and chats have in common: the state of each choice, the frame of a chunk, usage. */
#include "api/reply.h"

#include "api/replyparts.h"
#include "base/clock.h"
#include "base/rng.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Far above what a context of tokens can fill. */
#define TEXT_MAX ((size_t)1 << 30)

static bool is_chat(const bt_api_reply *reply)
{
    return reply->request->kind == BT_API_CHAT;
}

bt_status bt_api_reply_open(bt_api_reply *reply, const bt_api_request *request,
                            const betoken_engine *engine, bt_str model, uint64_t number,
                            bt_err *err)
{
    bt_api_choice *choice = bt_mem_calloc(BT_MEM_ENGINE, request->n_items, sizeof *choice);
    if (choice == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for %zu answers", request->n_items);
    }
    for (size_t i = 0; i < request->n_items; i++) {
        bt_buf *bufs[] = {&choice[i].text,  &choice[i].token_ids, &choice[i].entry,
                          &choice[i].value, &choice[i].top,       &choice[i].offset};
        for (size_t k = 0; k < BT_COUNT(bufs); k++) {
            bt_buf_init(bufs[k], BT_MEM_ENGINE, TEXT_MAX);
        }
    }
    *reply = (bt_api_reply){.request = request,
                            .engine = engine,
                            .model = model,
                            .created = bt_clock_unix_s(),
                            .choice = choice,
                            .n_choices = request->n_items};
    (void)snprintf(reply->id, sizeof reply->id, "%s-%016" PRIx64 "%08" PRIx64,
                   is_chat(reply) ? "chatcmpl" : "cmpl", bt_rng_random_seed(), number);
    return BT_OK;
}

void bt_api_reply_close(bt_api_reply *reply)
{
    for (size_t i = 0; i < reply->n_choices; i++) {
        bt_api_choice *c = &reply->choice[i];
        bt_buf_deinit(&c->text);
        bt_buf_deinit(&c->token_ids);
        bt_buf_deinit(&c->entry);
        bt_buf_deinit(&c->value);
        bt_buf_deinit(&c->top);
        bt_buf_deinit(&c->offset);
    }
    bt_mem_free(reply->choice);
    *reply = (bt_api_reply){0};
}

void bt_api_reply_prompt(bt_api_reply *reply, size_t choice_idx, const int32_t *ids, size_t n)
{
    reply->choice[choice_idx].prompt = ids;
    reply->choice[choice_idx].n_prompt = n;
}

static void take_token(bt_api_reply *reply, bt_api_choice *c, const betoken_event *event)
{
    bool chat = is_chat(reply);
    c->n_tokens++;
    if (reply->request->return_token_ids) {
        bt_buf_printf(&c->token_ids, "%s%d", c->token_ids.n > 0 ? "," : "", (int)event->token);
    }
    if (reply->request->item[0].logprobs >= 0) {
        (chat ? bt_api_chat_logprob : bt_api_completion_logprob)(reply, c, event);
    }
    bt_buf_push(&c->text, event->u.text, (size_t)event->n);
}

bt_status bt_api_reply_event(bt_api_reply *reply, size_t choice_idx, const betoken_event *event)
{
    bt_api_choice *c = &reply->choice[choice_idx];
    switch (event->type) {
    case BETOKEN_EVENT_STARTED:
        c->begun = true;
        break;
    case BETOKEN_EVENT_TOKEN:
        take_token(reply, c, event);
        break;
    case BETOKEN_EVENT_TEXT:
        bt_buf_push(&c->text, event->u.text, (size_t)event->n);
        break;
    case BETOKEN_EVENT_DONE:
        c->begun = true;
        c->done = true;
        c->finish = event->finish;
        c->stop_token = event->stop_token;
        c->stop_idx = event->stop_idx;
        c->stop_is_eos = event->stop_is_eos;
        c->usage = event->usage;
        reply->n_done++;
        break;
    case BETOKEN_EVENT_DRAFTS:
    case BETOKEN_EVENT_ERROR:
        break;
    }
    const bt_buf *bufs[] = {&c->text, &c->token_ids, &c->entry, &c->value, &c->top, &c->offset};
    for (size_t i = 0; i < BT_COUNT(bufs); i++) {
        BT_TRY(bt_buf_ok(bufs[i]));
    }
    return BT_OK;
}

bool bt_api_reply_is_done(const bt_api_reply *reply)
{
    return reply->n_done == reply->n_choices;
}

bool bt_api_choice_has_news(const bt_api_choice *c)
{
    return c->text.n > 0 || c->token_ids.n > 0 || c->entry.n > 0;
}

void bt_api_choice_clear(bt_api_choice *c)
{
    bt_buf_clear(&c->text);
    bt_buf_clear(&c->token_ids);
    bt_buf_clear(&c->entry);
    bt_buf_clear(&c->value);
    bt_buf_clear(&c->top);
    bt_buf_clear(&c->offset);
}

betoken_usage bt_api_reply_usage(const bt_api_reply *reply)
{
    betoken_usage sum = {0};
    for (size_t i = 0; i < reply->n_choices; i++) {
        const betoken_usage *u = &reply->choice[i].usage;
        sum.prompt_tokens += u->prompt_tokens;
        sum.completion_tokens += u->completion_tokens;
        sum.cached_tokens += u->cached_tokens;
        sum.drafted += u->drafted;
        sum.accepted += u->accepted;
        sum.steps += u->steps;
        sum.queue_ns = BT_MAX(sum.queue_ns, u->queue_ns);
        sum.first_token_ns = BT_MAX(sum.first_token_ns, u->first_token_ns);
        sum.total_ns = BT_MAX(sum.total_ns, u->total_ns);
    }
    return sum;
}

static void write_usage(const bt_api_reply *reply, bt_jsonw *w)
{
    betoken_usage u = bt_api_reply_usage(reply);
    bt_jsonw_open(w, '{');
    bt_jsonw_key(w, "prompt_tokens");
    bt_jsonw_int(w, u.prompt_tokens);
    bt_jsonw_key(w, "completion_tokens");
    bt_jsonw_int(w, u.completion_tokens);
    bt_jsonw_key(w, "total_tokens");
    bt_jsonw_int(w, (int64_t)u.prompt_tokens + u.completion_tokens);
    bt_jsonw_key(w, "prompt_tokens_details");
    bt_jsonw_open(w, '{');
    bt_jsonw_key(w, "cached_tokens");
    bt_jsonw_int(w, u.cached_tokens);
    bt_jsonw_close(w, '}');
    bt_jsonw_key(w, "speculation");
    bt_jsonw_open(w, '{');
    bt_jsonw_key(w, "drafted");
    bt_jsonw_int(w, u.drafted);
    bt_jsonw_key(w, "accepted");
    bt_jsonw_int(w, u.accepted);
    bt_jsonw_key(w, "steps");
    bt_jsonw_int(w, u.steps);
    bt_jsonw_key(w, "tokens_per_step");
    bt_jsonw_real(w, u.steps > 0 ? (double)u.completion_tokens / u.steps : 0.0);
    bt_jsonw_close(w, '}');
    bt_jsonw_close(w, '}');
}

static void write_head(const bt_api_reply *reply, const char *object, bt_jsonw *w)
{
    bt_jsonw_open(w, '{');
    bt_jsonw_key(w, "id");
    bt_jsonw_strz(w, reply->id);
    bt_jsonw_key(w, "object");
    bt_jsonw_strz(w, object);
    bt_jsonw_key(w, "created");
    bt_jsonw_int(w, reply->created);
    bt_jsonw_key(w, "model");
    bt_jsonw_str(w, reply->model);
    bt_jsonw_key(w, "choices");
    bt_jsonw_open(w, '[');
}

void bt_api_chunk_open(const bt_api_reply *reply, bt_jsonw *w, bt_buf *out)
{
    bt_buf_pushz(out, "data: ");
    bt_jsonw_init(w, out);
    write_head(reply, is_chat(reply) ? "chat.completion.chunk" : "text_completion", w);
}

void bt_api_chunk_close(const bt_api_reply *reply, bt_jsonw *w, bt_buf *out)
{
    bt_jsonw_close(w, ']');
    if (reply->request->include_usage) {
        bt_jsonw_key(w, "usage");
        bt_jsonw_null(w);
    }
    bt_jsonw_close(w, '}');
    bt_buf_pushz(out, "\n\n");
}

void bt_api_reply_chunk(bt_api_reply *reply, size_t choice_idx, bt_buf *out)
{
    (is_chat(reply) ? bt_api_chat_chunks : bt_api_completion_chunks)(reply, choice_idx, out);
}

void bt_api_reply_end(bt_api_reply *reply, bt_buf *out)
{
    if (reply->request->include_usage) {
        bt_jsonw w;
        bt_buf_pushz(out, "data: ");
        bt_jsonw_init(&w, out);
        write_head(reply, is_chat(reply) ? "chat.completion.chunk" : "text_completion", &w);
        bt_jsonw_close(&w, ']');
        bt_jsonw_key(&w, "usage");
        write_usage(reply, &w);
        bt_jsonw_close(&w, '}');
        bt_buf_pushz(out, "\n\n");
    }
    bt_buf_pushz(out, "data: [DONE]\n\n");
}

void bt_api_reply_body(bt_api_reply *reply, bt_buf *out)
{
    bt_jsonw w;
    bool chat = is_chat(reply);
    bt_jsonw_init(&w, out);
    write_head(reply, chat ? "chat.completion" : "text_completion", &w);
    for (size_t i = 0; i < reply->n_choices; i++) {
        (chat ? bt_api_chat_choice : bt_api_completion_choice)(reply, i, &w);
    }
    bt_jsonw_close(&w, ']');
    if (chat && reply->choice[0].prompt != NULL) {
        bt_api_write_ids("prompt_token_ids", reply->choice[0].prompt, reply->choice[0].n_prompt,
                         &w);
    }
    bt_jsonw_key(&w, "usage");
    write_usage(reply, &w);
    bt_jsonw_close(&w, '}');
}

void bt_api_write_finish(const bt_api_reply *reply, size_t choice_idx, bool ended, bt_jsonw *w)
{
    const bt_api_choice *c = &reply->choice[choice_idx];
    const betoken_request *item = &reply->request->item[choice_idx];
    bt_jsonw_key(w, "finish_reason");
    if (!ended) {
        bt_jsonw_null(w);
    } else {
        bt_jsonw_strz(w, c->finish == BETOKEN_FINISH_LENGTH ? "length" : "stop");
    }
    bt_jsonw_key(w, "stop_reason");
    if (ended && c->finish == BETOKEN_FINISH_STOP && c->stop_idx >= 0 &&
        (size_t)c->stop_idx < item->n_stop) {
        betoken_text stop = item->stop[c->stop_idx];
        bt_jsonw_str(w, (bt_str){stop.p, stop.n});
    } else if (ended && c->finish == BETOKEN_FINISH_STOP && c->stop_token >= 0 && !c->stop_is_eos) {
        bt_jsonw_int(w, c->stop_token);
    } else {
        bt_jsonw_null(w);
    }
}

void bt_api_write_list(const char *name, const bt_buf *items, bt_jsonw *w)
{
    bt_jsonw_key(w, name);
    bt_jsonw_open(w, '[');
    if (items->n > 0) {
        bt_jsonw_raw(w, bt_buf_str(items));
    }
    bt_jsonw_close(w, ']');
}

void bt_api_write_ids(const char *name, const int32_t *ids, size_t n, bt_jsonw *w)
{
    bt_jsonw_key(w, name);
    bt_jsonw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        bt_jsonw_int(w, ids[i]);
    }
    bt_jsonw_close(w, ']');
}

double bt_api_finite_logprob(double value)
{
    return isfinite(value) ? value : -9999.0;
}
