/* SPDX-License-Identifier: MIT
 *
 * Goal: verification is lossless. Method: a toy model whose law depends on the last token gives every
 * probability exactly. Coupled: the text equals plain decoding for every proposer. Rejection: chi-square
 * of 200,000 draws against the exact law, and against the law of typical mistakes, which must be
 * told apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sample/verify.h"
#include "samplekit.h"

#include <string.h>

enum { V = 6, DRAWS = 200000 };

/* Logits after each last token; the last entry of the first index is the start. */
typedef struct toy {
    float target[V + 1][V], draft[V + 1][V];
} toy;

static void toy_make(toy *m, uint64_t seed, float spread, float noise)
{
    for (int last = 0; last <= V; last++) {
        for (int i = 0; i < V; i++) {
            m->target[last][i] = spread * kit_normal(&seed);
            m->draft[last][i] = m->target[last][i] + noise * kit_normal(&seed);
        }
    }
}

/* The candidates of one step with the rows that follow them. */
typedef struct guess {
    const toy *model;
    int last; /* committed token, V: none */
    int n, broken_at;
    int32_t token[BT_SPEC_MAX], parent[BT_SPEC_MAX];
    float q[BT_SPEC_MAX][V];
    const float *q_row[BT_SPEC_MAX];
} guess;

static const float *guess_row(void *ctx, int node)
{
    const guess *g = ctx;
    static const float broken[V] = {0, 0, NAN};
    if (node >= 0 && node == g->broken_at) {
        return broken;
    }
    int32_t token = node < 0 ? g->last : g->token[node];
    return g->model->target[token >= 0 && token <= V ? token : 0];
}

typedef enum proposer { NOTHING, RANDOM, HOSTILE, DRAWN, PERFECT, TREE, PROPOSERS } proposer;

static void add(guess *g, int32_t token, int parent)
{
    g->token[g->n] = token;
    g->parent[g->n] = parent;
    g->q_row[g->n] = NULL;
    g->n++;
}

/* Top-3 children of every node to depth 3, in order of making. */
static void propose_tree(guess *g, bt_sampler *s, const bt_sampling *p, int32_t position)
{
    int depth[BT_SPEC_MAX];
    for (int node = -1; node < g->n; node++) {
        int d = node < 0 ? 0 : depth[node];
        if (d == 3 || g->n + 3 > BT_SPEC_MAX) {
            continue;
        }
        bt_draft_args args = {g->model->draft[node < 0 ? g->last : g->token[node]], V, NULL, p,
                              position + d};
        bt_draft best[3];
        int n;
        assert_int_equal(bt_sample_draft(s, &args, 3, best, &n), BT_OK);
        for (int i = 0; i < n; i++) {
            depth[g->n] = d + 1;
            add(g, best[i].token, node);
        }
    }
}

static void propose(guess *g, proposer who, bt_sampler *s, const bt_sampling *p, int32_t position,
                    uint64_t *rng)
{
    g->n = 0;
    g->broken_at = -2;
    if (who == TREE) {
        propose_tree(g, s, p, position);
        return;
    }
    int n = who == NOTHING ? 0 : 1 + kit_below(rng, 5), last = g->last;
    for (int i = 0; i < n; i++) {
        const int32_t hostile[] = {-1, V, INT32_MAX, INT32_MIN, 0, 5};
        bt_draft_args args = {g->model->draft[last], V, NULL, p, position + i};
        bt_draft draft = {.token = who == HOSTILE ? hostile[kit_below(rng, 6)] : kit_below(rng, V)};
        if (who == DRAWN || who == PERFECT) {
            args.logits = who == PERFECT ? g->model->target[last] : args.logits;
            assert_int_equal(bt_sample_draft_q(s, &args, g->q[i], V, &draft), BT_OK);
        }
        add(g, draft.token, i - 1);
        g->q_row[i] = who == DRAWN || who == PERFECT ? g->q[i] : NULL;
        last = draft.token >= 0 && draft.token < V ? draft.token : 0;
    }
}

typedef bt_status verifier(bt_sampler *, const bt_verify_args *, bt_accept *);

