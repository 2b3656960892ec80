/* SPDX-License-Identifier: MIT
 *
 * Opening, running and closing the engine. */
#include "engine/engine.h"

#include "base/cpu.h"
#include "base/log.h"
#include "base/mem.h"
#include "spec/draftmodel.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static_assert((int)BETOKEN_INTERNAL == (int)BT_E_INTERNAL &&
                  (int)BETOKEN_STOPPING == (int)BT_E_STOPPING &&
                  (int)BETOKEN_BUSY == (int)BT_E_BUSY && (int)BETOKEN_FORMAT == (int)BT_E_FORMAT,
              "public codes are the internal ones");
static_assert((int)BETOKEN_SPEC_TOKENS_MAX == (int)BT_SPEC_MAX, "one limit of candidates");
static_assert(sizeof(((betoken_error *)0)->message) == BT_ERR_MESSAGE_MAX &&
                  sizeof(((betoken_error *)0)->param) == BT_ERR_PARAM_MAX,
              "errors are copied whole");

betoken_code bt_public_error(bt_status status, const bt_err *err, betoken_error *out)
{
    bt_err named;
    BT_ASSERT(status != BT_OK);
    if (err->code == BT_OK) { /* where only memory can fail, nobody writes a message */
        bt_fail(&named, status, "%s", bt_status_name(status));
        err = &named;
    }
    if (out != NULL) {
        *out = (betoken_error){.code = (betoken_code)err->code, .position = err->position};
        memcpy(out->param, err->param, sizeof out->param);
        memcpy(out->message, err->message, sizeof out->message);
    }
    return (betoken_code)err->code;
}

void betoken_options_init(betoken_options *o)
{
    *o = (betoken_options){.num_speculative_tokens = 5,
                           .max_num_seqs = 32,
                           .max_num_batched_tokens = 512,
                           .max_queued_requests = 256,
                           .max_logprobs = 20};
}

const char *betoken_version(void)
{
    return BT_VERSION;
}

void betoken_free(void *memory)
{
    bt_mem_free(memory);
}

static bt_status check_options(const betoken_options *o, bt_err *err)
{
    const struct {
        const char *name;
        int value, min, max;
    } ranges[] = {
        {"num_speculative_tokens", o->num_speculative_tokens, 0, BETOKEN_SPEC_TOKENS_MAX},
        {"speculative_disable_by_batch_size", o->speculative_disable_by_batch_size, 0, INT32_MAX},
        {"speculative_max_model_len", o->speculative_max_model_len, 0, INT32_MAX},
        {"max_model_len", o->max_model_len, 0, 1 << 24},
        {"max_num_seqs", o->max_num_seqs, 1, 1024},
        {"max_num_batched_tokens", o->max_num_batched_tokens, 1, 8192},
        {"max_queued_requests", o->max_queued_requests, 0, 1 << 16},
        {"threads", o->threads, 0, BT_POOL_THREADS_MAX},
        {"max_logprobs", o->max_logprobs, -1, INT32_MAX},
    };
    for (size_t i = 0; i < BT_COUNT(ranges); i++) {
        if (ranges[i].value < ranges[i].min || ranges[i].value > ranges[i].max) {
            return bt_fail_param(err, BT_E_INVALID, ranges[i].name,
                                 "%s is %d; %d to %d are allowed", ranges[i].name, ranges[i].value,
                                 ranges[i].min, ranges[i].max);
        }
    }
    if (o->max_num_batched_tokens < o->max_num_seqs) {
        return bt_fail_param(err, BT_E_INVALID, "max_num_batched_tokens",
                             "max_num_batched_tokens %d is less than max_num_seqs %d",
                             o->max_num_batched_tokens, o->max_num_seqs);
    }
    if (!(o->gpu_memory_utilization >= 0 && o->gpu_memory_utilization <= 1)) {
        return bt_fail_param(err, BT_E_INVALID, "gpu_memory_utilization",
                             "gpu_memory_utilization must be above 0 and at most 1");
    }
    return o->model != NULL ? BT_OK : bt_fail_param(err, BT_E_INVALID, "model", "no model given");
}

static bt_status load_template(betoken_engine *e, bt_err *err)
{
    bt_str text =
        e->template_text != NULL ? bt_str_of(e->template_text) : bt_tokenizer_chat_template(e->tok);
    if (text.n == 0) {
        return BT_OK;
    }
    bt_status status = bt_jinja_open(text, &e->tmpl, err);
    if (status != BT_OK && e->template_text == NULL) {
        bt_err_prefix(err, "the model's own, which --chat-template replaces");
    }
    return status;
}

