/* SPDX-License-Identifier: MIT
 *
 * arena.h: bump allocation with mark and reset, for one request or one step.
 *
 * A growing arena chains chunks; a fixed one (chunk_max = chunk_size of the first chunk) returns
 * NULL when it is full. Under AddressSanitizer the unused part is poisoned. One thread at a time. */
#ifndef BT_BASE_ARENA_H
#define BT_BASE_ARENA_H

#include "base/mem.h"

typedef struct bt_arena_chunk bt_arena_chunk;

typedef struct bt_arena {
    bt_arena_chunk *head; /* newest chunk */
    bt_mem_tag tag;
    size_t chunk_size; /* of a new chunk, at least */
    size_t used;       /* bytes handed out since the last reset */
    size_t limit;      /* most bytes that may be handed out */
} bt_arena;

/* An empty arena in the caller's storage; nothing is allocated yet. `limit` bounds all that is
 * handed out between two resets. */
void bt_arena_init(bt_arena *arena, bt_mem_tag tag, size_t chunk_size, size_t limit);

/* Frees all chunks; the arena may be used again. */
void bt_arena_deinit(bt_arena *arena);

/* 16-byte aligned, contents undefined; NULL when memory or the limit is out. Valid until reset or
 * deinit. */
void *bt_arena_alloc(bt_arena *arena, size_t size) BT_MUST_USE;

/* n * size zeroed bytes. */
void *bt_arena_calloc(bt_arena *arena, size_t n, size_t size) BT_MUST_USE;

/* A copy of n bytes with a NUL after them. */
char *bt_arena_dup(bt_arena *arena, const void *bytes, size_t n) BT_MUST_USE;

/* Forgets everything handed out; keeps the largest chunk. */
void bt_arena_reset(bt_arena *arena);

#endif
