/* SPDX-License-Identifier: MIT
 *
 * batch.h: the rows of one forward pass, flat. Row i is token[i] at position pos[i] of some sequence.
 *
 * There is no mask: the keys of a row are positions 0 … n_ctx-1 through the sequence's block table,
 * then, for a node of a candidate tree, its ancestors and itself through a list of slots. A chain of
 * candidates lies at its final slots and needs no list. Owner: the engine thread; memory is claimed
 * at open. */
#ifndef BT_MODEL_BATCH_H
#define BT_MODEL_BATCH_H

#include "kv/block.h"

enum { BT_WANT_LOGITS = 1, BT_WANT_FEATURES = 2, BT_TREE_DEPTH_MAX = 64 };

typedef struct bt_batch {
    int n_tok;    /* T */
    int n_logits; /* R: rows that want logits, in order of rows */
    int rows_max;
    int32_t *token;         /* [T] */
    int32_t *pos;           /* [T] */
    int32_t *parent;        /* [T] row of the tree parent within this batch, -1: the context */
    uint8_t *want;          /* [T] BT_WANT_* */
    int32_t *slot;          /* [T] where the row's own key and value are stored */
    int32_t *n_ctx;         /* [T] keys read through the table */
    const int32_t **blocks; /* [T] block table of the row's sequence, borrowed */
    int32_t *n_tail;        /* [T] */
    const int32_t **tail;   /* [T] n_tail slots each, in tail_slots */
    int32_t *tail_slots;    /* [rows_max, BT_TREE_DEPTH_MAX] */
    int32_t *logits_row;    /* [R] row index of each wanted logits row */
} bt_batch;

bt_status bt_batch_open(int rows_max, bt_batch **out, bt_err *err) BT_MUST_USE;
void bt_batch_close(bt_batch *batch); /* NULL is allowed */
void bt_batch_reset(bt_batch *batch);

/* Adds a row at its final place: its key goes to the table's slot of pos, its keys are positions
 * 0 … pos of the table. Returns the row's index; asserts that there is room. */
int bt_batch_add(bt_batch *batch, int32_t token, int32_t pos, const bt_kv_table *table,
                 uint8_t want);

/* Adds a tree node: its key goes to `slot`, its keys are the context [0, n_ctx) of the table, the
 * nodes from `parent` (a row of this batch added by this function, or -1) upwards, and itself. */
typedef struct bt_batch_node {
    int32_t token, n_ctx, parent, slot;
    const bt_kv_table *table;
    uint8_t want;
} bt_batch_node;
int bt_batch_add_node(bt_batch *batch, const bt_batch_node *node);

#endif
