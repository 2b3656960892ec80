/* SPDX-License-Identifier: MIT
 *
 * Goal: a token is drawn with the right law, safely for every parameter, and drafts draw as the
 * target does. Method: properties over random rows, chi-square with fixed seeds, hostile values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "sample/candidates.h"
#include "samplekit.h"

#include <string.h>

static bt_sampling with(double temperature, double top_p, int top_k, double min_p)
{
    return (bt_sampling){
        .temperature = temperature, .top_p = top_p, .top_k = top_k, .min_p = min_p, .seed = 42};
}

/* Cases 22 and 23: what is allowed, and that a refusal names the field. */
static void parameter_ranges(void **state)
{
    (void)state;
    const bt_sampling good[] = {with(0, 1, 0, 0), with(2, 1, -1, 1), with(1e-12, 1e-4, 1, 0),
                                with(1, 1e-300, INT32_MAX, 0.5), bt_sampling_default()};
    for (size_t i = 0; i < BT_COUNT(good); i++) {
        assert_int_equal(bt_sampling_check(&good[i], NULL), BT_OK);
    }
    const struct {
        bt_sampling params;
        const char *field;
    } bad[] = {
        {with(-1, 1, 0, 0), "temperature"},
        {with(NAN, 1, 0, 0), "temperature"},
        {with(INFINITY, 1, 0, 0), "temperature"},
        {with(2.01, 1, 0, 0), "temperature"},
        {with(1, 0, 0, 0), "top_p"},
        {with(1, 1.1, 0, 0), "top_p"},
        {with(1, NAN, 0, 0), "top_p"},
        {with(1, 1, -2, 0), "top_k"},
        {with(1, 1, INT32_MIN, 0), "top_k"},
        {with(1, 1, 0, -0.1), "min_p"},
        {with(1, 1, 0, 1.5), "min_p"},
        {with(1, 1, 0, NAN), "min_p"},
    };
    for (size_t i = 0; i < BT_COUNT(bad); i++) {
        bt_err err;
        assert_int_equal(bt_sampling_check(&bad[i].params, &err), BT_E_INVALID);
        assert_string_equal(err.param, bad[i].field);
        assert_non_null(strstr(err.message, bad[i].field));
    }
}

/* Case 22: temperature 0, 1e-12, 1e-6 … 1e-3 equal greedy where the gap is at least 1, with logits
 * of +-60000 too, under any filter. */
static void tiny_temperatures_are_greedy(void **state)
{
    (void)state;
    enum { V = 3000 };
    static float row[V];
    bt_sampler *s = kit_sampler(V);
    uint64_t rng = 22;
    const double ts[] = {0, 1e-12, 1e-6, 9.9e-6, 1e-5, 1e-4, 1e-3};
    for (int round = 0; round < 30; round++) {
        bool is_huge = round % 3 == 0;
        for (int i = 0; i < V; i++) {
            row[i] =
                is_huge ? (kit_below(&rng, 2) ? 59000.0f : -60000.0f) : rintf(3 * kit_normal(&rng));
        }
        int top = kit_below(&rng, V);
        row[top] = is_huge ? 60000.0f : 20.0f;
        for (size_t t = 0; t < BT_COUNT(ts); t++) {
            bt_sampling p =
                with(ts[t], round % 2 ? 1.0 : 1e-4, round % 5 ? 0 : 40, round % 7 ? 0 : 0.1);
            p.seed = bt_rng_next(&rng);
            assert_int_equal(kit_pick(s, row, V, &p, round), top);
        }
    }
    bt_sampler_close(s);
}

/* Greedy and near-greedy: ties go to the lowest id, also between 0 and -0 and across blocks. */
static void ties_go_to_the_lowest_id(void **state)
{
    (void)state;
    float row[200];
    bt_sampler *s = kit_sampler(200);
    bt_sampling p = with(0, 1, 0, 0);
    for (int first = 0; first < 199; first += 7) {
        for (int i = 0; i < 200; i++) {
            row[i] = i < first ? -1.0f : 0.0f;
        }
        row[first] = -0.0f;
        assert_int_equal(kit_pick(s, row, 200, &p, 0), first);
    }
    bt_sampler_close(s);
}

