/* SPDX-License-Identifier: MIT
 *
 * Goal: the filters keep exactly the right tokens, whatever the row. Method: comparison with a full
 * sort over random and hostile rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sample/sampler.h"
#include "samplekit.h"

#include <stdlib.h>
#include <string.h>

enum { V = 5000 };

static const float *sort_row;

static int by_logit_then_id(const void *a, const void *b)
{
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    if (sort_row[i] != sort_row[j]) {
        return sort_row[i] > sort_row[j] ? -1 : 1;
    }
    return i < j ? -1 : 1;
}

/* The definition in truncate.h, by sorting everything. keep [n]. */
static void sorted_filter(const float *row, int n, const bt_sampling *p, bool *keep)
{
    static int32_t order[V];
    int live = 0;
    for (int i = 0; i < n; i++) {
        keep[i] = false;
        if (row[i] > -INFINITY) {
            order[live++] = i;
        }
    }
    sort_row = row;
    qsort(order, (size_t)live, sizeof *order, by_logit_then_id);
    float max = row[order[0]], inv_t = (float)(1.0 / p->temperature);
    int kept = live;
    if (p->min_p > 0) {
        kept = 0;
        while (kept < live &&
               (double)row[order[kept]] >= (double)max + p->temperature * log(p->min_p)) {
            kept++;
        }
    }
    kept = p->top_k > 0 && p->top_k < kept ? p->top_k : kept;
    if (p->top_p < 1.0) {
        double total = 0, before = 0;
        for (int j = 0; j < kept; j++) {
            total += bt_row_grain(bt_row_exp((row[order[j]] - max) * inv_t));
        }
        int j = 0;
        for (; j < kept && before < p->top_p * total; j++) {
            before += bt_row_grain(bt_row_exp((row[order[j]] - max) * inv_t));
        }
        kept = j;
    }
    for (int j = 0; j < kept; j++) {
        keep[order[j]] = true;
    }
}

static void assert_filter(bt_sampler *s, const float *row, int n, const bt_sampling *p)
{
    static bool keep[V];
    assert_int_equal(bt_sampler_scan(s, row, n), BT_OK);
    bt_truncate_row view = {row, n, s->block_max, s->max, s->kernels->exp};
    int got = bt_truncate(&view, p, &s->trunc), at = 0;
    sorted_filter(row, n, p, keep);
    for (int i = 0; i < n; i++) {
        if (keep[i]) {
            assert_true(at < got);
            assert_int_equal(s->trunc.idx[at], i);
            at++;
        }
    }
    assert_int_equal(at, got);
    assert_true(got >= 1);
}

static void filters_equal_a_full_sort(void **state)
{
    (void)state;
    uint64_t rng = 31;
    static float row[V];
    bt_sampler *s = kit_sampler(V);
    const double top_ps[] = {1.0, 0.9, 0.5, 0.1, 1e-4, 1e-12, 0.999, 0.9999999, 1.0 - 1e-15};
    const double min_ps[] = {0.0, 0.05, 0.5, 1.0, 1e-9};
    const int top_ks[] = {0, 1, 2, 7, 50, 400, V - 1, V, V + 5, -1};
    const double ts[] = {1.0, 0.7, 2.0, 1e-5, 1e-3, 0.1};
    for (int round = 0; round < 600; round++) {
        int n = round % 5 == 0 ? V - kit_below(&rng, 100) : 1 + kit_below(&rng, 300);
        kit_row(&rng, row, n);
        bt_sampling p = bt_sampling_default();
        p.temperature = ts[kit_below(&rng, BT_COUNT(ts))];
        p.top_p = top_ps[kit_below(&rng, BT_COUNT(top_ps))];
        p.min_p = kit_below(&rng, 2) ? 0.0 : min_ps[kit_below(&rng, BT_COUNT(min_ps))];
        p.top_k = kit_below(&rng, 2) ? 0 : top_ks[kit_below(&rng, BT_COUNT(top_ks))];
        assert_filter(s, row, n, &p);
    }
    bt_sampler_close(s);
}

/* Ties at the cut go to the lowest ids; -0 ties with 0; one token; all equal; top_p near 0 keeps the
 * first largest only. */
static void hostile_rows(void **state)
{
    (void)state;
    bt_sampler *s = kit_sampler(V);
    static float row[V];
    bt_sampling p = bt_sampling_default();
    p.top_k = 3;
    const float zeros[] = {-1.0f, -0.0f, 0.0f, 0.0f, -0.0f};
    assert_filter(s, zeros, 5, &p);
    assert_int_equal(s->trunc.idx[0], 1);
    assert_int_equal(s->trunc.idx[2], 3);
    for (int i = 0; i < V; i++) {
        row[i] = -60000.0f;
    }
    p.top_k = 0;
    p.top_p = 1e-12;
    assert_filter(s, row, V, &p);
    assert_int_equal(s->trunc.idx[0], 0);
    p.top_p = 0.5;
    assert_filter(s, row, V, &p);
    assert_int_equal(s->trunc.idx[V / 2 - 1], V / 2 - 1);
    assert_filter(s, row, 1, &p);
    for (int i = 0; i < V; i++) {
        row[i] = i % 2 ? 3.4e38f : -3.4e38f; /* differences overflow a float */
    }
    p.min_p = 0.5;
    assert_filter(s, row, V, &p);
    p.top_k = 5;
    p.min_p = 0.0;
    assert_filter(s, row, V, &p);
    bt_sampler_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_equal_a_full_sort),
        cmocka_unit_test(hostile_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
