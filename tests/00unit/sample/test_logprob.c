/* SPDX-License-Identifier: MIT
 *
 * Goal: log-probabilities are right, ordered, and always fit into JSON (case 29). Method: comparison
 * with a plain computation in long double; hostile rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sample/logprob.h"
#include "samplekit.h"

#include <stdlib.h>

enum { V = 1500 };

static void values_and_order(void **state)
{
    (void)state;
    static float row[V];
    static bt_logprob top[V + 9];
    uint64_t rng = 29;
    for (int round = 0; round < 200; round++) {
        int n = 1 + kit_below(&rng, round % 10 ? 60 : V);
        kit_row(&rng, row, n);
        long double sum = 0, max = -INFINITY;
        for (int i = 0; i < n; i++) {
            max = (long double)row[i] > max ? (long double)row[i] : max;
        }
        for (int i = 0; i < n; i++) {
            sum += expl((long double)row[i] - max);
        }
        int32_t token = kit_below(&rng, n);
        int n_top = round % 4 == 0 ? n + 9 : kit_below(&rng, 21);
        double value = 1;
        int got = bt_logprob_row(row, n, token, n_top, top, &value);
        assert_int_equal(got, n_top < n ? n_top : n);
        double want = (double)((long double)row[token] - max - logl(sum));
        assert_true(fabs(value - fmax(want, BT_LOGPROB_FLOOR)) < 1e-9);
        for (int i = 0; i < got; i++) {
            want = (double)((long double)row[top[i].token] - max - logl(sum));
            assert_true(fabs(top[i].value - fmax(want, BT_LOGPROB_FLOOR)) < 1e-9);
            int before = 0; /* its rank: how many are larger, or equal with a lower id */
            for (int j = 0; j < n; j++) {
                float other = row[j], own = row[top[i].token];
                before += other > own || (other == own && j < top[i].token);
            }
            assert_int_equal(before, i);
        }
    }
}

static void json_can_carry_everything(void **state)
{
    (void)state;
    bt_logprob top[6];
    double value = 1;
    float masked[] = {0.0f, -INFINITY, -3.4e38f, 0.0f};
    assert_int_equal(bt_logprob_row(masked, 4, 1, 6, top, &value), 4);
    assert_true(value == BT_LOGPROB_FLOOR);
    assert_int_equal(top[0].token, 0);
    assert_int_equal(top[1].token, 3);
    assert_true(fabs(top[1].value + log(2)) < 1e-12);
    assert_int_equal(top[2].token, 2);
    assert_true(top[2].value == BT_LOGPROB_FLOOR);
    assert_true(top[3].value == BT_LOGPROB_FLOOR);
    float broken[][3] = {{NAN, 1, 2}, {1, INFINITY, 2}, {-INFINITY, -INFINITY, -INFINITY}};
    for (int k = 0; k < 3; k++) {
        assert_int_equal(bt_logprob_row(broken[k], 3, 2, 2, top, &value), 2);
        assert_true(value == BT_LOGPROB_FLOOR);
        assert_int_equal(top[0].token, 0);
        assert_int_equal(top[1].token, 1);
        assert_true(top[0].value == BT_LOGPROB_FLOOR);
    }
    value = 5;
    assert_int_equal(bt_logprob_row(masked, 4, -1, 0, NULL, &value), 0);
    assert_true(value == 5);
    float one[] = {-1234.5f};
    assert_int_equal(bt_logprob_row(one, 1, 0, 1, top, &value), 1);
    assert_true(value == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_order),
        cmocka_unit_test(json_can_carry_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
