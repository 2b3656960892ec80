/* SPDX-License-Identifier: MIT */
#include "spec/draftmodel.h"

#include "base/mem.h"
#include "sample/sample.h"

#include <string.h>

typedef struct draftmodel {
    bt_proposer base;
    bt_draftmodel_args args;
    int n_vocab; /* ids that both models have a row for */
    bt_batch *batch;
    bt_sampler *sampler;
    int32_t *n_cached; /* [S_max] positions of the draft's cache that hold committed tokens */
    int32_t *n_guess;  /* [S_max] guessed tokens fed beyond them by the last propose */
    /* Of the sequences of one propose, by their order: */
    int32_t *n_fed;   /* [S_max] committed tokens fed so far */
    int32_t *n_drawn; /* [S_max] */
    int32_t *row_seq; /* [S_max] which sequence a logits row belongs to */
    bt_draft *drawn;  /* [S_max, n_draft_max] */
    float *q;         /* [S_max, n_draft_max, n_vocab_target], NULL unless keep_q */
} draftmodel;

static float *q_row(const draftmodel *d, int s, int depth)
{
    size_t i = (size_t)s * (size_t)d->args.n_draft_max + (size_t)depth;
    return d->q == NULL ? NULL : d->q + i * (size_t)d->args.n_vocab_target;
}

/* A token that only the target has a row for cannot be fed; any other id keeps the cache's shape, and
 * only acceptance suffers. */
static int32_t feedable(const draftmodel *d, int32_t token)
{
    return token < d->args.model->hp.vocab_size ? token : 0;
}

static bool ends_answer(const bt_propose_seq *seq, int32_t token)
{
    for (int list = 0; list < 2; list++) {
        for (int i = 0; i < seq->n_end_ids[list]; i++) {
            if (seq->end_id[list][i] == token) {
                return true;
            }
        }
    }
    return false;
}

/* Draws the next candidate of sequence s from a logits row; none when the row is no law. */
static void draw(draftmodel *d, const bt_propose_seq *seq, int s, const float *logits)
{
    int depth = d->n_drawn[s], n = 0;
    bt_draft *out = &d->drawn[(size_t)s * (size_t)d->args.n_draft_max + (size_t)depth];
    bt_draft_args args = {.logits = logits,
                          .n_vocab = d->n_vocab,
                          .params = seq->sampling,
                          .position = seq->n_tok + depth};
    bt_status status = d->q == NULL ? bt_sample_draft(d->sampler, &args, 1, out, &n)
                                    : bt_sample_draft_q(d->sampler, &args, q_row(d, s, depth),
                                                        d->args.n_vocab_target, out);
    if (status != BT_OK || (d->q == NULL && n == 0)) {
        return; /* a draft that gives no law proposes nothing */
    }
    d->n_drawn[s]++;
}

static void run(draftmodel *d, const bt_propose_seq *seqs)
{
    const float *logits;
    bt_model_forward(d->args.model, d->batch, &logits);
    for (int r = 0; r < d->batch->n_logits; r++) {
        int s = d->row_seq[r];
        draw(d, &seqs[s], s, logits + (size_t)r * (size_t)d->args.model->hp.vocab_size);
    }
}

/* Feeds up to n committed tokens that the draft's cache lacks; the very last one draws the first
 * candidate. Runs the batch when it is full. */
static void feed(draftmodel *d, const bt_propose_seq *seqs, int s, int n)
{
    const bt_propose_seq *seq = &seqs[s];
    for (; n > 0; n--) {
        if (d->batch->n_tok == d->batch->rows_max) {
            run(d, seqs);
            bt_batch_reset(d->batch);
        }
        int pos = d->n_fed[s]++;
        bool last = pos == seq->n_tok - 1;
        if (last) {
            d->row_seq[d->batch->n_logits] = s;
        }
        bt_batch_add(d->batch, feedable(d, seq->token[pos]), pos, seq->table,
                     last ? BT_WANT_LOGITS : 0);
    }
}

/* Catches the draft's cache up with what was committed. Sequences that lack a few tokens come first
 * and whole; those that lack more (a new prompt, a time without guesses) share one batch a step, so
 * that a long prompt never holds up the others for more than one chunk. Who is not through draws
 * nothing yet. */
static void catch_up(draftmodel *d, const bt_propose_seq *seqs, int n_seqs)
{
    enum { FEW = BT_SPEC_MAX + 1 };
    int budget = d->batch->rows_max;
    bt_batch_reset(d->batch);
    for (int s = 0; s < n_seqs; s++) {
        d->n_fed[s] = d->n_cached[seqs[s].seq_idx];
        if (seqs[s].n_tok - d->n_fed[s] <= FEW) {
            feed(d, seqs, s, seqs[s].n_tok - d->n_fed[s]);
        }
    }
    for (int s = 0; s < n_seqs && budget > 0; s++) {
        int n = BT_MIN(seqs[s].n_tok - d->n_fed[s], budget);
        feed(d, seqs, s, n);
        budget -= n;
    }
    if (d->batch->n_tok > 0) {
        run(d, seqs);
    }
}

/* Feeds each sequence's last guess and draws the next one. False when nobody wants more. */
static bool extend(draftmodel *d, const bt_propose_seq *seqs, int n_seqs, int depth)
{
    bt_batch_reset(d->batch);
    for (int s = 0; s < n_seqs; s++) {
        const bt_propose_seq *seq = &seqs[s];
        if (d->n_drawn[s] != depth || depth >= BT_MIN(seq->n_max, d->args.n_draft_max)) {
            continue;
        }
        size_t at = (size_t)s * (size_t)d->args.n_draft_max + (size_t)depth - 1;
        if (ends_answer(seq, d->drawn[at].token)) {
            continue;
        }
        d->row_seq[d->batch->n_logits] = s;
        bt_batch_add(d->batch, feedable(d, d->drawn[at].token), seq->n_tok - 1 + depth, seq->table,
                     BT_WANT_LOGITS);
        d->n_guess[seq->seq_idx] = depth;
    }
    if (d->batch->n_tok == 0) {
        return false;
    }
    run(d, seqs);
    return true;
}

