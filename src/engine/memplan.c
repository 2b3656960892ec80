/* SPDX-License-Identifier: MIT
 *
 * How long a sequence may get and how many cache blocks there are, decided and printed before the
 * cache is claimed (design 5.5). */
#include "engine/engine.h"

#include "base/cpu.h"
#include "base/log.h"

#include <inttypes.h>

static const uint64_t default_cache_bytes = 4ull << 30;

bt_dtype bt_memplan_kv_dtype(const betoken_engine *e, const bt_model *m)
{
    switch (e->opt.kv_cache_dtype) {
    case BETOKEN_KV_F32:
        return BT_DTYPE_F32;
    case BETOKEN_KV_F16:
        return BT_DTYPE_F16;
    case BETOKEN_KV_AUTO:
        break;
    }
    return m->hp.is_f32 ? BT_DTYPE_F32 : BT_DTYPE_F16;
}

bt_model_limits bt_memplan_limits(const betoken_engine *e, const bt_model *m, bool is_draft)
{
    int k = is_draft ? 0 : e->policy.n_max;
    int n_pos = BT_MIN(e->max_model_len, m->hp.n_ctx_train);
    int logits = BT_MIN(e->opt.max_num_batched_tokens, e->opt.max_num_seqs * (1 + k));
    return (bt_model_limits){.n_pos = n_pos,
                             .rows_max = e->opt.max_num_batched_tokens,
                             .logits_max = logits,
                             .n_blocks = e->n_blocks,
                             .kv_dtype = bt_memplan_kv_dtype(e, m)};
}

static uint64_t block_bytes(const betoken_engine *e)
{
    uint64_t n = bt_model_kv_block_bytes(&e->model->hp, bt_memplan_kv_dtype(e, e->model));
    if (e->draft != NULL) {
        n += bt_model_kv_block_bytes(&e->draft->hp, bt_memplan_kv_dtype(e, e->draft));
    }
    return n;
}

static uint64_t work_bytes(const betoken_engine *e)
{
    bt_model_limits lim = bt_memplan_limits(e, e->model, false);
    uint64_t n = bt_model_work_bytes(&e->model->hp, &lim);
    if (e->draft != NULL) {
        lim = bt_memplan_limits(e, e->draft, true);
        n += bt_model_work_bytes(&e->draft->hp, &lim);
    }
    return n;
}

/* Bytes for the cache. */
static bt_status cache_budget(const betoken_engine *e, uint64_t *out, bt_err *err)
{
    uint64_t available = bt_cpu_memory_available(), work = work_bytes(e);
    uint64_t left = available > work ? available - work : 0;
    if (e->opt.kv_cache_memory > 0) {
        if (e->opt.kv_cache_memory > left) {
            return bt_fail_param(err, BT_E_LIMIT, "kv_cache_memory",
                                 "--kv-cache-memory %" PRIu64 " bytes: only %" PRIu64
                                 " bytes of memory are left",
                                 e->opt.kv_cache_memory, left);
        }
        *out = e->opt.kv_cache_memory;
        return BT_OK;
    }
    if (e->opt.gpu_memory_utilization > 0) {
        double all = e->opt.gpu_memory_utilization * (double)bt_cpu_memory_limit();
        uint64_t weights = e->model->weight_bytes + (e->draft != NULL ? e->draft->weight_bytes : 0);
        uint64_t share = (uint64_t)all;
        share = share > weights + work ? share - weights - work : 0;
        *out = BT_MIN(share, left);
        return BT_OK;
    }
    *out = BT_MIN(default_cache_bytes, left / 10 * 9);
    return BT_OK;
}

bt_status bt_memplan(betoken_engine *e, bt_err *err)
{
    int n_ctx = e->model->hp.n_ctx_train;
    if (e->opt.max_model_len > n_ctx) {
        return bt_fail_param(err, BT_E_INVALID, "max_model_len",
                             "--max-model-len %d exceeds the model's context of %d",
                             e->opt.max_model_len, n_ctx);
    }
    e->max_model_len = e->opt.max_model_len > 0 ? e->opt.max_model_len : n_ctx;
    uint64_t budget = 0, per_block = block_bytes(e);
    BT_TRY(cache_budget(e, &budget, err));
    uint64_t most = (uint64_t)e->opt.max_num_seqs * (uint64_t)bt_kv_blocks_for(e->max_model_len);
    uint64_t n = budget / per_block;
    if (e->opt.kv_cache_memory == 0) {
        n = BT_MIN(n, most);
    }
    n = BT_MIN(n, (uint64_t)INT32_MAX / BT_KV_BLOCK_TOKENS);
    int need = bt_kv_blocks_for(e->opt.max_model_len > 0 ? e->max_model_len : 1);
    if (n < (uint64_t)need) {
        return bt_fail_param(
            err, BT_E_LIMIT, "max_model_len",
            "one sequence of %d tokens needs %" PRIu64 " bytes of cache; there are %" PRIu64,
            e->opt.max_model_len > 0 ? e->max_model_len : 1, (uint64_t)need * per_block, budget);
    }
    e->n_blocks = (int)n;
    if ((uint64_t)e->max_model_len > n * BT_KV_BLOCK_TOKENS) {
        e->max_model_len = (int)n * BT_KV_BLOCK_TOKENS;
        bt_log(BT_LOG_INFO, "memory",
               "the cache holds %d tokens: max_model_len=%d of the model's %d", e->max_model_len,
               e->max_model_len, n_ctx);
    }
    e->kv_bytes = (size_t)(n * per_block);
    bt_log(BT_LOG_INFO, "memory",
           "weights=%zu work=%" PRIu64 " kv_cache=%zu bytes; %d tokens fit, %.1f requests of %d",
           e->model->weight_bytes + (e->draft != NULL ? e->draft->weight_bytes : 0), work_bytes(e),
           e->kv_bytes, e->n_blocks * BT_KV_BLOCK_TOKENS,
           (double)e->n_blocks / bt_kv_blocks_for(e->max_model_len), e->max_model_len);
    return BT_OK;
}
