/* SPDX-License-Identifier: MIT */
#include "base/ring.h"

#include <string.h>

bool bt_ring_init(bt_ring *ring, bt_mem_tag tag, size_t n_max, size_t item_size)
{
    BT_ASSERT(n_max > 0 && n_max <= (size_t)1 << 30 && item_size > 0);
    size_t cap = 1;
    while (cap < n_max) {
        cap *= 2;
    }
    char *items = bt_mem_calloc(tag, cap, item_size);
    if (items == NULL) {
        return false;
    }
    ring->items = items;
    ring->item_size = item_size;
    ring->mask = (uint32_t)(cap - 1);
    atomic_init(&ring->head, 0);
    atomic_init(&ring->tail, 0);
    return true;
}

void bt_ring_deinit(bt_ring *ring)
{
    bt_mem_free(ring->items);
    ring->items = NULL;
}

static char *item_at(bt_ring *ring, uint32_t idx)
{
    return ring->items + (size_t)(idx & ring->mask) * ring->item_size;
}

bool bt_ring_push(bt_ring *ring, const void *item)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_acquire); /* pop */
    if (tail - head > ring->mask) {
        return false;
    }
    memcpy(item_at(ring, tail), item, ring->item_size);
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release); /* peek */
    return true;
}

const void *bt_ring_peek(bt_ring *ring)
{
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire); /* push */
    return head == tail ? NULL : item_at(ring, head);
}

bool bt_ring_pop(bt_ring *ring, void *item)
{
    const void *oldest = bt_ring_peek(ring);
    if (oldest == NULL) {
        return false;
    }
    memcpy(item, oldest, ring->item_size);
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    atomic_store_explicit(&ring->head, head + 1, memory_order_release); /* push */
    return true;
}

size_t bt_ring_space(const bt_ring *ring)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    return (size_t)ring->mask + 1 - (tail - head);
}

bool bt_ring_is_empty(const bt_ring *ring)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    return tail == atomic_load_explicit(&ring->head, memory_order_acquire);
}
