/* SPDX-License-Identifier: MIT
 *
 * sample.c: the sampler's memory, and the one way from a row to a token. */
#include "sample/sampler.h"

#include "base/mem.h"

#include <string.h>

bt_status bt_sampler_open(int n_vocab_max, bt_sampler **out, bt_err *err)
{
    if (n_vocab_max <= 0 || n_vocab_max > BT_TRUNCATE_VOCAB_MAX) {
        return bt_fail(err, BT_E_LIMIT, "a vocabulary of %d tokens; 1 to %d can be sampled from",
                       n_vocab_max, BT_TRUNCATE_VOCAB_MAX);
    }
    bt_sampler *s = bt_mem_calloc(BT_MEM_WORK, 1, sizeof *s);
    if (s == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for a sampler");
    }
    size_t n = (size_t)n_vocab_max;
    s->n_vocab_max = n_vocab_max;
    bt_cpu_init(NULL); /* does nothing when the program has called it */
    s->kernels = bt_row_kernels_for(bt_cpu_isa());
    s->block_max = bt_mem_calloc(BT_MEM_WORK, (size_t)bt_row_blocks(n_vocab_max), sizeof(float));
    s->trunc.idx = bt_mem_calloc(BT_MEM_WORK, n, sizeof *s->trunc.idx);
    s->trunc.weight = bt_mem_calloc(BT_MEM_WORK, n, sizeof *s->trunc.weight);
    s->trunc.dense = bt_mem_calloc(BT_MEM_WORK, n, sizeof *s->trunc.dense);
    s->trunc.sub_idx = bt_mem_calloc(BT_MEM_WORK, n, sizeof *s->trunc.sub_idx);
    s->trunc.sub_weight = bt_mem_calloc(BT_MEM_WORK, n, sizeof *s->trunc.sub_weight);
    s->trunc.mass = bt_mem_calloc(BT_MEM_WORK, BT_TRUNCATE_BUCKETS, sizeof *s->trunc.mass);
    s->law = bt_mem_calloc(BT_MEM_WORK, n, sizeof *s->law);
    s->log_law = bt_mem_calloc(BT_MEM_WORK, n, sizeof *s->log_law);
    if (!s->block_max || !s->trunc.idx || !s->trunc.weight || !s->trunc.dense ||
        !s->trunc.sub_idx || !s->trunc.sub_weight || !s->trunc.mass || !s->law || !s->log_law) {
        bt_sampler_close(s);
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for a sampler of %d tokens", n_vocab_max);
    }
    *out = s;
    return BT_OK;
}

void bt_sampler_close(bt_sampler *s)
{
    if (s == NULL) {
        return;
    }
    bt_mem_free(s->block_max);
    bt_mem_free(s->trunc.idx);
    bt_mem_free(s->trunc.weight);
    bt_mem_free(s->trunc.dense);
    bt_mem_free(s->trunc.sub_idx);
    bt_mem_free(s->trunc.sub_weight);
    bt_mem_free(s->trunc.mass);
    bt_mem_free(s->law);
    bt_mem_free(s->log_law);
    bt_mem_free(s);
}

bt_status bt_sampler_scan(bt_sampler *s, const float *logits, int n)
{
    BT_ASSERT(n > 0 && n <= s->n_vocab_max);
    return s->kernels->scan(logits, n, s->block_max, &s->max) ? BT_OK : BT_E_INTERNAL;
}

/* Blocks first: the maxima are at hand. */
int bt_sampler_top(const bt_sampler *s, const float *logits, int n)
{
    int b = 0;
    while (s->block_max[b] != s->max) {
        b++;
        BT_ASSERT(b < bt_row_blocks(n));
    }
    int i = b * BT_ROW_BLOCK;
    while (logits[i] != s->max) {
        i++;
        BT_ASSERT(i < n);
    }
    return i;
}

bt_noise bt_sampler_noise(const bt_sampling *params, int32_t position, bt_noise_use use)
{
    BT_ASSERT(position >= 0);
    return (bt_noise){
        .seed = params->seed, .position = (uint32_t)position, .choice = params->choice, .use = use};
}

/* The rows that the filters leave: *idx NULL when they leave all. Returns their number. */
static int survivors(bt_sampler *s, const bt_sample_row *row, const int32_t **idx)
{
    if (bt_truncate_is_off(row->params, row->n)) {
        *idx = NULL;
        return row->n;
    }
    bt_truncate_row view = {row->logits, row->n, s->block_max, s->max, s->kernels->exp};
    *idx = s->trunc.idx;
    return bt_truncate(&view, row->params, &s->trunc);
}

int bt_sampler_best(bt_sampler *s, const bt_sample_row *row, int n_best, bt_scored *best)
{
    const int32_t *idx;
    int n = survivors(s, row, &idx);
    bt_contest contest = {.logits = row->logits,
                          .n = n,
                          .idx = idx,
                          .id = row->id,
                          .block_max = s->block_max,
                          .inv_t = 1.0 / row->params->temperature,
                          .noise = bt_sampler_noise(row->params, row->position, BT_NOISE_PICK)};
    return bt_gumbel_best(&contest, n_best, best);
}

void bt_sampler_law(bt_sampler *s, const bt_sample_row *row, float *law, int n_out)
{
    memset(law, 0, (size_t)n_out * sizeof *law);
    if (bt_sampling_is_greedy(row->params)) {
        int top = bt_sampler_top(s, row->logits, row->n);
        law[row->id != NULL ? row->id[top] : top] = 1.0f;
        return;
    }
    const int32_t *idx;
    int n = survivors(s, row, &idx);
    float inv_t = (float)(1.0 / row->params->temperature);
    double total = 0.0;
    if (idx == NULL) {
        s->kernels->exp(row->logits, n, s->max, inv_t, s->trunc.weight);
    }
    for (int j = 0; j < n; j++) {
        if (idx != NULL) {
            s->trunc.weight[j] = bt_row_exp((row->logits[idx[j]] - s->max) * inv_t);
        }
        total += (double)s->trunc.weight[j];
    }
    for (int j = 0; j < n; j++) {
        int r = idx != NULL ? idx[j] : j;
        int32_t token = row->id != NULL ? row->id[r] : r;
        BT_ASSERT(token >= 0 && token < n_out);
        law[token] = (float)((double)s->trunc.weight[j] / total);
    }
}

bt_status bt_sample_argmax(bt_sampler *s, const float *logits, int n_vocab, int32_t *token)
{
    BT_TRY(bt_sampler_scan(s, logits, n_vocab));
    *token = bt_sampler_top(s, logits, n_vocab);
    return BT_OK;
}

bt_status bt_sample_pick(bt_sampler *s, const float *logits, int n_vocab, const bt_sampling *params,
                         int32_t position, int32_t *token)
{
    if (bt_sampling_is_greedy(params)) {
        return bt_sample_argmax(s, logits, n_vocab, token);
    }
    BT_TRY(bt_sampler_scan(s, logits, n_vocab));
    bt_sample_row row = {logits, n_vocab, NULL, params, position};
    bt_scored best[1];
    int n = bt_sampler_best(s, &row, 1, best);
    BT_ASSERT(n == 1);
    *token = best[0].token;
    return BT_OK;
}