/* lint: allow parameters: a test helper called with all of a case. */
/* Decodes `length` tokens; returns the steps it took. */
static int decode(const toy *m, proposer who, verifier *verify, const bt_sampling *p, int32_t *text,
                  int length, bt_sampler *s)
{
    static guess g;
    uint64_t rng = p->seed * 77 + 5;
    int n = 0, steps = 0, start = 100; /* the prompt's length */
    for (; n < length; steps++) {
        g.model = m;
        g.last = n == 0 ? V : text[n - 1];
        propose(&g, who, s, p, start + n, &rng);
        bt_verify_args args = {.row = guess_row,
                               .ctx = &g,
                               .n_vocab = V,
                               .params = p,
                               .position = start + n,
                               .n = g.n,
                               .token = g.token,
                               .parent = who == TREE || steps % 2 ? g.parent : NULL,
                               .q = g.q_row};
        bt_accept got;
        assert_int_equal(verify(s, &args, &got), BT_OK);
        assert_int_equal(got.n_tokens, got.n_accepted + 1);
        for (int i = 0; i < got.n_tokens; i++) {
            if (i < got.n_accepted) {
                assert_int_equal(g.token[got.node[i]], got.token[i]);
                assert_int_equal(g.parent[got.node[i]], i == 0 ? -1 : got.node[i - 1]);
            }
            assert_in_range(got.token[i], 0, V - 1);
            if (n < length) {
                text[n++] = got.token[i];
            }
        }
        if (who == PERFECT) {
            assert_int_equal(got.n_accepted, g.n);
        }
    }
    return steps;
}

static bt_sampling params_of(int kind, uint64_t seed)
{
    bt_sampling p = bt_sampling_default();
    const double ts[] = {1.0, 0.0, 0.7, 1.5};
    p.temperature = ts[kind % 4];
    p.top_p = kind % 3 == 2 ? 0.9 : 1.0;
    p.top_k = kind % 5 == 3 ? 4 : 0;
    p.min_p = kind % 7 == 4 ? 0.05 : 0.0;
    p.seed = seed;
    return p;
}

/* Cases 4, 5, 11 as far as drawing goes: coupled text is that of one token at a time, for every
 * proposer, setting and seed; under greedy rejection gives the same. A perfect draft is accepted for
 * ever. Noise belongs to its position, so what was thrown away consumed nothing. */
static void coupled_text_does_not_depend_on_the_proposer(void **state)
{
    (void)state;
    enum { LEN = 40 };
    toy m;
    bt_sampler *s = kit_sampler(V);
    for (int kind = 0; kind < 24; kind++) {
        toy_make(&m, (uint64_t)kind, 1.0f, 0.7f);
        for (uint64_t seed = 1; seed <= 6; seed++) {
            bt_sampling p = params_of(kind, seed);
            int32_t want[LEN], got[LEN];
            for (int i = 0; i < LEN; i++) {
                want[i] = kit_pick(s, m.target[i == 0 ? V : want[i - 1]], V, &p, 100 + i);
            }
            for (proposer who = NOTHING; who < PROPOSERS; who++) {
                int steps = decode(&m, who, bt_verify_coupled, &p, got, LEN, s);
                assert_memory_equal(got, want, sizeof want);
                assert_true(who != NOTHING || steps == LEN);
                if (bt_sampling_is_greedy(&p) || who == NOTHING) {
                    decode(&m, who, bt_verify_rejection, &p, got, LEN, s);
                    assert_memory_equal(got, want, sizeof want);
                }
            }
        }
    }
    bt_sampler_close(s);
}

/* p after temperature 1, in double. */
static void softmax(const float *logits, double *p)
{
    double total = 0;
    for (int i = 0; i < V; i++) {
        total += p[i] = exp((double)logits[i]);
    }
    for (int i = 0; i < V; i++) {
        p[i] /= total;
    }
}

/* Coupled acceptance lies between (1 - TV) / (1 + TV) and 1 - TV, and equals the closed form
 * sum_i 1 / sum_j max(p_j / p_i, q_j / q_i), for several pairs. */
static void coupled_acceptance_meets_its_bound(void **state)
{
    (void)state;
    enum { N = 20000 };
    bt_sampler *s = kit_sampler(V);
    for (uint64_t pair = 0; pair < 8; pair++) {
        toy m;
        toy_make(&m, 50 + pair, 1.2f, 0.25f * (float)(pair + 1));
        double p[V], q[V], tv = 0, closed = 0;
        softmax(m.target[V], p);
        softmax(m.draft[V], q);
        for (int i = 0; i < V; i++) {
            double sum = 0;
            tv += fabs(p[i] - q[i]) / 2;
            for (int j = 0; j < V; j++) {
                sum += fmax(p[j] / p[i], q[j] / q[i]);
            }
            closed += 1 / sum;
        }
        int accepted = 0;
        for (int i = 0; i < N; i++) {
            bt_sampling params = params_of(0, (uint64_t)i);
            bt_draft_args args = {m.draft[V], V, NULL, &params, 9};
            bt_draft draft;
            int n;
            assert_int_equal(bt_sample_draft(s, &args, 1, &draft, &n), BT_OK);
            accepted += draft.token == kit_pick(s, m.target[V], V, &params, 9);
        }
        double rate = (double)accepted / N, error = 4 * sqrt(0.25 / N);
        assert_true(fabs(rate - closed) < error);
        assert_true(rate > (1 - tv) / (1 + tv) - error);
        assert_true(rate < 1 - tv + error);
    }
    bt_sampler_close(s);
}

