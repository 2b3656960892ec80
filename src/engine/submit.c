/* SPDX-License-Identifier: MIT
 *
 * From a request to a stream in the inbox. Everything in it is checked here, before it is queued, and
 * all its memory is claimed; the engine thread only uses it. Runs on the submitting thread. */
#include "engine/engine.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static bt_status check_stops(const betoken_engine *e, const betoken_request *req, bt_err *err)
{
    if (req->n_stop > BETOKEN_STOP_MAX) {
        return bt_fail_param(err, BT_E_INVALID, "stop", "at most %d stop strings, not %zu",
                             BETOKEN_STOP_MAX, req->n_stop);
    }
    for (size_t i = 0; i < req->n_stop; i++) {
        if (req->stop[i].n == 0 || req->stop[i].n > BETOKEN_STOP_BYTES_MAX) {
            return bt_fail_param(err, BT_E_INVALID, "stop",
                                 "stop[%zu] has %zu bytes; 1 to %d are allowed", i, req->stop[i].n,
                                 BETOKEN_STOP_BYTES_MAX);
        }
    }
    if (req->n_stop_token_ids > BT_STOP_IDS_MAX) {
        return bt_fail_param(err, BT_E_INVALID, "stop_token_ids", "at most %d ids, not %zu",
                             BT_STOP_IDS_MAX, req->n_stop_token_ids);
    }
    for (size_t i = 0; i < req->n_stop_token_ids; i++) {
        if (req->stop_token_ids[i] < 0 || req->stop_token_ids[i] >= e->n_vocab) {
            return bt_fail_param(err, BT_E_INVALID, "stop_token_ids",
                                 "stop_token_ids[%zu] is %d; token ids are 0 to %d", i,
                                 (int)req->stop_token_ids[i], e->n_vocab - 1);
        }
    }
    if (req->logprobs >= 0 && e->opt.max_logprobs >= 0 && req->logprobs > e->opt.max_logprobs) {
        return bt_fail_param(err, BT_E_INVALID, "logprobs",
                             "%d log-probabilities asked for; the most is %d (--max-logprobs)",
                             req->logprobs, e->opt.max_logprobs);
    }
    return BT_OK;
}

static bt_status resolve_sampling(betoken_engine *e, const betoken_request *req, bt_sampling *out,
                                  bt_err *err)
{
    bt_sampling p = e->defaults;
    p.temperature = isnan(req->temperature) ? p.temperature : req->temperature;
    p.top_p = isnan(req->top_p) ? p.top_p : req->top_p;
    p.min_p = isnan(req->min_p) ? p.min_p : req->min_p;
    p.top_k = req->top_k == BETOKEN_UNSET_INT ? p.top_k : req->top_k;
    p.choice = req->choice;
    BT_TRY(bt_sampling_check(&p, err));
    *out = p;
    return BT_OK;
}

/* How long prompt and answer may get together. */
static bt_status resolve_length(const betoken_engine *e, const betoken_request *req,
                                size_t n_prompt, int *n_tok_max, bt_err *err)
{
    int64_t limit = e->max_model_len;
    if (n_prompt == 0) {
        return bt_fail_param(err, BT_E_INVALID, "prompt", "the prompt holds no token");
    }
    if (req->max_tokens < -1 || req->max_tokens == 0) {
        return bt_fail_param(err, BT_E_INVALID, "max_tokens",
                             "max_tokens must be at least 1, not %" PRId64, req->max_tokens);
    }
    int64_t asked = req->max_tokens < 0 ? 1 : req->max_tokens;
    if ((int64_t)n_prompt >= limit || asked > limit - (int64_t)n_prompt) {
        return bt_fail_param(err, BT_E_TOO_LONG,
                             (int64_t)n_prompt >= limit ? "prompt" : "max_tokens",
                             "the context holds %" PRId64 " tokens; the prompt has %zu and %" PRId64
                             " more were asked for",
                             limit, n_prompt, asked);
    }
    int64_t total = req->max_tokens < 0 ? limit : (int64_t)n_prompt + req->max_tokens;
    if (bt_kv_blocks_for(total) > e->n_blocks) {
        return bt_fail_param(err, BT_E_TOO_LONG, "max_tokens",
                             "%" PRId64 " tokens need %d cache blocks; the cache has %d", total,
                             bt_kv_blocks_for(total), e->n_blocks);
    }
    *n_tok_max = (int)total;
    return BT_OK;
}

static bool copy_stops(betoken_stream *s, const betoken_request *req)
{
    for (size_t i = 0; i < req->n_stop; i++) {
        char *copy = bt_mem_dup(BT_MEM_ENGINE, req->stop[i].p, req->stop[i].n);
        if (copy == NULL) {
            return false;
        }
        s->stop[s->n_stop++] = (betoken_text){copy, req->stop[i].n};
        s->stop_bytes_max = BT_MAX(s->stop_bytes_max, req->stop[i].n);
    }
    for (size_t i = 0; i < req->n_stop_token_ids; i++) {
        s->stop_id[s->n_stop_ids++] = req->stop_token_ids[i];
    }
    return true;
}