/* Case 23: top_k 0, -1, V, V + 5 give the same tokens; top_p 1 and min_p 0 are off. top_k 1, min_p 1
 * and a tiny top_p give the argmax at any temperature. */
static void off_values_are_off(void **state)
{
    (void)state;
    enum { V = 500 };
    float row[V];
    bt_sampler *s = kit_sampler(V);
    uint64_t rng = 23;
    const int ks[] = {0, -1, V, V + 5, INT32_MAX};
    for (int position = 0; position < 50; position++) {
        for (int i = 0; i < V; i++) {
            row[i] = kit_normal(&rng);
        }
        bt_sampling p = with(1, 1, 0, 0);
        int32_t want = kit_pick(s, row, V, &p, position);
        for (size_t k = 0; k < BT_COUNT(ks); k++) {
            p.top_k = ks[k];
            assert_int_equal(kit_pick(s, row, V, &p, position), want);
        }
        bt_sampling greedy = with(0, 1, 0, 0);
        int32_t top = kit_pick(s, row, V, &greedy, position);
        const bt_sampling one[] = {with(2, 1, 1, 0), with(2, 1, 0, 1), with(2, 1e-9, 0, 0)};
        for (size_t k = 0; k < BT_COUNT(one); k++) {
            assert_int_equal(kit_pick(s, row, V, &one[k], position), top);
        }
    }
    bt_sampler_close(s);
}

/* Case 11: a seed repeats; seeds, choices and positions differ from each other. */
static void seeds_own_their_stream(void **state)
{
    (void)state;
    enum { V = 300, LEN = 8, RUNS = 40 };
    float row[V];
    int32_t text[RUNS][LEN];
    bt_sampler *s = kit_sampler(V), *other = kit_sampler(V + 100);
    uint64_t rng = 11;
    for (int i = 0; i < V; i++) {
        row[i] = kit_normal(&rng);
    }
    for (int run = 0; run < RUNS; run++) {
        bt_sampling p = with(1, 0.95, 0, 0);
        p.seed = (uint64_t)(run / 2);
        p.choice = (uint32_t)(run % 2);
        for (int i = 0; i < LEN; i++) {
            text[run][i] = kit_pick(s, row, V, &p, i);
        }
        for (int i = LEN - 1; i >= 0; i--) { /* another order, another sampler: the same */
            assert_int_equal(kit_pick(other, row, V, &p, i), text[run][i]);
        }
        for (int before = 0; before < run; before++) {
            assert_memory_not_equal(text[before], text[run], sizeof text[run]);
        }
    }
    bt_sampler_close(s);
    bt_sampler_close(other);
}

/* A row with NaN, +infinity or nothing unmasked ends in an error and no token; the next row is not
 * affected. */
static void broken_rows_are_refused(void **state)
{
    (void)state;
    float row[100] = {0};
    bt_sampler *s = kit_sampler(100);
    const bt_sampling ps[] = {with(0, 1, 0, 0), with(1, 1, 0, 0), with(1, 0.9, 5, 0.1)};
    const float broken[] = {NAN, -NAN, INFINITY};
    for (size_t p = 0; p < BT_COUNT(ps); p++) {
        for (size_t k = 0; k < BT_COUNT(broken); k++) {
            int32_t token = -7;
            row[77] = broken[k];
            assert_int_equal(bt_sample_pick(s, row, 100, &ps[p], 3, &token), BT_E_INTERNAL);
            bt_draft_args args = {row, 100, NULL, &ps[p], 3};
            bt_draft draft = {.token = -7};
            int n = -7;
            assert_int_equal(bt_sample_draft(s, &args, 1, &draft, &n), BT_E_INTERNAL);
            assert_int_equal(token, -7);
            assert_int_equal(draft.token, -7);
            assert_int_equal(n, -7);
        }
        row[77] = 1.0f;
        assert_in_range(kit_pick(s, row, 100, &ps[p], 3), 0, 99);
    }
    bt_sampler_close(s);
}

/* 200,000 picks follow the processed law that softmax and the filters define; tokens outside never
 * appear. q from bt_sample_draft_q is that law. */
