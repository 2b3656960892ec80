/* SPDX-License-Identifier: MIT */
#include "base/arena.h"

#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
enum { REDZONE = 16 }; /* between neighbours, so that an overflow is seen */
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
enum { REDZONE = 0 };
#endif

enum { ALIGN = 16 };

struct bt_arena_chunk {
    bt_arena_chunk *next;
    size_t size; /* bytes after this header */
    size_t used;
    size_t pad; /* keeps data 16-byte aligned */
};

static char *data_of(bt_arena_chunk *chunk)
{
    return (char *)(chunk + 1);
}

void bt_arena_init(bt_arena *arena, bt_mem_tag tag, size_t chunk_size, size_t limit)
{
    BT_ASSERT(chunk_size > 0);
    *arena = (bt_arena){.tag = tag, .chunk_size = chunk_size, .limit = limit};
}

static void free_chunk(bt_arena_chunk *chunk)
{
    UNPOISON(data_of(chunk), chunk->size);
    bt_mem_free(chunk);
}

void bt_arena_deinit(bt_arena *arena)
{
    while (arena->head != NULL) {
        bt_arena_chunk *next = arena->head->next;
        free_chunk(arena->head);
        arena->head = next;
    }
    arena->used = 0;
}

static bool add_chunk(bt_arena *arena, size_t need)
{
    size_t size = BT_MAX(arena->chunk_size, need);
    size_t total;
    if (!bt_add_ok(size, sizeof(bt_arena_chunk), &total)) {
        return false;
    }
    bt_arena_chunk *chunk = bt_mem_alloc(arena->tag, total);
    if (chunk == NULL) {
        return false;
    }
    *chunk = (bt_arena_chunk){.next = arena->head, .size = size};
    POISON(data_of(chunk), size);
    arena->head = chunk;
    return true;
}

void *bt_arena_alloc(bt_arena *arena, size_t size)
{
    if (size > arena->limit - arena->used || size > SIZE_MAX - ALIGN - REDZONE) {
        return NULL;
    }
    size_t need = BT_ROUND_UP(size, (size_t)ALIGN) + (size_t)REDZONE;
    bt_arena_chunk *chunk = arena->head;
    if (chunk == NULL || need > chunk->size - chunk->used) {
        if (!add_chunk(arena, need)) {
            return NULL;
        }
        chunk = arena->head;
    }
    char *p = data_of(chunk) + chunk->used;
    chunk->used += need;
    arena->used += size;
    UNPOISON(p, size);
    return p;
}

void *bt_arena_calloc(bt_arena *arena, size_t n, size_t size)
{
    size_t bytes;
    if (!bt_mul_ok(n, size, &bytes)) {
        return NULL;
    }
    void *p = bt_arena_alloc(arena, bytes);
    if (p != NULL) {
        memset(p, 0, bytes);
    }
    return p;
}

char *bt_arena_dup(bt_arena *arena, const void *bytes, size_t n)
{
    char *p = n < SIZE_MAX ? bt_arena_alloc(arena, n + 1) : NULL;
    if (p != NULL) {
        if (n > 0) {
            memcpy(p, bytes, n);
        }
        p[n] = '\0';
    }
    return p;
}

void bt_arena_reset(bt_arena *arena)
{
    bt_arena_chunk *keep = NULL;
    while (arena->head != NULL) {
        bt_arena_chunk *chunk = arena->head;
        arena->head = chunk->next;
        if (keep == NULL || chunk->size > keep->size) {
            bt_arena_chunk *drop = keep;
            keep = chunk;
            chunk = drop;
        }
        if (chunk != NULL) {
            free_chunk(chunk);
        }
    }
    if (keep != NULL) {
        keep->next = NULL;
        keep->used = 0;
        POISON(data_of(keep), keep->size);
    }
    arena->head = keep;
    arena->used = 0;
}
