/* SPDX-License-Identifier: MIT
 *
 * Goal: the noise has the right law, and the block shortcut never changes the winner. Method: moments
 * and chi-square over fixed keys; bit-exact comparison with the function that computes every score. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "kernel/rowstat.h"
#include "sample/gumbel.h"
#include "samplekit.h"

#include <string.h>

/* The straightforward function: every score of every entry. */
static int full_best(const bt_contest *c, int n_best, bt_scored *best)
{
    int n = 0;
    for (int j = 0; j < c->n; j++) {
        int row = c->idx != NULL ? c->idx[j] : j;
        int32_t token = c->id != NULL ? c->id[row] : row;
        if (c->logits[row] > -INFINITY) {
            double x = (double)c->logits[row] * c->inv_t;
            double score = x - log(bt_gumbel_exponential(&c->noise, token));
            bt_scored_offer(best, &n, n_best, (bt_scored){score, token});
        }
    }
    return n;
}

static void assert_same(const bt_contest *c, int n_best)
{
    bt_scored want[BT_GUMBEL_BEST_MAX], got[BT_GUMBEL_BEST_MAX];
    int n_want = full_best(c, n_best, want);
    int n_got = bt_gumbel_best(c, n_best, got);
    assert_int_equal(n_got, n_want);
    for (int i = 0; i < n_want; i++) {
        assert_int_equal(got[i].token, want[i].token);
        assert_memory_equal(&got[i].score, &want[i].score, sizeof(double));
    }
}

/* Rows of all kinds, vocabularies 3 … 60000, temperatures 1e-4 … 5, best 1 … 8, with lists of
 * survivors and with a reduced vocabulary. */
static void block_winner_is_full_winner(void **state)
{
    (void)state;
    enum { V = 60000 };
    uint64_t rng = 20;
    float *row = bt_mem_alloc(BT_MEM_WORK, V * sizeof *row);
    int32_t *idx = bt_mem_alloc(BT_MEM_WORK, V * sizeof *idx);
    int32_t *id = bt_mem_alloc(BT_MEM_WORK, V * sizeof *id);
    float block_max[V / BT_ROW_BLOCK + 1], max;
    for (int round = 0; round < 400; round++) {
        int n =
            round < 4 ? V - kit_below(&rng, 20000) : 3 + kit_below(&rng, round < 200 ? 200 : 3000);
        kit_row(&rng, row, n);
        assert_true(bt_row_scan_ref(row, n, block_max, &max));
        double t = exp(log(1e-4) + kit_uniform(&rng) * log(5e4));
        bt_contest c = {.logits = row,
                        .n = n,
                        .block_max = block_max,
                        .inv_t = 1.0 / t,
                        .noise = {bt_rng_next(&rng), (uint32_t)round, 1, BT_NOISE_PICK}};
        int n_best = 1 + round % 3 * (round % 8) % 8;
        assert_same(&c, n_best);
        int n_idx = 0;
        for (int i = 0; i < n; i++) {
            id[i] = 3 * i + i % 3;
            idx[n_idx] = i;
            n_idx += kit_below(&rng, 4) == 0;
        }
        c.id = id;
        assert_same(&c, n_best);
        c.idx = idx;
        c.n = n_idx;
        assert_same(&c, n_best);
        c.id = NULL;
        assert_same(&c, n_best);
    }
    bt_mem_free(row);
    bt_mem_free(idx);
    bt_mem_free(id);
}

/* Equal scores rank by id in whatever order they come; a full list drops its last. */
static void equal_scores_rank_by_id(void **state)
{
    (void)state;
    const int32_t order[][4] = {{4, 3, 2, 1}, {1, 2, 3, 4}, {2, 4, 1, 3}, {3, 1, 4, 2}};
    for (size_t k = 0; k < BT_COUNT(order); k++) {
        bt_scored best[3];
        int n = 0;
        for (int i = 0; i < 4; i++) {
            bt_scored_offer(best, &n, 3, (bt_scored){1.0, order[k][i]});
        }
        bt_scored_offer(best, &n, 3, (bt_scored){0.5, 0});
        bt_scored_offer(best, &n, 3, (bt_scored){2.0, 9});
        assert_int_equal(n, 3);
        const int32_t want[3] = {9, 1, 2};
        for (int i = 0; i < 3; i++) {
            assert_int_equal(best[i].token, want[i]);
        }
    }
}

/* E is Exp(1): mean 1, variance 1, -log quantiles uniform in 20 bins; neighbours uncorrelated. */
static void noise_is_exponential(void **state)
{
    (void)state;
    enum { N = 200000, BINS = 20 };
    double sum = 0, square = 0, product = 0, last = 1.0;
    int count[BINS] = {0};
    double law[BINS];
    for (int i = 0; i < N; i++) {
        bt_noise noise = {7, (uint32_t)(i / 1000), 0, BT_NOISE_PICK};
        double e = bt_gumbel_exponential(&noise, i % 1000);
        assert_true(e > 0.0 && isfinite(e));
        sum += e;
        square += e * e;
        product += (e - 1.0) * (last - 1.0);
        last = e;
        count[(int)(BINS * exp(-e) * (1.0 - 1e-15))]++;
    }
    for (int b = 0; b < BINS; b++) {
        law[b] = 1.0 / BINS;
    }
    assert_true(fabs(sum / N - 1.0) < 0.01);
    assert_true(fabs(square / N - 2.0) < 0.04);
    assert_true(fabs(product / N) < 0.01);
    assert_true(kit_chi2(count, law, BINS, N) > 0.001);
}

