/* SPDX-License-Identifier: MIT */
#include "model/batch.h"

#include "base/mem.h"

#include <string.h>

bt_status bt_batch_open(int rows_max, bt_batch **out, bt_err *err)
{
    BT_ASSERT(rows_max > 0);
    size_t n = (size_t)rows_max;
    bt_batch *b = bt_mem_calloc(BT_MEM_WORK, 1, sizeof *b);
    if (b == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for a batch of %d rows", rows_max);
    }
    b->rows_max = rows_max;
    b->token = bt_mem_calloc(BT_MEM_WORK, n, sizeof *b->token);
    b->pos = bt_mem_calloc(BT_MEM_WORK, n, sizeof *b->pos);
    b->parent = bt_mem_calloc(BT_MEM_WORK, n, sizeof *b->parent);
    b->want = bt_mem_calloc(BT_MEM_WORK, n, sizeof *b->want);
    b->slot = bt_mem_calloc(BT_MEM_WORK, n, sizeof *b->slot);
    b->n_ctx = bt_mem_calloc(BT_MEM_WORK, n, sizeof *b->n_ctx);
    b->blocks = bt_mem_calloc(BT_MEM_WORK, n, sizeof *b->blocks);
    b->n_tail = bt_mem_calloc(BT_MEM_WORK, n, sizeof *b->n_tail);
    b->tail = bt_mem_calloc(BT_MEM_WORK, n, sizeof *b->tail);
    b->tail_slots = bt_mem_calloc(BT_MEM_WORK, n * BT_TREE_DEPTH_MAX, sizeof *b->tail_slots);
    b->logits_row = bt_mem_calloc(BT_MEM_WORK, n, sizeof *b->logits_row);
    if (!b->token || !b->pos || !b->parent || !b->want || !b->slot || !b->n_ctx || !b->blocks ||
        !b->n_tail || !b->tail || !b->tail_slots || !b->logits_row) {
        bt_batch_close(b);
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for a batch of %d rows", rows_max);
    }
    *out = b;
    return BT_OK;
}

void bt_batch_close(bt_batch *b)
{
    if (b == NULL) {
        return;
    }
    bt_mem_free(b->token);
    bt_mem_free(b->pos);
    bt_mem_free(b->parent);
    bt_mem_free(b->want);
    bt_mem_free(b->slot);
    bt_mem_free(b->n_ctx);
    bt_mem_free(b->blocks);
    bt_mem_free(b->n_tail);
    bt_mem_free(b->tail);
    bt_mem_free(b->tail_slots);
    bt_mem_free(b->logits_row);
    bt_mem_free(b);
}

void bt_batch_reset(bt_batch *b)
{
    b->n_tok = 0;
    b->n_logits = 0;
}

static int add_row(bt_batch *b, int32_t token, int32_t pos, const bt_kv_table *table, uint8_t want)
{
    BT_ASSERT(b->n_tok < b->rows_max && token >= 0 && pos >= 0);
    int i = b->n_tok++;
    b->token[i] = token;
    b->pos[i] = pos;
    b->want[i] = want;
    b->blocks[i] = table->blocks;
    b->tail[i] = b->tail_slots + (size_t)i * BT_TREE_DEPTH_MAX;
    if (want & BT_WANT_LOGITS) {
        b->logits_row[b->n_logits++] = i;
    }
    return i;
}

int bt_batch_add(bt_batch *b, int32_t token, int32_t pos, const bt_kv_table *table, uint8_t want)
{
    BT_ASSERT(pos < table->n_blocks * BT_KV_BLOCK_TOKENS);
    int i = add_row(b, token, pos, table, want);
    b->parent[i] = -1;
    b->slot[i] = bt_kv_slot(table, pos);
    b->n_ctx[i] = pos + 1;
    b->n_tail[i] = 0;
    return i;
}

int bt_batch_add_node(bt_batch *b, const bt_batch_node *node)
{
    int32_t parent = node->parent, n_above = 0;
    BT_ASSERT(parent >= -1 && parent < b->n_tok);
    if (parent >= 0) {
        n_above = b->n_tail[parent];
        BT_ASSERT(n_above > 0 && n_above < BT_TREE_DEPTH_MAX);
        BT_ASSERT(b->n_ctx[parent] == node->n_ctx && b->blocks[parent] == node->table->blocks);
    }
    int i = add_row(b, node->token, node->n_ctx + n_above, node->table, node->want);
    int32_t *tail = b->tail_slots + (size_t)i * BT_TREE_DEPTH_MAX;
    if (n_above > 0) {
        memcpy(tail, b->tail[parent], (size_t)n_above * sizeof *tail);
    }
    tail[n_above] = node->slot;
    b->parent[i] = parent;
    b->slot[i] = node->slot;
    b->n_ctx[i] = node->n_ctx;
    b->n_tail[i] = n_above + 1;
    return i;
}
