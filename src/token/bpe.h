/* SPDX-License-Identifier: MIT
 *
 * bpe.h: byte-pair merging (Sennrich, Haddow, Birch, arXiv 1508.07909) over one piece of text.
 *
 * Symbols begin as the ids of single bytes or characters; the pair with the lowest rank is merged,
 * the leftmost of equal ones first, until no pair has a rank. A heap and a linked list make it
 * O(n log n) for a piece of n symbols; short pieces, nearly all, are scanned instead. */
#ifndef BT_TOKEN_BPE_H
#define BT_TOKEN_BPE_H

#include "base/mem.h"
#include "base/status.h"

typedef struct bt_merge {
    uint64_t pair; /* left id << 32 | right id; BT_MERGE_NONE: free */
    int32_t rank, id;
} bt_merge;

#define BT_MERGE_NONE UINT64_MAX

/* Open hash of merges. */
typedef struct bt_merges {
    bt_merge *slots;
    size_t n, cap;
} bt_merges;

/* Room for n merges in all. */
bt_status bt_merges_reserve(bt_merges *m, size_t n) BT_MUST_USE;
void bt_merges_deinit(bt_merges *m);
/* The last merge of a pair wins, as in the reference. */
bt_status bt_merges_add(bt_merges *m, int32_t left, int32_t right, int32_t rank,
                        int32_t id) BT_MUST_USE;
/* NULL when the pair does not merge. */
const bt_merge *bt_merges_find(const bt_merges *m, int32_t left, int32_t right);

typedef struct bt_bpe_symbol {
    int32_t id, prev, next; /* -1: none; id -1: merged away */
    int32_t rank, merged;   /* of the pair with the next symbol; rank BT_BPE_NO_RANK: it has none */
} bt_bpe_symbol;

#define BT_BPE_NO_RANK INT32_MAX

/* Scratch of one encode call; grows, one thread. */
typedef struct bt_bpe {
    bt_bpe_symbol *symbols;
    size_t n_symbols, cap_symbols;
    uint64_t *heap; /* rank << 32 | left symbol; entries may be stale */
    size_t n_heap, cap_heap;
} bt_bpe;

void bt_bpe_deinit(bt_bpe *b);
void bt_bpe_reset(bt_bpe *b);
/* Appends a symbol. */
bt_status bt_bpe_push(bt_bpe *b, int32_t id) BT_MUST_USE;
/* Merges all that merges. Afterwards the symbols with id >= 0, in order, are the result. */
bt_status bt_bpe_run(bt_bpe *b, const bt_merges *m) BT_MUST_USE;

#endif