static bt_status load_target(betoken_engine *e, bt_err *err)
{
    bt_weightfile *file = NULL;
    BT_TRY(bt_weightfile_open(e->opt.model, &file, err));
    bt_status status = bt_tokenizer_open(file, &e->tok, err);
    if (status == BT_OK) {
        status = load_template(e, err);
    }
    if (status == BT_OK) {
        status = bt_model_open(file, e->dev, &e->model, err);
    }
    if (status == BT_OK) {
        e->n_vocab = e->model->hp.vocab_size;
        status = bt_tokenizer_count(e->tok) > 0
                     ? BT_OK
                     : bt_fail(err, BT_E_FORMAT, "%s: the tokenizer knows no token", e->opt.model);
    }
    if (status == BT_OK) {
        status = bt_stopset_read(e, file, err);
    }
    if (status == BT_OK) {
        status = bt_defaults_read(e, file, err);
    }
    bt_weightfile_close(file);
    return status;
}

static bt_status load_draft(betoken_engine *e, bt_err *err)
{
    if (e->opt.speculative_model == NULL || e->opt.num_speculative_tokens == 0) {
        return BT_OK;
    }
    bt_weightfile *file = NULL;
    bt_tokenizer *tok = NULL;
    BT_TRY(bt_weightfile_open(e->opt.speculative_model, &file, err));
    bt_status status = bt_tokenizer_open(file, &tok, err);
    if (status == BT_OK) {
        status = bt_tokenizer_compare(e->tok, tok, err);
        if (status != BT_OK) {
            bt_err_prefix(err, "the draft model %s has another tokenizer",
                          e->opt.speculative_model);
        }
    }
    bt_tokenizer_close(tok);
    if (status == BT_OK) {
        status = bt_model_open(file, e->dev, &e->draft, err);
    }
    bt_weightfile_close(file);
    e->policy = (bt_policy){.n_max = e->opt.num_speculative_tokens,
                            .disable_by_batch_size = e->opt.speculative_disable_by_batch_size,
                            .n_tok_max = e->opt.speculative_max_model_len};
    return status;
}

static void grow_limits(bt_device_limits *lim, const betoken_engine *e, const bt_model *m)
{
    int inputs = BT_MAX(m->hp.hidden_size, m->hp.intermediate_size);
    lim->rows_max = e->opt.max_num_batched_tokens;
    lim->inputs_max = BT_MAX(lim->inputs_max, BT_MAX(inputs, m->hp.n_heads * m->hp.head_dim));
    lim->heads_max = BT_MAX(lim->heads_max, m->hp.n_heads);
    lim->head_dim_max = BT_MAX(lim->head_dim_max, m->hp.head_dim);
    lim->positions_max = e->max_model_len;
}

static bt_status reserve_models(betoken_engine *e, bt_err *err)
{
    bt_device_limits device = {0};
    grow_limits(&device, e, e->model);
    if (e->draft != NULL) {
        grow_limits(&device, e, e->draft);
    }
    BT_TRY(bt_device_cpu_reserve(e->dev, &device, err));
    bt_model_limits lim = bt_memplan_limits(e, e->model, false);
    BT_TRY(bt_model_reserve(e->model, &lim, err));
    if (e->draft == NULL) {
        return BT_OK;
    }
    lim = bt_memplan_limits(e, e->draft, true);
    BT_TRY(bt_model_reserve(e->draft, &lim, err));
    bt_draftmodel_args args = {.model = e->draft,
                               .n_vocab_target = e->n_vocab,
                               .n_seqs_max = e->opt.max_num_seqs,
                               .n_draft_max = e->policy.n_max,
                               .keep_q = e->opt.acceptance == BETOKEN_ACCEPT_REJECTION};
    return bt_draftmodel_open(&args, &e->proposer, err);
}

