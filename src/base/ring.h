/* SPDX-License-Identifier: MIT
 *
 * ring.h: a bounded single-producer single-consumer queue of fixed-size items, copied by value.
 *
 * push only from one thread, pop and peek only from one thread (which may be another). The release
 * store of `tail` in push pairs with the acquire load in pop, that of `head` with the load in
 * push. Neither side blocks or allocates. */
#ifndef BT_BASE_RING_H
#define BT_BASE_RING_H

#include "base/mem.h"

#include <stdatomic.h>

typedef struct bt_ring {
    char *items;
    size_t item_size;
    uint32_t mask;                                 /* capacity - 1 */
    _Alignas(BT_CACHE_LINE) _Atomic uint32_t head; /* next to pop; written by the consumer */
    _Alignas(BT_CACHE_LINE) _Atomic uint32_t tail; /* next to push; written by the producer */
} bt_ring;

/* Capacity: the next power of two >= n_max (n_max in 1…2^30). False when memory is out. */
bool bt_ring_init(bt_ring *ring, bt_mem_tag tag, size_t n_max, size_t item_size) BT_MUST_USE;
void bt_ring_deinit(bt_ring *ring);
/* False when the ring is full. */
bool bt_ring_push(bt_ring *ring, const void *item) BT_MUST_USE;
/* False when the ring is empty. */
bool bt_ring_pop(bt_ring *ring, void *item) BT_MUST_USE;
/* The oldest item in place, NULL when empty; valid until it is popped. */
const void *bt_ring_peek(bt_ring *ring);
/* Free places, as the producer sees them (may only grow meanwhile). */
size_t bt_ring_space(const bt_ring *ring);
bool bt_ring_is_empty(const bt_ring *ring);

#endif