/* Law of three tokens of text: cells a*V*V + b*V + c. */
static void text_law(const toy *m, double *law)
{
    double p0[V], p1[V], p2[V];
    softmax(m->target[V], p0);
    for (int a = 0; a < V; a++) {
        softmax(m->target[a], p1);
        for (int b = 0; b < V; b++) {
            softmax(m->target[b], p2);
            for (int c = 0; c < V; c++) {
                law[(a * V + b) * V + c] = p0[a] * p1[b] * p2[c];
            }
        }
    }
}

/* Whole texts of three tokens, over several steps, so that noise used by thrown-away drafts is used
 * again: the joint law is the target's for drawn, random, hostile and tree proposers. Random and tree
 * proposals do not look at the verifier's noise. */
static void rejection_text_has_the_target_law(void **state)
{
    (void)state;
    enum { N = 40000 };
    static double law[V * V * V];
    bt_sampler *s = kit_sampler(V);
    toy m;
    toy_make(&m, 3, 1.0f, 1.0f);
    text_law(&m, law);
    for (proposer who = NOTHING; who < PROPOSERS; who++) {
        static int count[V * V * V];
        memset(count, 0, sizeof count);
        for (int i = 0; i < N; i++) {
            bt_sampling p = params_of(0, (uint64_t)who * N + (uint64_t)i);
            int32_t t[3];
            decode(&m, who, bt_verify_rejection, &p, t, 3, s);
            count[(t[0] * V + t[1]) * V + t[2]]++;
        }
        assert_true(kit_chi2(count, law, V * V * V, N) > 0.001);
    }
    bt_sampler_close(s);
}

/* One step with one candidate: first and, where it was accepted, second token. */
static void count_step(bt_sampler *s, const toy *m, bool with_q, int32_t fixed, int *count,
                       int *accepted)
{
    static guess g;
    memset(count, 0, V * sizeof *count);
    *accepted = 0;
    for (int i = 0; i < DRAWS; i++) {
        bt_sampling p = params_of(0, (uint64_t)(i / 1000));
        g = (guess){.model = m, .last = V, .n = 1, .broken_at = -2, .parent = {-1}};
        bt_draft_args draft_args = {m->draft[V], V, NULL, &p, i % 1000};
        bt_draft draft;
        assert_int_equal(bt_sample_draft_q(s, &draft_args, g.q[0], V, &draft), BT_OK);
        g.token[0] = with_q ? draft.token : fixed;
        g.q_row[0] = with_q ? g.q[0] : NULL;
        bt_verify_args args = {.row = guess_row,
                               .ctx = &g,
                               .n_vocab = V,
                               .params = &p,
                               .position = i % 1000,
                               .n = 1,
                               .token = g.token,
                               .q = g.q_row};
        bt_accept got;
        assert_int_equal(bt_verify_rejection(s, &args, &got), BT_OK);
        count[got.token[0]]++;
        *accepted += got.n_accepted;
    }
}

/* 200,000 single steps for several pairs: the law is p, acceptance is 1 - TV (drawn) or p(x)
 * (chosen). The laws of four typical mistakes are refused by the same counts: residual p instead of
 * p - q, residual |p - q|, acceptance for ever, no acceptance rule at all (q). */
static void rejection_step_has_the_target_law(void **state)
{
    (void)state;
    bt_sampler *s = kit_sampler(V);
    for (uint64_t pair = 0; pair < 3; pair++) {
        toy m;
        toy_make(&m, 70 + pair, 1.0f, 0.6f + 0.4f * (float)pair);
        double p[V], q[V], tv = 0, wrong[3][V];
        softmax(m.target[V], p);
        softmax(m.draft[V], q);
        for (int i = 0; i < V; i++) {
            tv += fabs(p[i] - q[i]) / 2;
        }
        for (int i = 0; i < V; i++) {
            wrong[0][i] = fmin(p[i], q[i]) + tv * p[i];
            wrong[1][i] = fmin(p[i], q[i]) + tv * fabs(p[i] - q[i]) / (2 * tv);
            wrong[2][i] = q[i];
        }
        int count[V], accepted;
        double error = 4 * sqrt(0.25 / DRAWS);
        count_step(s, &m, true, 0, count, &accepted);
        assert_true(kit_chi2(count, p, V, DRAWS) > 0.001);
        for (int k = 0; k < 3; k++) {
            assert_true(kit_chi2(count, wrong[k], V, DRAWS) < 1e-6);
        }
        assert_true(fabs((double)accepted / DRAWS - (1 - tv)) < error);
        count_step(s, &m, false, 2, count, &accepted);
        assert_true(kit_chi2(count, p, V, DRAWS) > 0.001);
        assert_true(fabs((double)accepted / DRAWS - p[2]) < error);
    }
    bt_sampler_close(s);
}