static bt_status reserve_queues(betoken_engine *e, bt_err *err)
{
    size_t n = (size_t)e->opt.max_num_seqs, n_threads = (size_t)bt_pool_threads(e->pool);
    size_t live_max = n + (size_t)e->opt.max_queued_requests;
    e->n_waiting_max = (int)live_max;
    e->tables = bt_mem_calloc(BT_MEM_ENGINE, n, sizeof *e->tables);
    e->running = bt_mem_calloc(BT_MEM_ENGINE, n, sizeof(betoken_stream *));
    e->order = bt_mem_calloc(BT_MEM_ENGINE, n, sizeof(betoken_stream *));
    e->waiting = bt_mem_calloc(BT_MEM_ENGINE, live_max, sizeof(betoken_stream *));
    e->plan.items = bt_mem_calloc(BT_MEM_ENGINE, n, sizeof *e->plan.items);
    e->propose_seqs = bt_mem_calloc(BT_MEM_ENGINE, n, sizeof *e->propose_seqs);
    e->samplers = bt_mem_calloc(BT_MEM_ENGINE, n_threads, sizeof(bt_sampler *));
    e->top_scratch = bt_mem_calloc(BT_MEM_ENGINE, (size_t)e->n_vocab, sizeof *e->top_scratch);
    if (!e->tables || !e->running || !e->order || !e->waiting || !e->plan.items ||
        !e->propose_seqs || !e->samplers || !e->top_scratch ||
        !bt_ring_init(&e->inbox, BT_MEM_ENGINE, live_max, sizeof(betoken_stream *))) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for %zu sequences", live_max);
    }
    for (size_t i = 0; i < n; i++) {
        BT_TRY(bt_kv_table_init(&e->tables[i], e->max_model_len, err));
    }
    for (size_t i = 0; i < n_threads; i++) {
        BT_TRY(bt_sampler_open(e->n_vocab, &e->samplers[i], err));
    }
    BT_TRY(bt_kv_pool_init(&e->kv, e->n_blocks, err));
    BT_TRY(bt_batch_open(e->opt.max_num_batched_tokens, &e->batch, err));
    BT_TRY(bt_candidates_open((int)n, BT_MAX(1, e->policy.n_max), &e->candidates, err));
    size_t text_max = BETOKEN_STOP_BYTES_MAX + bt_tokenizer_bytes_max(e->tok) * 3 + 32;
    e->events_per_token = (int)(text_max / (BETOKEN_EVENT_TEXT_MAX - 4)) + 2;
    e->ring_events = BT_MAX((size_t)BT_EVENTS_MIN,
                            (size_t)(e->policy.n_max + 1) * (size_t)e->events_per_token + 4);
    return BT_OK;
}

static void fail_all(betoken_engine *e)
{
    static const char message[] = "the server is stopping";
    bt_queue_drain_inbox(e);
    while (e->n_running > 0) {
        betoken_stream *s = e->order[0];
        atomic_fetch_add_explicit(&s->n_refs, 1, memory_order_relaxed);
        if (bt_ring_space(&s->events) > 0) {
            bt_commit_error(e, s, BT_E_STOPPING, message);
        }
        bt_queue_end(e, s);
        bt_stream_wake(s);
        bt_stream_release(s);
    }
    while (e->n_waiting > 0) {
        betoken_stream *s = e->waiting[e->waiting_head];
        e->waiting_head = (e->waiting_head + 1) % e->n_waiting_max;
        e->n_waiting--;
        bt_commit_error(e, s, BT_E_STOPPING, message);
        bt_stream_wake(s);
        atomic_fetch_sub_explicit(&e->n_live, 1, memory_order_acq_rel);
        bt_stream_release(s);
    }
    bt_counters_publish(e, true);
}

static void *engine_main(void *arg)
{
    betoken_engine *e = arg;
    bt_mem_freeze_thread(true);
    while (true) {
        uint32_t seen = bt_bell_read(&e->bell);
        if (atomic_load_explicit(&e->stopping, memory_order_acquire)) {
            break;
        }
        if (!bt_step(e)) {
            bt_counters_publish(e, true);
            bt_bell_wait(&e->bell, seen, -1);
        }
    }
    fail_all(e);
    return NULL;
}

