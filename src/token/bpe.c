/* SPDX-License-Identifier: MIT */
#include "token/bpe.h"

#include <string.h>

enum { SHORT_PIECE = 40 };

static size_t slot_of(const bt_merges *m, uint64_t pair)
{
    uint64_t h = pair * 0x9E3779B97F4A7C15u;
    return (size_t)(h ^ h >> 32) & (m->cap - 1);
}

static void place(bt_merges *m, const bt_merge *merge)
{
    size_t i = slot_of(m, merge->pair);
    while (m->slots[i].pair != BT_MERGE_NONE && m->slots[i].pair != merge->pair) {
        i = (i + 1) & (m->cap - 1);
    }
    m->n += m->slots[i].pair == BT_MERGE_NONE;
    m->slots[i] = *merge;
}

bt_status bt_merges_reserve(bt_merges *m, size_t n)
{
    size_t cap = 16;
    while (cap / 4 * 3 < n && cap <= SIZE_MAX / 4 / sizeof *m->slots) {
        cap *= 2;
    }
    if (cap <= m->cap) {
        return BT_OK;
    }
    bt_merges grown = {.slots = bt_mem_alloc(BT_MEM_TOKEN, cap * sizeof *grown.slots), .cap = cap};
    if (grown.slots == NULL) {
        return BT_E_NO_MEMORY;
    }
    memset(grown.slots, 0xFF, cap * sizeof *grown.slots); /* every pair BT_MERGE_NONE */
    for (size_t i = 0; i < m->cap; i++) {
        if (m->slots[i].pair != BT_MERGE_NONE) {
            place(&grown, &m->slots[i]);
        }
    }
    bt_mem_free(m->slots);
    *m = grown;
    return BT_OK;
}

void bt_merges_deinit(bt_merges *m)
{
    bt_mem_free(m->slots);
    *m = (bt_merges){0};
}

bt_status bt_merges_add(bt_merges *m, int32_t left, int32_t right, int32_t rank, int32_t id)
{
    BT_ASSERT(left >= 0 && right >= 0);
    if (m->n + 1 > m->cap / 4 * 3) {
        BT_TRY(bt_merges_reserve(m, 2 * m->n + 16));
    }
    place(m, &(bt_merge){
                 .pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right, .rank = rank, .id = id});
    return BT_OK;
}

const bt_merge *bt_merges_find(const bt_merges *m, int32_t left, int32_t right)
{
    if (m->cap == 0 || left < 0 || right < 0) {
        return NULL;
    }
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    for (size_t i = slot_of(m, pair); m->slots[i].pair != BT_MERGE_NONE;
         i = (i + 1) & (m->cap - 1)) {
        if (m->slots[i].pair == pair) {
            return &m->slots[i];
        }
    }
    return NULL;
}

void bt_bpe_deinit(bt_bpe *b)
{
    bt_mem_free(b->symbols);
    bt_mem_free(b->heap);
    *b = (bt_bpe){0};
}

void bt_bpe_reset(bt_bpe *b)
{
    b->n_symbols = 0;
    b->n_heap = 0;
}

bt_status bt_bpe_push(bt_bpe *b, int32_t id)
{
    if (b->n_symbols == b->cap_symbols) {
        size_t cap = b->cap_symbols == 0 ? 64 : 2 * b->cap_symbols;
        bt_bpe_symbol *symbols =
            cap < INT32_MAX ? bt_mem_realloc(BT_MEM_TOKEN, b->symbols, cap, sizeof *symbols) : NULL;
        if (symbols == NULL) {
            return BT_E_NO_MEMORY;
        }
        b->symbols = symbols;
        b->cap_symbols = cap;
    }
    int32_t at = (int32_t)b->n_symbols++;
    b->symbols[at] = (bt_bpe_symbol){.id = id, .prev = at - 1, .next = -1};
    if (at > 0) {
        b->symbols[at - 1].next = at;
    }
    return BT_OK;
}

