/* SPDX-License-Identifier: MIT */
#include "token/bpe.h"

#include <string.h>

static size_t slot_of(const bt_merges *m, uint64_t pair)
{
    uint64_t h = pair * 0x9E3779B97F4A7C15u;
    return (size_t)(h ^ h >> 32) & (m->cap - 1);
}

bt_status bt_merges_reserve(bt_merges *m, size_t n, bt_err *err)
{
    BT_ASSERT(m->n == 0);
    size_t cap = 16;
    while (cap / 2 < n) {
        cap *= 2;
    }
    bt_merge *slots = bt_mem_alloc(BT_MEM_TOKEN, cap * sizeof *slots);
    if (slots == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for %zu merges", n);
    }
    memset(slots, 0xFF, cap * sizeof *slots); /* every pair BT_MERGE_NONE */
    bt_mem_free(m->slots);
    *m = (bt_merges){.slots = slots, .cap = cap};
    return BT_OK;
}

void bt_merges_deinit(bt_merges *m)
{
    bt_mem_free(m->slots);
    *m = (bt_merges){0};
}

void bt_merges_add(bt_merges *m, int32_t left, int32_t right, int32_t rank, int32_t id)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    BT_ASSERT(m->n < m->cap / 2 + 1 && left >= 0 && right >= 0);
    size_t i = slot_of(m, pair);
    while (m->slots[i].pair != BT_MERGE_NONE) {
        if (m->slots[i].pair == pair) {
            return;
        }
        i = (i + 1) & (m->cap - 1);
    }
    m->slots[i] = (bt_merge){.pair = pair, .rank = rank, .id = id};
    m->n++;
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

static bool before(const bt_bpe_candidate *a, const bt_bpe_candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->left < b->left;
}

static bt_status heap_push(bt_bpe *b, const bt_bpe_candidate *c)
{
    if (b->n_heap == b->cap_heap) {
        size_t cap = b->cap_heap == 0 ? 64 : 2 * b->cap_heap;
        bt_bpe_candidate *heap = bt_mem_realloc(BT_MEM_TOKEN, b->heap, cap, sizeof *heap);
        if (heap == NULL) {
            return BT_E_NO_MEMORY;
        }
        b->heap = heap;
        b->cap_heap = cap;
    }
    size_t i = b->n_heap++;
    while (i > 0 && before(c, &b->heap[(i - 1) / 2])) {
        b->heap[i] = b->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    b->heap[i] = *c;
    return BT_OK;
}

static bt_bpe_candidate heap_pop(bt_bpe *b)
{
    bt_bpe_candidate top = b->heap[0], last = b->heap[--b->n_heap];
    size_t i = 0;
    while (2 * i + 1 < b->n_heap) {
        size_t child = 2 * i + 1;
        if (child + 1 < b->n_heap && before(&b->heap[child + 1], &b->heap[child])) {
            child++;
        }
        if (!before(&b->heap[child], &last)) {
            break;
        }
        b->heap[i] = b->heap[child];
        i = child;
    }
    b->heap[i] = last;
    return top;
}

static bt_status consider(bt_bpe *b, const bt_merges *m, int32_t left, int32_t right)
{
    if (left < 0 || right < 0) {
        return BT_OK;
    }
    const bt_merge *merge = bt_merges_find(m, b->symbols[left].id, b->symbols[right].id);
    if (merge == NULL) {
        return BT_OK;
    }
    return heap_push(b, &(bt_bpe_candidate){.rank = merge->rank,
                                            .left = left,
                                            .right = right,
                                            .id = merge->id,
                                            .left_id = b->symbols[left].id,
                                            .right_id = b->symbols[right].id});
}

bt_status bt_bpe_run(bt_bpe *b, const bt_merges *m)
{
    for (size_t i = 0; i + 1 < b->n_symbols; i++) {
        BT_TRY(consider(b, m, (int32_t)i, (int32_t)i + 1));
    }
    while (b->n_heap > 0) {
        bt_bpe_candidate c = heap_pop(b);
        bt_bpe_symbol *left = &b->symbols[c.left], *right = &b->symbols[c.right];
        if (left->id != c.left_id || right->id != c.right_id || left->next != c.right) {
            continue; /* one of them has been merged meanwhile */
        }
        left->id = c.id;
        left->next = right->next;
        right->id = -1;
        if (right->next >= 0) {
            b->symbols[right->next].prev = c.left;
        }
        BT_TRY(consider(b, m, left->prev, c.left));
        BT_TRY(consider(b, m, c.left, left->next));
    }
    return BT_OK;
}