/* Rejection repeats from run to run with a seed, and another seed gives another text. */
static void rejection_repeats_with_a_seed(void **state)
{
    (void)state;
    enum { LEN = 60 };
    toy m;
    toy_make(&m, 9, 0.5f, 1.0f);
    bt_sampler *s = kit_sampler(V), *other = kit_sampler(50);
    int32_t a[LEN], b[LEN];
    for (proposer who = NOTHING; who < PROPOSERS; who++) {
        bt_sampling p = params_of(0, 5), q = params_of(0, 6);
        decode(&m, who, bt_verify_rejection, &p, a, LEN, s);
        decode(&m, who, bt_verify_rejection, &p, b, LEN, other);
        assert_memory_equal(a, b, sizeof a);
        decode(&m, who, bt_verify_rejection, &q, b, LEN, s);
        assert_memory_not_equal(a, b, sizeof a);
    }
    bt_sampler_close(s);
    bt_sampler_close(other);
}

/* Case "NaN-row": a broken root is an error that changes nothing; a broken row further on ends the
 * block before it, with the tokens of plain decoding. */
static void broken_rows_end_the_block(void **state)
{
    (void)state;
    toy m;
    toy_make(&m, 12, 1.0f, 0.0f);
    bt_sampler *s = kit_sampler(V);
    verifier *const verifiers[] = {bt_verify_coupled, bt_verify_rejection};
    for (int k = 0; k < 2; k++) {
        for (uint64_t seed = 0; seed < 20; seed++) {
            static guess g;
            uint64_t rng = seed;
            bt_sampling p = params_of(k == 0 ? 1 : 0, seed);
            g.model = &m;
            g.last = V;
            do {
                propose(&g, PERFECT, s, &p, 0, &rng);
            } while (g.n < 4);
            bt_verify_args args = {.row = guess_row,
                                   .ctx = &g,
                                   .n_vocab = V,
                                   .params = &p,
                                   .n = g.n,
                                   .token = g.token,
                                   .q = g.q_row};
            bt_accept got;
            g.broken_at = 2;
            assert_int_equal(verifiers[k](s, &args, &got), BT_OK);
            assert_int_equal(got.n_accepted, 2);
            assert_int_equal(got.n_tokens, 3);
            assert_memory_equal(got.token, g.token, 3 * sizeof *g.token);
            memset(&got, 0x55, sizeof got);
            bt_accept before = got;
            static const float nan_row[V] = {NAN};
            bt_verify_rows rows = {nan_row, V};
            args.row = bt_verify_row_flat;
            args.ctx = &rows;
            assert_int_equal(verifiers[k](s, &args, &got), BT_E_INTERNAL);
            assert_memory_equal(&got, &before, sizeof got);
        }
    }
    bt_sampler_close(s);
}

/* The longest chain, all accepted, fills the result exactly; flat rows are found by node. */
static void longest_chain(void **state)
{
    (void)state;
    static float rows[(BT_SPEC_MAX + 1) * V];
    int32_t token[BT_SPEC_MAX];
    for (int i = 0; i <= BT_SPEC_MAX; i++) {
        rows[i * V + i % V] = 9.0f;
        if (i < BT_SPEC_MAX) {
            token[i] = i % V;
        }
    }
    bt_sampler *s = kit_sampler(V);
    bt_sampling p = params_of(1, 0);
    bt_verify_rows flat = {rows, V};
    bt_verify_args args = {.row = bt_verify_row_flat,
                           .ctx = &flat,
                           .n_vocab = V,
                           .params = &p,
                           .n = BT_SPEC_MAX,
                           .token = token};
    bt_accept got;
    assert_int_equal(bt_verify_coupled(s, &args, &got), BT_OK);
    assert_int_equal(got.n_accepted, BT_SPEC_MAX);
    assert_int_equal(got.token[BT_SPEC_MAX], BT_SPEC_MAX % V);
    bt_sampler_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coupled_text_does_not_depend_on_the_proposer),
        cmocka_unit_test(coupled_acceptance_meets_its_bound),
        cmocka_unit_test(rejection_step_has_the_target_law),
        cmocka_unit_test(rejection_text_has_the_target_law),
        cmocka_unit_test(rejection_repeats_with_a_seed),
        cmocka_unit_test(broken_rows_end_the_block),
        cmocka_unit_test(longest_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
