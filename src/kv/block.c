/* SPDX-License-Identifier: MIT */
#include "kv/block.h"

#include "base/mem.h"

bt_status bt_kv_pool_init(bt_kv_pool *pool, int n_blocks, bt_err *err)
{
    BT_ASSERT(n_blocks >= 1);
    int32_t *free_stack = bt_mem_calloc(BT_MEM_ENGINE, (size_t)n_blocks, sizeof *free_stack);
    int32_t *n_refs = bt_mem_calloc(BT_MEM_ENGINE, (size_t)n_blocks, sizeof *n_refs);
    if (free_stack == NULL || n_refs == NULL) {
        bt_mem_free(free_stack);
        bt_mem_free(n_refs);
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for a table of %d cache blocks", n_blocks);
    }
    for (int i = 0; i < n_blocks; i++) {
        free_stack[i] = n_blocks - 1 - i; /* block 0 first: low addresses are touched first */
    }
    *pool = (bt_kv_pool){
        .n_blocks = n_blocks, .n_free = n_blocks, .free_stack = free_stack, .n_refs = n_refs};
    return BT_OK;
}

void bt_kv_pool_deinit(bt_kv_pool *pool)
{
    bt_mem_free(pool->free_stack);
    bt_mem_free(pool->n_refs);
    *pool = (bt_kv_pool){0};
}

int32_t bt_kv_pool_acquire(bt_kv_pool *pool)
{
    if (pool->n_free == 0) {
        return -1;
    }
    int32_t block = pool->free_stack[--pool->n_free];
    BT_ASSERT(pool->n_refs[block] == 0);
    pool->n_refs[block] = 1;
    return block;
}

void bt_kv_pool_share(bt_kv_pool *pool, int32_t block)
{
    BT_ASSERT(block >= 0 && block < pool->n_blocks && pool->n_refs[block] > 0);
    pool->n_refs[block]++;
}

void bt_kv_pool_release(bt_kv_pool *pool, int32_t block)
{
    BT_ASSERT(block >= 0 && block < pool->n_blocks && pool->n_refs[block] > 0);
    if (--pool->n_refs[block] == 0) {
        BT_ASSERT(pool->n_free < pool->n_blocks);
        pool->free_stack[pool->n_free++] = block;
    }
}

bt_status bt_kv_table_init(bt_kv_table *table, int64_t positions_max, bt_err *err)
{
    BT_ASSERT(positions_max >= 1);
    int blocks_max = bt_kv_blocks_for(positions_max);
    int32_t *blocks = bt_mem_calloc(BT_MEM_ENGINE, (size_t)blocks_max, sizeof *blocks);
    if (blocks == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for a block table of %d", blocks_max);
    }
    *table = (bt_kv_table){.blocks = blocks, .blocks_max = blocks_max};
    return BT_OK;
}

void bt_kv_table_deinit(bt_kv_table *table)
{
    BT_ASSERT(table->n_blocks == 0);
    bt_mem_free(table->blocks);
    *table = (bt_kv_table){0};
}

bool bt_kv_table_grow(bt_kv_table *table, bt_kv_pool *pool, int64_t n_positions)
{
    int need = bt_kv_blocks_for(n_positions);
    BT_ASSERT(need <= table->blocks_max);
    if (need - table->n_blocks > pool->n_free) {
        return false;
    }
    while (table->n_blocks < need) {
        table->blocks[table->n_blocks++] = bt_kv_pool_acquire(pool);
    }
    return true;
}

void bt_kv_table_truncate(bt_kv_table *table, bt_kv_pool *pool, int64_t n_positions)
{
    int keep = bt_kv_blocks_for(n_positions);
    while (table->n_blocks > keep) {
        bt_kv_pool_release(pool, table->blocks[--table->n_blocks]);
    }
}
