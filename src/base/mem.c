/* SPDX-License-Identifier: MIT
 *
 * Layout of a block: [up to 63 bytes][64 bytes: header][user bytes …]. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct header {
    void *raw; /* what the C library gave */
    size_t size;
    bt_mem_tag tag;
} header;

static_assert(sizeof(header) <= BT_CACHE_LINE, "the header fits its line");

/* Relaxed: counters for reports, they order nothing. */
static _Atomic size_t used[BT_MEM_TAG_COUNT];
static _Atomic uint64_t fail_countdown;
static _Thread_local bool thread_frozen;

static header *header_of(void *block)
{
    return (header *)((char *)block - BT_CACHE_LINE);
}

static bool injected_failure(void)
{
    uint64_t n = atomic_load_explicit(&fail_countdown, memory_order_relaxed);
    if (n == 0) {
        return false;
    }
    if (n > 1) {
        atomic_store_explicit(&fail_countdown, n - 1, memory_order_relaxed);
        return false;
    }
    return true;
}

/* Zeroed memory comes from calloc: large blocks are then pages of zeros that the system hands out on
 * first touch, so that a cache of gigabytes costs what is used of it. */
static void *allocate(bt_mem_tag tag, size_t size, bool zeroed)
{
    BT_ASSERT(tag < BT_MEM_TAG_COUNT);
    BT_DEBUG_ASSERT(!thread_frozen);
    size_t total, align = BT_CACHE_LINE;
    if (injected_failure() || !bt_add_ok(size, 2 * align, &total)) {
        return NULL;
    }
#if defined(__SANITIZE_ADDRESS__)
    void *raw = NULL; /* exactly as long as asked: the byte after the block is poisoned */
    if (posix_memalign(&raw, align, size + align) != 0) {
        return NULL;
    }
    char *block = (char *)raw + align;
    if (zeroed) {
        memset(block, 0, size);
    }
#else
    char *raw = zeroed ? calloc(1, total) : malloc(total);
    if (raw == NULL) {
        return NULL;
    }
    uintptr_t first = (uintptr_t)raw + align;
    char *block = raw + align + (align - first % align) % align;
#endif
    *header_of(block) = (header){.raw = raw, .size = size, .tag = tag};
    atomic_fetch_add_explicit(&used[tag], size, memory_order_relaxed);
    return block;
}

void *bt_mem_alloc(bt_mem_tag tag, size_t size)
{
    return allocate(tag, size, false);
}

void *bt_mem_calloc(bt_mem_tag tag, size_t n, size_t size)
{
    size_t bytes;
    if (!bt_mul_ok(n, size, &bytes)) {
        return NULL;
    }
    return allocate(tag, bytes, true);
}

void *bt_mem_realloc(bt_mem_tag tag, void *block, size_t n, size_t size)
{
    size_t bytes;
    if (!bt_mul_ok(n, size, &bytes)) {
        return NULL;
    }
    void *fresh = bt_mem_alloc(tag, bytes);
    if (fresh != NULL && block != NULL) {
        memcpy(fresh, block, BT_MIN(bytes, header_of(block)->size));
        bt_mem_free(block);
    }
    return fresh;
}

char *bt_mem_dup(bt_mem_tag tag, const void *bytes, size_t n)
{
    size_t total;
    if (!bt_add_ok(n, 1, &total)) {
        return NULL;
    }
    char *copy = bt_mem_alloc(tag, total);
    if (copy != NULL) {
        if (n > 0) {
            memcpy(copy, bytes, n);
        }
        copy[n] = '\0';
    }
    return copy;
}

void bt_mem_free(void *block)
{
    if (block == NULL) {
        return;
    }
    header *h = header_of(block);
    atomic_fetch_sub_explicit(&used[h->tag], h->size, memory_order_relaxed);
    free(h->raw);
}

size_t bt_mem_used(bt_mem_tag tag)
{
    return atomic_load_explicit(&used[tag], memory_order_relaxed);
}

const char *bt_mem_tag_name(bt_mem_tag tag)
{
    static const char *const names[BT_MEM_TAG_COUNT] = {
        "base", "text", "file", "token", "weights", "kv", "work", "engine", "http",
    };
    return (unsigned)tag < BT_MEM_TAG_COUNT ? names[tag] : "unknown";
}

void bt_mem_freeze_thread(bool frozen)
{
    thread_frozen = frozen;
}

void bt_mem_fail_after(uint64_t n)
{
    atomic_store_explicit(&fail_countdown, n, memory_order_relaxed);
}
