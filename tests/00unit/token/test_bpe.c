/* SPDX-License-Identifier: MIT
 *
 * Goal: merging gives what its definition gives, for short and long pieces, in bounded time. Method:
 * random merges and pieces against a plain search for the lowest, leftmost rank; CPU time of a million
 * symbols. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "token/bpe.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static size_t merge_plainly(int32_t *id, size_t n, const bt_merges *m)
{
    for (;;) {
        const bt_merge *best = NULL;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            const bt_merge *found = bt_merges_find(m, id[i], id[i + 1]);
            if (found != NULL && (best == NULL || found->rank < best->rank)) {
                best = found;
                at = i;
            }
        }
        if (best == NULL) {
            return n;
        }
        id[at] = best->id;
        memmove(id + at + 1, id + at + 2, (n - at - 2) * sizeof *id);
        n--;
    }
}

static void agrees_with_the_definition(void **state)
{
    (void)state;
    uint64_t seed = 7;
    bt_bpe b = {0};
    for (int round = 0; round < 3000; round++) {
        bt_merges m = {0};
        int n_ids = 4 + (int)(bt_rng_next(&seed) % 4);
        for (int i = 0, next = n_ids; i < 30; i++, next++) {
            int32_t left = (int32_t)(bt_rng_next(&seed) % (uint64_t)next);
            int32_t right = (int32_t)(bt_rng_next(&seed) % (uint64_t)next);
            assert_int_equal(bt_merges_add(&m, left, right, i, next), BT_OK);
        }
        int32_t want[200];
        size_t n = bt_rng_next(&seed) % 120;
        bt_bpe_reset(&b);
        for (size_t i = 0; i < n; i++) {
            want[i] = (int32_t)(bt_rng_next(&seed) % (uint64_t)n_ids);
            assert_int_equal(bt_bpe_push(&b, want[i]), BT_OK);
        }
        n = merge_plainly(want, n, &m);
        assert_int_equal(bt_bpe_run(&b, &m), BT_OK);
        size_t k = 0;
        for (size_t i = 0; i < b.n_symbols; i++) {
            if (b.symbols[i].id >= 0) {
                assert_true(k < n);
                assert_int_equal(b.symbols[i].id, want[k++]);
            }
        }
        assert_int_equal(k, n);
        bt_merges_deinit(&m);
    }
    bt_bpe_deinit(&b);
}

static void a_million_symbols_take_no_time(void **state)
{
    (void)state;
    bt_bpe b = {0};
    bt_merges m = {0};
    for (int i = 0; i < 20; i++) { /* pairs, then pairs of pairs … */
        assert_int_equal(bt_merges_add(&m, i, i, i, i + 1), BT_OK);
    }
    for (int i = 0; i < 1 << 20; i++) {
        assert_int_equal(bt_bpe_push(&b, 0), BT_OK);
    }
    clock_t begin = clock();
    assert_int_equal(bt_bpe_run(&b, &m), BT_OK);
    assert_true(clock() - begin < 3 * CLOCKS_PER_SEC);
    assert_int_equal(b.symbols[0].id, 20);
    assert_int_equal(b.symbols[0].next, -1);
    bt_bpe_deinit(&b);
    bt_merges_deinit(&m);
}

static void the_last_of_equal_merges_wins(void **state)
{
    (void)state;
    bt_merges m = {0};
    assert_null(bt_merges_find(&m, 1, 2));
    assert_int_equal(bt_merges_add(&m, 1, 2, 0, 9), BT_OK);
    assert_int_equal(bt_merges_add(&m, 1, 2, 5, 9), BT_OK);
    assert_int_equal(bt_merges_find(&m, 1, 2)->rank, 5);
    assert_int_equal(m.n, 1);
    assert_null(bt_merges_find(&m, 2, 1));
    assert_null(bt_merges_find(&m, -1, 2));
    bt_merges_deinit(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_definition),
        cmocka_unit_test(a_million_symbols_take_no_time),
        cmocka_unit_test(the_last_of_equal_merges_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