static void sift_down(uint64_t *heap, size_t n, size_t i)
{
    uint64_t item = heap[i];
    while (2 * i + 1 < n) {
        size_t child = 2 * i + 1;
        child += child + 1 < n && heap[child + 1] < heap[child];
        if (heap[child] >= item) {
            break;
        }
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = item;
}

static void sift_up(uint64_t *heap, size_t i)
{
    uint64_t item = heap[i];
    while (i > 0 && item < heap[(i - 1) / 2]) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = item;
}

/* Looks the pair up that begins at `left`. */
static void rank_pair(bt_bpe *b, const bt_merges *m, int32_t left)
{
    bt_bpe_symbol *s = &b->symbols[left];
    const bt_merge *merge = s->next < 0 ? NULL : bt_merges_find(m, s->id, b->symbols[s->next].id);
    s->rank = merge == NULL ? BT_BPE_NO_RANK : merge->rank;
    s->merged = merge == NULL ? -1 : merge->id;
}

static uint64_t heap_item(const bt_bpe *b, int32_t left)
{
    return (uint64_t)(uint32_t)b->symbols[left].rank << 32 | (uint32_t)left;
}

/* Ranks the pair anew and puts it on the heap, which has room: a merge takes one item off and puts at
 * most two on, and there are fewer merges than symbols. */
static void requeue(bt_bpe *b, const bt_merges *m, int32_t left)
{
    rank_pair(b, m, left);
    if (b->symbols[left].rank != BT_BPE_NO_RANK) {
        BT_DEBUG_ASSERT(b->n_heap < b->cap_heap);
        b->heap[b->n_heap] = heap_item(b, left);
        sift_up(b->heap, b->n_heap++);
    }
}

static bt_status run_long(bt_bpe *b, const bt_merges *m)
{
    if (b->cap_heap < 2 * b->n_symbols) {
        uint64_t *heap = bt_mem_realloc(BT_MEM_TOKEN, b->heap, 2 * b->n_symbols, sizeof *heap);
        if (heap == NULL) {
            return BT_E_NO_MEMORY;
        }
        b->heap = heap;
        b->cap_heap = 2 * b->n_symbols;
    }
    for (size_t i = 0; i < b->n_symbols; i++) {
        rank_pair(b, m, (int32_t)i);
        if (b->symbols[i].rank != BT_BPE_NO_RANK) {
            b->heap[b->n_heap++] = heap_item(b, (int32_t)i);
        }
    }
    for (size_t i = b->n_heap / 2; i-- > 0;) {
        sift_down(b->heap, b->n_heap, i);
    }
    while (b->n_heap > 0) {
        uint64_t top = b->heap[0];
        b->heap[0] = b->heap[--b->n_heap];
        sift_down(b->heap, b->n_heap, 0);
        int32_t at = (int32_t)(uint32_t)top;
        bt_bpe_symbol *left = &b->symbols[at];
        if (left->id < 0 || left->rank == BT_BPE_NO_RANK || heap_item(b, at) != top) {
            continue; /* one of the two has been merged meanwhile */
        }
        bt_bpe_symbol *right = &b->symbols[left->next];
        left->id = left->merged;
        left->next = right->next;
        right->id = -1;
        if (right->next >= 0) {
            b->symbols[right->next].prev = at;
        }
        requeue(b, m, at);
        if (left->prev >= 0) {
            requeue(b, m, left->prev);
        }
    }
    return BT_OK;
}

/* Rank of the pair (left, right), BT_BPE_NO_RANK when it has none. */
static int32_t find_rank(const bt_merges *m, int32_t left, int32_t right, int32_t *merged)
{
    const bt_merge *merge = bt_merges_find(m, left, right);
    *merged = merge == NULL ? -1 : merge->id;
    return merge == NULL ? BT_BPE_NO_RANK : merge->rank;
}

static void run_short(bt_bpe *b, const bt_merges *m)
{
    int32_t id[SHORT_PIECE], rank[SHORT_PIECE], merged[SHORT_PIECE];
    size_t n = b->n_symbols;
    for (size_t i = 0; i < n; i++) {
        id[i] = b->symbols[i].id;
    }
    for (size_t i = 0; i + 1 < n; i++) {
        rank[i] = find_rank(m, id[i], id[i + 1], &merged[i]);
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++) {
            best = rank[i] < rank[best] ? i : best;
        }
        if (rank[best] == BT_BPE_NO_RANK) {
            break;
        }
        id[best] = merged[best];
        n--;
        for (size_t i = best + 1; i < n; i++) {
            id[i] = id[i + 1];
            rank[i - 1] = rank[i];
            merged[i - 1] = merged[i];
        }
        if (best > 0) {
            rank[best - 1] = find_rank(m, id[best - 1], id[best], &merged[best - 1]);
        }
        if (best + 1 < n) {
            rank[best] = find_rank(m, id[best], id[best + 1], &merged[best]);
        }
    }
    for (size_t i = 0; i < n; i++) {
        b->symbols[i].id = id[i];
    }
    b->n_symbols = n;
}

bt_status bt_bpe_run(bt_bpe *b, const bt_merges *m)
{
    if (b->n_symbols > SHORT_PIECE) {
        return run_long(b, m);
    }
    run_short(b, m);
    return BT_OK;
}