static void propose(bt_proposer *p, const bt_propose_seq *seqs, int n_seqs, bt_candidates *out)
{
    draftmodel *d = (draftmodel *)p;
    BT_ASSERT(n_seqs <= d->args.n_seqs_max);
    for (int s = 0; s < n_seqs; s++) {
        /* At least the last token is fed again: its logits are needed. */
        int32_t *n_cached = &d->n_cached[seqs[s].seq_idx];
        *n_cached = BT_MIN(*n_cached, seqs[s].n_tok - 1);
        d->n_guess[seqs[s].seq_idx] = 0;
        d->n_drawn[s] = 0;
    }
    catch_up(d, seqs, n_seqs);
    for (int depth = 1; extend(d, seqs, n_seqs, depth); depth++) {
    }
    for (int s = 0; s < n_seqs; s++) {
        d->n_cached[seqs[s].seq_idx] = d->n_fed[s];
        bt_candidates_begin(out);
        float chance = 1.0f;
        int parent = -1;
        for (int i = 0; i < d->n_drawn[s]; i++) {
            const bt_draft *draft = &d->drawn[(size_t)s * (size_t)d->args.n_draft_max + (size_t)i];
            chance *= draft->chance;
            parent = bt_candidates_add(out, draft->token, parent, chance, q_row(d, s, i));
        }
    }
}

static void observe(bt_proposer *p, int seq_idx, int n_accepted)
{
    draftmodel *d = (draftmodel *)p;
    d->n_cached[seq_idx] += BT_MIN(n_accepted, d->n_guess[seq_idx]);
    d->n_guess[seq_idx] = 0;
}

static void forget(bt_proposer *p, int seq_idx)
{
    draftmodel *d = (draftmodel *)p;
    d->n_cached[seq_idx] = 0;
    d->n_guess[seq_idx] = 0;
}

static int room(const bt_proposer *p, int n_tok)
{
    const draftmodel *d = (const draftmodel *)p;
    /* The last of k guesses is never fed: positions up to n_tok + k - 2 are used. */
    return BT_MAX(0, d->args.model->n_pos + 1 - n_tok);
}

static void close_draftmodel(bt_proposer *p)
{
    draftmodel *d = (draftmodel *)p;
    bt_batch_close(d->batch);
    bt_sampler_close(d->sampler);
    bt_mem_free(d->n_cached);
    bt_mem_free(d->n_guess);
    bt_mem_free(d->n_fed);
    bt_mem_free(d->n_drawn);
    bt_mem_free(d->row_seq);
    bt_mem_free(d->drawn);
    bt_mem_free(d->q);
    bt_mem_free(d);
}

static const bt_proposer_ops ops = {.name = "draft_model",
                                    .propose = propose,
                                    .observe = observe,
                                    .forget = forget,
                                    .room = room,
                                    .close = close_draftmodel};

bt_status bt_draftmodel_open(const bt_draftmodel_args *args, bt_proposer **out, bt_err *err)
{
    BT_ASSERT(args->n_draft_max >= 1 && args->n_draft_max <= BT_SPEC_MAX && args->n_seqs_max >= 1);
    BT_ASSERT(args->model->rows_max >= args->n_seqs_max);
    size_t s = (size_t)args->n_seqs_max, k = (size_t)args->n_draft_max;
    draftmodel *d = bt_mem_calloc(BT_MEM_ENGINE, 1, sizeof *d);
    if (d == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for the draft model's state");
    }
    d->base.ops = &ops;
    d->args = *args;
    d->n_vocab = BT_MIN(args->model->hp.vocab_size, args->n_vocab_target);
    d->n_cached = bt_mem_calloc(BT_MEM_ENGINE, s, sizeof *d->n_cached);
    d->n_guess = bt_mem_calloc(BT_MEM_ENGINE, s, sizeof *d->n_guess);
    d->n_fed = bt_mem_calloc(BT_MEM_ENGINE, s, sizeof *d->n_fed);
    d->n_drawn = bt_mem_calloc(BT_MEM_ENGINE, s, sizeof *d->n_drawn);
    d->row_seq = bt_mem_calloc(BT_MEM_ENGINE, s, sizeof *d->row_seq);
    d->drawn = bt_mem_calloc(BT_MEM_ENGINE, s * k, sizeof *d->drawn);
    bool ok = d->n_cached && d->n_guess && d->n_fed && d->n_drawn && d->row_seq && d->drawn;
    if (ok && args->keep_q) {
        d->q = bt_mem_calloc(BT_MEM_WORK, s * k * (size_t)args->n_vocab_target, sizeof *d->q);
        ok = d->q != NULL;
    }
    bt_status status = ok ? bt_batch_open(args->model->rows_max, &d->batch, err)
                          : bt_fail(err, BT_E_NO_MEMORY, "no memory for the draft model's state");
    if (status == BT_OK) {
        status = bt_sampler_open(BT_MAX(args->model->hp.vocab_size, args->n_vocab_target),
                                 &d->sampler, err);
    }
    if (status != BT_OK) {
        close_draftmodel(&d->base);
        return status;
    }
    *out = &d->base;
    return BT_OK;
}
