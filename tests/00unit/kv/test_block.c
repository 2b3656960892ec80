/* SPDX-License-Identifier: MIT
 *
 * Goal: no block is lost, doubled or used before it is free. Method: random operations on several
 * tables against a count of who holds what. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "kv/block.h"

#include <string.h>

enum { N_BLOCKS = 23, N_TABLES = 5, POSITIONS_MAX = 200 };

static void random_tables_share_one_pool(void **state)
{
    (void)state;
    bt_kv_pool pool;
    bt_kv_table tables[N_TABLES];
    assert_int_equal(bt_kv_pool_init(&pool, N_BLOCKS, NULL), BT_OK);
    for (int i = 0; i < N_TABLES; i++) {
        assert_int_equal(bt_kv_table_init(&tables[i], POSITIONS_MAX, NULL), BT_OK);
    }
    uint64_t seed = 1;
    for (int step = 0; step < 20000; step++) {
        bt_kv_table *t = &tables[bt_rng_next(&seed) % N_TABLES];
        int64_t n = (int64_t)(bt_rng_next(&seed) % (POSITIONS_MAX + 1));
        int had = t->n_blocks, had_free = pool.n_free;
        if (bt_rng_next(&seed) % 2 == 0) {
            bool fits = bt_kv_blocks_for(n) - had <= had_free;
            assert_int_equal(bt_kv_table_grow(t, &pool, n), fits);
            assert_int_equal(t->n_blocks,
                             fits && bt_kv_blocks_for(n) > had ? bt_kv_blocks_for(n) : had);
        } else {
            bt_kv_table_truncate(t, &pool, n);
            assert_true(t->n_blocks <= bt_kv_blocks_for(n) || t->n_blocks == 0 ||
                        t->n_blocks <= had);
        }
        int holders[N_BLOCKS] = {0}, held = 0;
        for (int i = 0; i < N_TABLES; i++) {
            for (int b = 0; b < tables[i].n_blocks; b++) {
                assert_in_range(tables[i].blocks[b], 0, N_BLOCKS - 1);
                holders[tables[i].blocks[b]]++;
                held++;
            }
        }
        assert_int_equal(held + pool.n_free, N_BLOCKS);
        for (int b = 0; b < N_BLOCKS; b++) {
            assert_true(holders[b] <= 1);
            assert_int_equal(pool.n_refs[b], holders[b]);
        }
    }
    for (int i = 0; i < N_TABLES; i++) {
        bt_kv_table_truncate(&tables[i], &pool, 0);
        bt_kv_table_deinit(&tables[i]);
    }
    assert_int_equal(pool.n_free, N_BLOCKS);
    bt_kv_pool_deinit(&pool);
    assert_int_equal(bt_mem_used(BT_MEM_ENGINE), 0);
}

static void shared_block_is_free_after_its_last_holder(void **state)
{
    (void)state;
    bt_kv_pool pool;
    assert_int_equal(bt_kv_pool_init(&pool, 1, NULL), BT_OK);
    int32_t b = bt_kv_pool_acquire(&pool);
    assert_int_equal(bt_kv_pool_acquire(&pool), -1);
    bt_kv_pool_share(&pool, b);
    bt_kv_pool_release(&pool, b);
    assert_int_equal(pool.n_free, 0);
    bt_kv_pool_release(&pool, b);
    assert_int_equal(pool.n_free, 1);
    bt_kv_pool_deinit(&pool);
}

static void slots_follow_positions(void **state)
{
    (void)state;
    int32_t blocks[3] = {7, 2, 9};
    bt_kv_table t = {.blocks = blocks, .n_blocks = 3, .blocks_max = 3};
    assert_int_equal(bt_kv_slot(&t, 0), 7 * 16);
    assert_int_equal(bt_kv_slot(&t, 15), 7 * 16 + 15);
    assert_int_equal(bt_kv_slot(&t, 16), 2 * 16);
    assert_int_equal(bt_kv_slot(&t, 47), 9 * 16 + 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_tables_share_one_pool),
        cmocka_unit_test(shared_block_is_free_after_its_last_holder),
        cmocka_unit_test(slots_follow_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
