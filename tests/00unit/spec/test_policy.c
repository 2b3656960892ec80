/* SPDX-License-Identifier: MIT
 *
 * Goal: the fixed policy never asks for more than fits (case 13) and nothing where it is off. Method:
 * all combinations of small numbers against the rule in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "spec/policy.h"

static void all_small_numbers(void **state)
{
    (void)state;
    for (int i = 0; i < 5 * 4 * 4 * 6 * 6 * 6; i++) {
        int at = i;
        bt_policy p = {.n_max = at % 5};
        p.disable_by_batch_size = (at /= 5) % 4;
        int n_running = 1 + (at /= 4) % 4;
        p.n_tok_max = (at /= 4) % 6;
        bt_policy_seq s = {.n_tok = 1 + at / 6 % 6, .n_left = 1 + at / 36 % 6};
        for (s.room = 0; s.room < 6; s.room++) {
            int n = bt_policy_fixed(&p, n_running, &s);
            assert_in_range(n, 0, p.n_max);
            assert_true(n <= s.room);
            assert_true(n < s.n_left); /* the target's own next token needs a place */
            bool crowded = p.disable_by_batch_size > 0 && n_running > p.disable_by_batch_size;
            bool too_long = p.n_tok_max > 0 && s.n_tok >= p.n_tok_max;
            if (crowded || too_long) {
                assert_int_equal(n, 0);
            } else {
                assert_true(n == p.n_max || n == s.room || n == s.n_left - 1);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_small_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