static bt_status start_thread(betoken_engine *e, bt_err *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int why = pthread_create(&e->thread, NULL, engine_main, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (why != 0) {
        return bt_fail(err, BT_E_IO, "cannot start the engine thread: %s", strerror(why));
    }
    e->thread_started = true;
    return BT_OK;
}

/* *text becomes a copy of itself that *owned keeps; NULL stays NULL. */
static bt_status own_text(const char **text, char **owned, bt_err *err)
{
    if (*text != NULL) {
        *owned = bt_mem_dup(BT_MEM_ENGINE, *text, strlen(*text));
        if (*owned == NULL) {
            return bt_fail(err, BT_E_NO_MEMORY, "no memory for the options");
        }
    }
    *text = *owned;
    return BT_OK;
}

static bt_status open_all(betoken_engine *e, bt_err *err)
{
    const char *unknown = NULL;
    BT_TRY(own_text(&e->opt.model, &e->model_name, err));
    BT_TRY(own_text(&e->opt.speculative_model, &e->draft_name, err));
    BT_TRY(own_text(&e->opt.chat_template, &e->template_text, err));
    if (!bt_cpu_init(&unknown)) {
        return bt_fail(err, BT_E_INVALID,
                       "BT_CPU=%.40s is unknown; ref, avx2, avx512, avx512vnni and neon are known",
                       unknown);
    }
    BT_TRY(check_options(&e->opt, err));
    BT_TRY(bt_pool_open(e->opt.threads > 0 ? e->opt.threads : bt_cpu_threads(), &e->pool, err));
    BT_TRY(bt_device_cpu_open(e->pool, &e->dev, err));
    bt_log(BT_LOG_INFO, "device", "%s threads=%d", e->dev->name, bt_pool_threads(e->pool));
    BT_TRY(load_target(e, err));
    BT_TRY(load_draft(e, err));
    BT_TRY(bt_memplan(e, err));
    BT_TRY(reserve_models(e, err));
    BT_TRY(reserve_queues(e, err));
    bt_counters_init(&e->stats);
    e->stats_shared = e->stats;
    return start_thread(e, err);
}

betoken_code betoken_engine_open(const betoken_options *options, betoken_engine **engine,
                                 betoken_error *error)
{
    bt_err err = {0};
    betoken_engine *e = bt_mem_calloc(BT_MEM_ENGINE, 1, sizeof *e);
    if (e == NULL) {
        bt_status status = bt_fail(&err, BT_E_NO_MEMORY, "no memory for the engine");
        return bt_public_error(status, &err, error);
    }
    atomic_init(&e->n_refs, 1);
    pthread_mutex_init(&e->submit_lock, NULL);
    pthread_mutex_init(&e->stats_lock, NULL);
    bt_bell_init(&e->bell);
    e->opt = *options;
    bt_status status = open_all(e, &err);
    if (status != BT_OK) {
        betoken_engine_close(e);
        return bt_public_error(status, &err, error);
    }
    *engine = e;
    return BETOKEN_OK;
}

void betoken_engine_drain(betoken_engine *e)
{
    atomic_store_explicit(&e->draining, true, memory_order_release);
}

void betoken_engine_close(betoken_engine *e)
{
    if (e == NULL) {
        return;
    }
    betoken_engine_drain(e);
    /* A submit that passed the check before the mark has pushed by now, or sees the mark. */
    pthread_mutex_lock(&e->submit_lock);
    pthread_mutex_unlock(&e->submit_lock);
    atomic_store_explicit(&e->stopping, true, memory_order_release);
    bt_bell_ring(&e->bell);
    if (e->thread_started) {
        pthread_join(e->thread, NULL);
    }
    if (e->proposer != NULL) {
        e->proposer->ops->close(e->proposer);
    }
    bt_model_close(e->draft);
    bt_model_close(e->model);
    if (e->dev != NULL) {
        e->dev->ops->close(e->dev);
    }
    for (int i = 0; e->samplers != NULL && i < bt_pool_threads(e->pool); i++) {
        bt_sampler_close(e->samplers[i]);
    }
    for (int i = 0; e->tables != NULL && i < e->opt.max_num_seqs; i++) {
        bt_kv_table_deinit(&e->tables[i]);
    }
    bt_pool_close(e->pool);
    bt_candidates_close(e->candidates);
    bt_batch_close(e->batch);
    bt_kv_pool_deinit(&e->kv);
    bt_ring_deinit(&e->inbox);
    void *blocks[] = {e->tables,     e->running,      e->order,    e->waiting,
                      e->plan.items, e->propose_seqs, e->samplers, e->top_scratch};
    for (size_t i = 0; i < BT_COUNT(blocks); i++) {
        bt_mem_free(blocks[i]);
    }
    bt_engine_release(e);
}

void bt_engine_release(betoken_engine *e)
{
    if (atomic_fetch_sub_explicit(&e->n_refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    /* Streams may still ask for token bytes until the last one is closed. */
    bt_tokenizer_close(e->tok);
    bt_jinja_close(e->tmpl);
    pthread_mutex_destroy(&e->submit_lock);
    pthread_mutex_destroy(&e->stats_lock);
    bt_mem_free(e->model_name);
    bt_mem_free(e->draft_name);
    bt_mem_free(e->template_text);
    bt_mem_free(e);
}

void betoken_engine_info(const betoken_engine *e, betoken_info *info)
{
    *info = (betoken_info){
        .model = e->model_name,
        .architecture = e->model->hp.arch,
        .max_model_len = e->max_model_len,
        .vocab_size = BT_MIN(e->n_vocab, bt_tokenizer_count(e->tok)),
        .max_logprobs = e->opt.max_logprobs,
        .kv_blocks = e->n_blocks,
        .kv_block_size = BT_KV_BLOCK_TOKENS,
        .num_speculative_tokens = e->policy.n_max,
        .has_chat_template = e->tmpl != NULL,
        .weight_bytes = e->model->weight_bytes + (e->draft != NULL ? e->draft->weight_bytes : 0),
        .kv_bytes = e->kv_bytes,
    };
}

betoken_text betoken_token_bytes(const betoken_engine *e, int32_t id)
{
    bt_str bytes = bt_tokenizer_bytes(e->tok, id);
    return (betoken_text){bytes.p, bytes.n};
}