/* The float trap: u = 1 gives infinite noise, at 152k tokens about every 110 positions where 24 bits
 * are used. Here the extreme uniforms are met by construction of uniform52, and over 3 million draws
 * no noise exceeds what 52 bits and a block of 64 allow. */
static void noise_is_never_infinite(void **state)
{
    (void)state;
    for (uint32_t position = 0; position < 500; position++) {
        bt_noise noise = {99, position, 3, BT_NOISE_PICK};
        for (int32_t token = 0; token < 151936; token += 17) {
            if (token / 64 % 8 != 0) {
                continue;
            }
            double e = bt_gumbel_exponential(&noise, token);
            assert_true(e >= 0x1p-60 && e < 60.0);
        }
    }
}

/* Every part of the key matters, and only that: seed and choice are separate words, so that
 * (1, 1) is not (2, 0); the same key gives the same noise. */
static void noise_is_a_function_of_its_key(void **state)
{
    (void)state;
    bt_noise a = {1, 10, 1, BT_NOISE_PICK};
    bt_noise others[] = {{2, 10, 0, BT_NOISE_PICK},
                         {1, 11, 1, BT_NOISE_PICK},
                         {1, 10, 2, BT_NOISE_PICK},
                         {1, 10, 1, BT_NOISE_RESIDUAL},
                         {1ull << 32 | 1, 10, 1, BT_NOISE_PICK}};
    for (int32_t token = 0; token < 300; token++) {
        double e = bt_gumbel_exponential(&a, token);
        assert_true(e == bt_gumbel_exponential(&a, token));
        for (size_t i = 0; i < BT_COUNT(others); i++) {
            assert_true(e != bt_gumbel_exponential(&others[i], token));
        }
    }
}

/* Uniforms lie strictly between 0 and 1 and fill ten bins evenly. */
static void uniforms_are_uniform(void **state)
{
    (void)state;
    int count[10] = {0};
    double law[10];
    for (int i = 0; i < 100000; i++) {
        bt_noise noise = {5, (uint32_t)i, 0, BT_NOISE_ACCEPT};
        double u = bt_gumbel_uniform(&noise, (uint32_t)(i % 3));
        assert_true(u > 0.0 && u < 1.0);
        count[(int)(u * 10)]++;
    }
    for (int b = 0; b < 10; b++) {
        law[b] = 0.1;
    }
    assert_true(kit_chi2(count, law, 10, 100000) > 0.001);
}

/* Argmax of l/T + g is a draw from softmax(l/T): 200,000 draws on several toy laws. A law that is
 * off by a temperature of 3 % must be told apart. */
static void winner_has_the_softmax_law(void **state)
{
    (void)state;
    enum { N = 200000 };
    const int sizes[] = {3, 67, 200};
    uint64_t rng = 4;
    for (size_t k = 0; k < BT_COUNT(sizes); k++) {
        int n = sizes[k], count[200] = {0};
        float row[200], block_max[4], max;
        double law[200], wrong[200], total = 0, wrong_total = 0, t = 0.7 + 0.3 * (double)k;
        for (int i = 0; i < n; i++) {
            row[i] = 1.5f * kit_normal(&rng);
            total += law[i] = exp((double)row[i] / t);
            wrong_total += wrong[i] = exp((double)row[i] / (t * 1.03));
        }
        assert_true(bt_row_scan_ref(row, n, block_max, &max));
        for (int i = 0; i < N; i++) {
            bt_contest c = {.logits = row,
                            .n = n,
                            .block_max = block_max,
                            .inv_t = 1.0 / t,
                            .noise = {(uint64_t)(i / 100), (uint32_t)(i % 100), 0, BT_NOISE_PICK}};
            bt_scored best;
            assert_int_equal(bt_gumbel_best(&c, 1, &best), 1);
            count[best.token]++;
        }
        for (int i = 0; i < n; i++) {
            law[i] /= total;
            wrong[i] /= wrong_total;
        }
        assert_true(kit_chi2(count, law, n, N) > 0.001);
        assert_true(kit_chi2(count, wrong, n, N) < 0.001);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_winner_is_full_winner),    cmocka_unit_test(equal_scores_rank_by_id),
        cmocka_unit_test(noise_is_exponential),           cmocka_unit_test(noise_is_never_infinite),
        cmocka_unit_test(noise_is_a_function_of_its_key), cmocka_unit_test(uniforms_are_uniform),
        cmocka_unit_test(winner_has_the_softmax_law),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
