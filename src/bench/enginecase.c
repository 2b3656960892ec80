/* SPDX-License-Identifier: MIT */
#include "bench/enginecase.h"

#include "base/mem.h"

#include <string.h>

static const char plain_text[] =
    "A small river ran behind the mill, and in the spring the children built dams of stone and "
    "clay across it. The oldest of them kept a notebook in which she wrote how high the water "
    "stood each morning, what the wind was like, and which birds had come back from the south. In "
    "the evening she read the numbers to her grandfather, who had kept the same record when he was "
    "young. They compared the two books page by page and found that the ice now broke nine days "
    "earlier than it once had, although no single year would have shown it.";

static bt_status engine_error(bt_err *err, const betoken_error *error)
{
    bt_status status = error->code == BETOKEN_NO_MEMORY ? BT_E_NO_MEMORY : BT_E_INVALID;
    return bt_fail(err, status, "%s", error->message);
}

static bt_status check_lengths(const bt_bench_engine *e, bt_err *err)
{
    betoken_info info;
    betoken_engine_info(e->engine, &info);
    if (e->n_prompt < 1 || e->n_output < 1 || e->n_prompt > info.max_model_len - e->n_output) {
        return bt_fail(err, BT_E_INVALID,
                       "a prompt of %d tokens and an answer of %d do not fit the context of %d",
                       e->n_prompt, e->n_output, info.max_model_len);
    }
    return BT_OK;
}

bt_status bt_bench_engine_init(bt_bench_engine *out, betoken_engine *engine, const char *text,
                               int n_prompt, int n_output, bt_err *err)
{
    bt_bench_engine e = {.engine = engine, .n_prompt = n_prompt, .n_output = n_output};
    BT_TRY(check_lengths(&e, err));
    betoken_request request;
    betoken_error error;
    betoken_request_init(&request);
    text = text != NULL ? text : plain_text;
    request.prompt = (betoken_text){.p = text, .n = strlen(text)};
    request.add_special_tokens = 0;
    if (betoken_tokenize(engine, &request, &e.text_ids, &e.n_text_ids, &error) != BETOKEN_OK) {
        return engine_error(err, &error);
    }
    if (e.n_text_ids == 0) {
        betoken_free(e.text_ids);
        return bt_fail(err, BT_E_INVALID, "the text that prompts are cut from has no tokens");
    }
    e.prompt = bt_mem_calloc(BT_MEM_BASE, (size_t)n_prompt, sizeof *e.prompt);
    if (e.prompt == NULL) {
        betoken_free(e.text_ids);
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for a prompt of %d tokens", n_prompt);
    }
    *out = e;
    return BT_OK;
}

void bt_bench_engine_deinit(bt_bench_engine *e)
{
    betoken_free(e->text_ids);
    bt_mem_free(e->prompt);
    *e = (bt_bench_engine){0};
}

/* Waits for the last event, which holds the times. */
static bt_status wait_end(betoken_stream *stream, betoken_usage *usage, bt_err *err)
{
    betoken_event event;
    while (betoken_stream_wait(stream, -1) && betoken_stream_next(stream, &event)) {
        if (event.type == BETOKEN_EVENT_ERROR) {
            return engine_error(err, &event.u.error);
        }
        if (event.type == BETOKEN_EVENT_DONE) {
            *usage = event.usage;
            return BT_OK;
        }
    }
    return bt_fail(err, BT_E_INTERNAL, "the answer ended without its last event");
}

static bt_bench_answer answer_of(const betoken_usage *u)
{
    int64_t first_ns = BT_MAX(u->first_token_ns - u->queue_ns, (int64_t)1);
    int64_t rest_ns = u->total_ns - u->first_token_ns;
    bool has_rate = u->completion_tokens > 1 && rest_ns > 0;
    return (bt_bench_answer){
        .first_token_ms = (double)first_ns * 1e-6,
        .prefill_tok_s = (double)(u->prompt_tokens - u->cached_tokens) / (double)first_ns * 1e9,
        .decode_tok_s = has_rate ? (double)(u->completion_tokens - 1) / (double)rest_ns * 1e9 : 0,
        .total_ms = (double)u->total_ns * 1e-6,
        .n_tokens = u->completion_tokens,
        .drafted = u->drafted,
        .accepted = u->accepted,
        .steps = u->steps};
}

bt_status bt_bench_engine_ask(bt_bench_engine *e, bt_bench_answer *out, bt_err *err)
{
    for (int i = 0; i < e->n_prompt; i++) {
        e->prompt[i] = e->text_ids[((size_t)i + e->n_asked) % e->n_text_ids];
    }
    e->n_asked++;
    betoken_request request;
    betoken_stream *stream;
    betoken_error error;
    betoken_usage usage = {0};
    betoken_request_init(&request);
    request.prompt_token_ids = e->prompt;
    request.n_prompt_token_ids = (size_t)e->n_prompt;
    request.temperature = 0;
    request.max_tokens = e->n_output;
    request.ignore_eos = true;
    if (betoken_submit(e->engine, &request, NULL, NULL, &stream, &error) != BETOKEN_OK) {
        return engine_error(err, &error);
    }
    bt_status status = wait_end(stream, &usage, err);
    betoken_stream_close(stream);
    BT_TRY(status);
    *out = answer_of(&usage);
    return BT_OK;
}

bt_status bt_bench_engine_decode(void *e, int round, double *value, bt_err *err)
{
    (void)round;
    bt_bench_answer answer;
    BT_TRY(bt_bench_engine_ask(e, &answer, err));
    *value = answer.decode_tok_s;
    return BT_OK;
}

bt_status bt_bench_engine_prefill(void *e, int round, double *value, bt_err *err)
{
    (void)round;
    bt_bench_answer answer;
    BT_TRY(bt_bench_engine_ask(e, &answer, err));
    *value = answer.prefill_tok_s;
    return BT_OK;
}