static void picks_have_the_processed_law(void **state)
{
    (void)state;
    enum { V = 40, N = 200000 };
    float row[V], q[V];
    bt_sampler *s = kit_sampler(V);
    uint64_t rng = 8;
    const bt_sampling ps[] = {with(0.8, 0.9, 0, 0), with(1.3, 1, 12, 0), with(1, 0.95, 30, 0.02)};
    for (size_t k = 0; k < BT_COUNT(ps); k++) {
        int count[V] = {0};
        double law[V], total = 0;
        for (int i = 0; i < V; i++) {
            row[i] = 1.5f * kit_normal(&rng);
        }
        row[7] = -INFINITY;
        bt_draft_args args = {row, V, NULL, &ps[k], 0};
        bt_draft draft;
        assert_int_equal(bt_sample_draft_q(s, &args, q, V, &draft), BT_OK);
        for (int i = 0; i < V; i++) {
            law[i] = (double)q[i];
            total += law[i];
        }
        assert_true(fabs(total - 1.0) < 1e-6 && law[7] == 0.0);
        for (int i = 0; i < V; i++) { /* ratios are those of the tempered softmax */
            for (int j = 0; j < V; j++) {
                if (law[i] > 0 && law[j] > 0) {
                    double want = exp(((double)row[i] - (double)row[j]) / ps[k].temperature);
                    assert_true(fabs(law[i] / law[j] / want - 1.0) < 3e-6);
                } else if (law[i] > 0) {
                    assert_true(row[i] > row[j]);
                }
            }
        }
        for (int i = 0; i < N; i++) {
            bt_sampling p = ps[k];
            p.seed = (uint64_t)(i / 1000);
            count[kit_pick(s, row, V, &p, i % 1000)]++;
        }
        assert_true(kit_chi2(count, law, V, N) > 0.001);
    }
    bt_sampler_close(s);
}

/* A draft that has the target's logits drafts the target's pick; of several, the first is it. */
static void perfect_draft_is_the_pick(void **state)
{
    (void)state;
    enum { V = 700 };
    float row[V];
    bt_sampler *s = kit_sampler(V);
    uint64_t rng = 14;
    for (int round = 0; round < 200; round++) {
        kit_row(&rng, row, V);
        bt_sampling p = with(round % 4 * 0.5, round % 3 ? 1.0 : 0.9, round % 5 ? 0 : 20, 0);
        p.seed = bt_rng_next(&rng);
        bt_draft_args args = {row, V, NULL, &p, round};
        bt_draft one, many[8];
        int n;
        int32_t want = kit_pick(s, row, V, &p, round);
        assert_int_equal(bt_sample_draft(s, &args, 1, &one, &n), BT_OK);
        assert_int_equal(n, 1);
        assert_int_equal(one.token, want);
        assert_true(one.chance > 0.0f && one.chance <= 1.0f);
        assert_int_equal(bt_sample_draft(s, &args, 8, many, &n), BT_OK);
        assert_int_equal(n, 8);
        p.top_p = 1.0;
        p.top_k = 0;
        assert_int_equal(many[0].token, kit_pick(s, row, V, &p, round));
        for (int i = 1; i < n; i++) {
            assert_true(many[i].chance <= many[i - 1].chance);
            for (int j = 0; j < i; j++) {
                assert_int_not_equal(many[i].token, many[j].token);
            }
        }
    }
    bt_sampler_close(s);
}

/* A draft with its own reduced vocabulary draws with the noise of the target's ids: the same token as
 * from a full row in which the other ids are masked; q is spread over the target's ids. */
static void reduced_vocabulary_shares_the_noise(void **state)
{
    (void)state;
    enum { V = 900, R = 300 };
    float full[V], row[R], q[V];
    int32_t id[R];
    bt_sampler *s = kit_sampler(V);
    uint64_t rng = 15;
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < V; i++) {
            full[i] = -INFINITY;
        }
        for (int i = 0; i < R; i++) {
            id[i] = 3 * i + kit_below(&rng, 3);
            row[i] = rintf(4 * kit_normal(&rng)) / 2;
            full[id[i]] = row[i];
        }
        bt_sampling p = with(round % 3 * 0.6, round % 2 ? 1.0 : 0.8, 0, 0);
        p.seed = bt_rng_next(&rng);
        bt_draft_args args = {row, R, id, &p, round};
        bt_draft draft;
        assert_int_equal(bt_sample_draft_q(s, &args, q, V, &draft), BT_OK);
        assert_int_equal(draft.token, kit_pick(s, full, V, &p, round));
        double total = 0;
        for (int i = 0; i < V; i++) {
            total += (double)q[i];
            assert_true(q[i] == 0.0f || full[i] > -INFINITY);
        }
        assert_true(fabs(total - 1.0) < 1e-6 && q[draft.token] > 0.0f);
    }
    bt_sampler_close(s);
}

