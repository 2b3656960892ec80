/* SPDX-License-Identifier: MIT
 *
 * mem.h: the only way to the heap. Every block is 64-byte aligned and carries a tag, so that
 * /metrics can say where the bytes are, and tests can make the n-th allocation fail.
 *
 * Thread-safe, except the fault injection, which is for single-threaded tests. */
#ifndef BT_BASE_MEM_H
#define BT_BASE_MEM_H

#include "base/base.h"

typedef enum bt_mem_tag {
    BT_MEM_BASE = 0, /* pools, rings, small things */
    BT_MEM_TEXT,     /* JSON trees, strings, templates */
    BT_MEM_FILE,     /* checkpoint tables */
    BT_MEM_TOKEN,    /* vocabularies */
    BT_MEM_WEIGHTS,  /* packed weights */
    BT_MEM_KV,       /* key/value cache */
    BT_MEM_WORK,     /* activations, logits, step arenas */
    BT_MEM_ENGINE,   /* sequences, requests, events */
    BT_MEM_HTTP,     /* connections */
    BT_MEM_TAG_COUNT
} bt_mem_tag;

/* A new block of `size` bytes, contents undefined; size 0 gives a valid block. NULL when memory is
 * out. Returns owned: free with bt_mem_free. */
void *bt_mem_alloc(bt_mem_tag tag, size_t size) BT_MUST_USE;

/* n * size zeroed bytes; NULL when memory is out or the product does not fit. */
void *bt_mem_calloc(bt_mem_tag tag, size_t n, size_t size) BT_MUST_USE;

/* Resizes a block (NULL: a new one) to n * size bytes and keeps the common prefix. On failure
 * returns NULL and the old block stays as it was. */
void *bt_mem_realloc(bt_mem_tag tag, void *block, size_t n, size_t size) BT_MUST_USE;

/* A copy of n bytes with a NUL after them. */
char *bt_mem_dup(bt_mem_tag tag, const void *bytes, size_t n) BT_MUST_USE;

/* NULL is allowed. */
void bt_mem_free(void *block);

/* Bytes now held under a tag. */
size_t bt_mem_used(bt_mem_tag tag);
const char *bt_mem_tag_name(bt_mem_tag tag);

/* Once frozen, an allocation on this thread stops a debug build: the step path has none. */
void bt_mem_freeze_thread(bool frozen);

/* Tests: let the n-th allocation from now on (1 = the next) and all later ones fail; 0 = never. */
void bt_mem_fail_after(uint64_t n);

#endif