static bool claim_memory(betoken_engine *e, betoken_stream *s)
{
    s->text_max = s->stop_bytes_max + bt_tokenizer_bytes_max(e->tok) * 3 + 32;
    s->text = bt_mem_alloc(BT_MEM_ENGINE, s->text_max);
    s->token = bt_mem_calloc(BT_MEM_ENGINE, (size_t)s->n_tok_max, sizeof *s->token);
    bool ok = s->text != NULL && s->token != NULL &&
              bt_ring_init(&s->events, BT_MEM_ENGINE, e->ring_events, sizeof(betoken_event));
    if (ok && s->n_logprobs > 0) {
        size_t places = (size_t)s->events.mask + 1, n = (size_t)s->n_logprobs;
        s->tops = bt_mem_calloc(BT_MEM_ENGINE, places * n, sizeof *s->tops);
        s->top_out = bt_mem_calloc(BT_MEM_ENGINE, n, sizeof *s->top_out);
        s->top_row = bt_mem_calloc(BT_MEM_ENGINE, n, sizeof *s->top_row);
        ok = s->tops != NULL && s->top_out != NULL && s->top_row != NULL;
    }
    return ok;
}

/* Room first, then the order of arrival: both under the lock of the producers. */
static bt_status enqueue(betoken_engine *e, betoken_stream *s, const betoken_request *req,
                         bt_err *err)
{
    bt_status status = BT_OK;
    pthread_mutex_lock(&e->submit_lock);
    int live_max = e->opt.max_num_seqs + e->opt.max_queued_requests;
    if (atomic_load_explicit(&e->draining, memory_order_acquire)) {
        status = bt_fail(err, BT_E_STOPPING, "the server is stopping");
    } else if (atomic_load_explicit(&e->n_live, memory_order_acquire) >= live_max) {
        status = bt_fail(err, BT_E_BUSY, "%d requests are running or waiting; try again later",
                         live_max);
    } else {
        s->id = ++e->n_arrived;
        bt_philox derived =
            bt_rng_philox(e->opt.seed, (uint32_t)s->id, (uint32_t)(s->id >> 32), 0, 0x5EED);
        s->sampling.seed = req->seed_given     ? req->seed
                           : e->opt.seed_given ? (uint64_t)derived.v[0] << 32 | derived.v[1]
                                               : bt_rng_random_seed();
        if (!req->seed_given) {
            s->sampling.seed >>= 1; /* fits a signed JSON number, so that it can be sent again */
        }
        s->usage.seed = s->sampling.seed;
        atomic_fetch_add_explicit(&e->n_live, 1, memory_order_acq_rel);
        atomic_fetch_add_explicit(&s->n_refs, 1, memory_order_relaxed);
        bool pushed = bt_ring_push(&e->inbox, &s);
        BT_ASSERT(pushed); /* the inbox holds live_max */
    }
    pthread_mutex_unlock(&e->submit_lock);
    if (status == BT_OK) {
        bt_bell_ring(&e->bell);
    }
    return status;
}

static bt_status make_stream(betoken_engine *e, const betoken_request *req, const bt_ids *ids,
                             betoken_stream **out, bt_err *err)
{
    bt_sampling sampling;
    int n_tok_max = 0;
    BT_TRY(check_stops(e, req, err));
    BT_TRY(resolve_sampling(e, req, &sampling, err));
    BT_TRY(resolve_length(e, req, ids->n, &n_tok_max, err));
    betoken_stream *s = bt_mem_calloc(BT_MEM_ENGINE, 1, sizeof *s);
    if (s == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for a request");
    }
    s->engine = e;
    atomic_init(&s->n_refs, 1);
    atomic_fetch_add_explicit(&e->n_refs, 1, memory_order_relaxed);
    s->n_prompt = s->n_tok = (int)ids->n;
    s->n_tok_max = n_tok_max;
    s->sampling = sampling;
    s->ignore_eos = req->ignore_eos;
    s->return_drafts = req->return_drafts;
    s->n_logprobs = req->logprobs < 0 ? -1 : BT_MIN(req->logprobs, e->n_vocab);
    s->seq_idx = -1;
    s->usage.prompt_tokens = s->n_prompt;
    bt_bell_init(&s->bell);
    bt_detok_init(&s->detok, e->tok, false);
    if (!copy_stops(s, req) || !claim_memory(e, s)) {
        bt_stream_release(s);
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for a request of %d tokens", n_tok_max);
    }
    memcpy(s->token, ids->id, ids->n * sizeof *s->token);
    *out = s;
    return BT_OK;
}

void betoken_request_init(betoken_request *request)
{
    *request = (betoken_request){.add_special_tokens = -1,
                                 .add_generation_prompt = true,
                                 .temperature = NAN,
                                 .top_p = NAN,
                                 .min_p = NAN,
                                 .top_k = BETOKEN_UNSET_INT,
                                 .max_tokens = -1,
                                 .logprobs = -1};
}

betoken_code betoken_submit(betoken_engine *e, const betoken_request *req, betoken_wake *wake,
                            void *wake_ctx, betoken_stream **stream, betoken_error *error)
{
    bt_err err = {0};
    bt_ids ids = {0};
    betoken_stream *s = NULL;
    int64_t now = bt_clock_now_ns();
    bt_status status = bt_prompt_ids(e, req, &ids, &err);
    if (status == BT_OK) {
        status = make_stream(e, req, &ids, &s, &err);
    }
    bt_ids_deinit(&ids);
    if (status == BT_OK) {
        s->wake = wake;
        s->wake_ctx = wake_ctx;
        s->submitted_ns = now;
        *stream = s; /* before the first wake-up */
        status = enqueue(e, s, req, &err);
        if (status != BT_OK) {
            *stream = NULL;
            bt_stream_release(s);
        }
    }
    return status == BT_OK ? BETOKEN_OK : bt_public_error(status, &err, error);
}