/* Nothing allocates after open (a debug build stops if it does); open survives every failed
 * allocation. */
static void memory_is_claimed_at_open(void **state)
{
    (void)state;
    float row[1000], q[1000];
    uint64_t rng = 3;
    bt_err err;
    bt_sampler *s = NULL;
    assert_int_equal(bt_sampler_open(0, &s, &err), BT_E_LIMIT);
    assert_int_equal(bt_sampler_open(INT32_MAX, &s, &err), BT_E_LIMIT);
    size_t before = bt_mem_used(BT_MEM_WORK);
    for (uint64_t nth = 1; s == NULL; nth++) {
        bt_mem_fail_after(nth);
        bt_status status = bt_sampler_open(1000, &s, &err);
        bt_mem_fail_after(0);
        assert_true(status == BT_OK || (status == BT_E_NO_MEMORY && s == NULL));
        assert_true(s != NULL || bt_mem_used(BT_MEM_WORK) == before);
    }
    bt_mem_freeze_thread(true);
    kit_row(&rng, row, 1000);
    const bt_sampling ps[] = {with(0, 1, 0, 0), with(1, 1, 0, 0), with(1, 0.9, 50, 0.01)};
    for (size_t k = 0; k < BT_COUNT(ps); k++) {
        kit_pick(s, row, 1000, &ps[k], 0);
        bt_draft_args args = {row, 1000, NULL, &ps[k], 0};
        bt_draft draft;
        assert_int_equal(bt_sample_draft_q(s, &args, q, 1000, &draft), BT_OK);
    }
    bt_mem_freeze_thread(false);
    bt_sampler_close(s);
    assert_int_equal(bt_mem_used(BT_MEM_WORK), before);
}

/* The forest holds what it was opened for, refuses more by -1, and starts anew after a reset. */
static void candidates_keep_their_bounds(void **state)
{
    (void)state;
    bt_candidates *c = NULL;
    for (uint64_t nth = 1; c == NULL; nth++) {
        bt_mem_fail_after(nth);
        bt_status status = bt_candidates_open(3, BT_SPEC_MAX, &c, NULL);
        bt_mem_fail_after(0);
        assert_true(status == BT_OK || status == BT_E_NO_MEMORY);
    }
    for (int round = 0; round < 2; round++) {
        bt_candidates_reset(c);
        for (int seq = 0; seq < 3; seq++) {
            assert_int_equal(bt_candidates_begin(c), seq);
            for (int i = 0; i < BT_SPEC_MAX; i++) {
                assert_int_equal(bt_candidates_add(c, 10 * seq + i, i - 1, 0.5f, NULL), i);
            }
            assert_int_equal(bt_candidates_add(c, 1, -1, 0.5f, NULL), -1);
            assert_int_equal(c->first[seq], seq * BT_SPEC_MAX);
            assert_int_equal(c->n[seq], BT_SPEC_MAX);
            assert_int_equal(c->token[c->first[seq] + 5], 10 * seq + 5);
            assert_int_equal(c->parent[c->first[seq] + 5], 4);
        }
        assert_int_equal(c->n_nodes, 3 * BT_SPEC_MAX);
    }
    bt_candidates_close(c);
    bt_candidates_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameter_ranges),
        cmocka_unit_test(tiny_temperatures_are_greedy),
        cmocka_unit_test(ties_go_to_the_lowest_id),
        cmocka_unit_test(off_values_are_off),
        cmocka_unit_test(seeds_own_their_stream),
        cmocka_unit_test(broken_rows_are_refused),
        cmocka_unit_test(picks_have_the_processed_law),
        cmocka_unit_test(perfect_draft_is_the_pick),
        cmocka_unit_test(reduced_vocabulary_shares_the_noise),
        cmocka_unit_test(memory_is_claimed_at_open),
        cmocka_unit_test(candidates_keep_their_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
