/* SPDX-License-Identifier: MIT
 *
 * Goal: the rows of a pass say where each key lies and which keys each row sees. Method: chains at
 * their final places, and random trees whose ancestors are followed by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "model/batch.h"

#include <string.h>

enum { ROWS_MAX = 64, BLOCKS = 8 };

typedef struct fixture {
    bt_kv_pool pool;
    bt_kv_table table, other;
    bt_batch *batch;
} fixture;

static void open_fixture(fixture *f)
{
    assert_int_equal(bt_kv_pool_init(&f->pool, BLOCKS, NULL), BT_OK);
    assert_int_equal(bt_kv_table_init(&f->table, 64, NULL), BT_OK);
    assert_int_equal(bt_kv_table_init(&f->other, 64, NULL), BT_OK);
    assert_true(bt_kv_table_grow(&f->other, &f->pool, 17));
    assert_true(bt_kv_table_grow(&f->table, &f->pool, 48));
    assert_int_equal(bt_batch_open(ROWS_MAX, &f->batch, NULL), BT_OK);
}

static void close_fixture(fixture *f)
{
    bt_batch_close(f->batch);
    bt_kv_table_truncate(&f->table, &f->pool, 0);
    bt_kv_table_truncate(&f->other, &f->pool, 0);
    bt_kv_table_deinit(&f->table);
    bt_kv_table_deinit(&f->other);
    bt_kv_pool_deinit(&f->pool);
}

/* Two sequences in turn: each row sees its own table up to itself. */
static void chain_rows(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    for (int round = 0; round < 2; round++) { /* reset gives an empty batch again */
        bt_batch_reset(f.batch);
        int n_wanted = 0;
        for (int i = 0; i < 34; i++) {
            const bt_kv_table *t = i % 2 == 0 ? &f.table : &f.other;
            bool wants = i % 3 == 0;
            int pos = i / 2;
            assert_int_equal(bt_batch_add(f.batch, 100 + i, pos, t, wants ? BT_WANT_LOGITS : 0), i);
            assert_int_equal(f.batch->token[i], 100 + i);
            assert_int_equal(f.batch->pos[i], pos);
            assert_int_equal(f.batch->parent[i], -1);
            assert_int_equal(f.batch->slot[i], bt_kv_slot(t, pos));
            assert_int_equal(f.batch->n_ctx[i], pos + 1);
            assert_int_equal(f.batch->n_tail[i], 0);
            assert_ptr_equal(f.batch->blocks[i], t->blocks);
            if (wants) {
                assert_int_equal(f.batch->logits_row[n_wanted++], i);
            }
        }
        assert_int_equal(f.batch->n_tok, 34);
        assert_int_equal(f.batch->n_logits, n_wanted);
    }
    close_fixture(&f);
}

/* Trees: position is the context's length plus depth; the tail is the way from the root. */
static void tree_nodes(void **state)
{
    (void)state;
    fixture f;
    uint64_t seed = 7;
    open_fixture(&f);
    for (int round = 0; round < 200; round++) {
        bt_batch_reset(f.batch);
        int n_ctx = 1 + (int)(bt_rng_next(&seed) % 20);
        int root = bt_batch_add(f.batch, 1, n_ctx - 1, &f.table, BT_WANT_LOGITS);
        int n = 1 + (int)(bt_rng_next(&seed) % 30), depth[ROWS_MAX] = {0};
        for (int i = 0; i < n; i++) {
            int parent = i == 0 ? -1 : (int)(bt_rng_next(&seed) % (uint64_t)(i + 1)) - 1;
            bt_batch_node node = {.token = 50 + i,
                                  .n_ctx = n_ctx,
                                  .parent = parent < 0 ? -1 : root + 1 + parent,
                                  .slot = 1000 + i,
                                  .table = &f.table,
                                  .want = BT_WANT_LOGITS};
            int row = bt_batch_add_node(f.batch, &node);
            assert_int_equal(row, root + 1 + i);
            depth[row] = parent < 0 ? 0 : depth[node.parent] + 1;
            assert_int_equal(f.batch->pos[row], n_ctx + depth[row]);
            assert_int_equal(f.batch->n_ctx[row], n_ctx);
            assert_int_equal(f.batch->n_tail[row], depth[row] + 1);
            int at = row;
            for (int d = depth[row]; d >= 0; d--) {
                assert_true(at > root);
                assert_int_equal(f.batch->tail[row][d], f.batch->slot[at]);
                at = f.batch->parent[at];
            }
            assert_int_equal(at, -1);
        }
        assert_int_equal(f.batch->n_logits, n + 1);
    }
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(chain_rows), cmocka_unit_test(tree_nodes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
