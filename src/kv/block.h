/* SPDX-License-Identifier: MIT
 *
 * block.h: who owns which part of the key/value cache. Integers only: no tensor is touched here.
 *
 * A block id owns BT_KV_BLOCK_TOKENS positions in EVERY cache of the engine (target layers, draft
 * layers), so that one table a sequence serves them all. Blocks are reference-counted: sequences
 * that share a prefix will hold the same ids.
 *
 *   positions   0 … 15   16 … 31   32 … 47        slot(p) = blocks[p / 16] * 16 + p % 16
 *   blocks        7         2         9
 *
 * Owner: the engine thread. Memory is claimed at open; nothing allocates afterwards. */
#ifndef BT_KV_BLOCK_H
#define BT_KV_BLOCK_H

#include "base/status.h"

enum { BT_KV_BLOCK_TOKENS = 16 };

typedef struct bt_kv_pool {
    int n_blocks;
    int n_free;
    int32_t *free_stack; /* [n_blocks] ids not in use; the top is handed out next */
    int32_t *n_refs;     /* [n_blocks] */
} bt_kv_pool;

/* n_blocks >= 1. */
bt_status bt_kv_pool_init(bt_kv_pool *pool, int n_blocks, bt_err *err) BT_MUST_USE;
void bt_kv_pool_deinit(bt_kv_pool *pool);
/* A block with one reference; -1 when none is free. */
int32_t bt_kv_pool_acquire(bt_kv_pool *pool);
void bt_kv_pool_share(bt_kv_pool *pool, int32_t block);
void bt_kv_pool_release(bt_kv_pool *pool, int32_t block);

/* Blocks that hold n_positions positions. */
BT_INLINE int bt_kv_blocks_for(int64_t n_positions)
{
    return (int)((n_positions + BT_KV_BLOCK_TOKENS - 1) / BT_KV_BLOCK_TOKENS);
}

/* The blocks of one sequence, in order of position. */
typedef struct bt_kv_table {
    int32_t *blocks; /* [blocks_max] */
    int n_blocks, blocks_max;
} bt_kv_table;

bt_status bt_kv_table_init(bt_kv_table *table, int64_t positions_max, bt_err *err) BT_MUST_USE;
void bt_kv_table_deinit(bt_kv_table *table);
/* Takes blocks until n_positions fit; false, with nothing taken, when the pool has too few. */
bool bt_kv_table_grow(bt_kv_table *table, bt_kv_pool *pool, int64_t n_positions) BT_MUST_USE;
/* Gives back the blocks that positions n_positions and above would need. */
void bt_kv_table_truncate(bt_kv_table *table, bt_kv_pool *pool, int64_t n_positions);

BT_INLINE int32_t bt_kv_slot(const bt_kv_table *table, int32_t position)
{
    int32_t idx = position / BT_KV_BLOCK_TOKENS;
    BT_DEBUG_ASSERT(position >= 0 && idx < table->n_blocks);
    return table->blocks[idx] * BT_KV_BLOCK_TOKENS + position % BT_KV_BLOCK_TOKENS;
}

#endif
