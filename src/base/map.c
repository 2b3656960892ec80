/* SPDX-License-Identifier: MIT */
#include "base/map.h"

uint64_t bt_hash_bytes(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint64_t h = 0xCBF29CE484222325u;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ p[i]) * 0x100000001B3u;
    }
    h ^= h >> 32; /* FNV's low bits alone are weak for a power-of-two table */
    h *= 0x9E3779B97F4A7C15u;
    return h ^ (h >> 29);
}

void bt_map_init(bt_map *map, bt_mem_tag tag)
{
    *map = (bt_map){.tag = tag};
}

void bt_map_deinit(bt_map *map)
{
    bt_mem_free(map->slots);
    *map = (bt_map){.tag = map->tag};
}

/* The slot that holds the key, or the free one where it belongs. */
static bt_map_slot *probe(const bt_map *map, bt_str key, uint32_t hash)
{
    size_t i = hash & (map->cap - 1);
    while (map->slots[i].full &&
           (map->slots[i].hash != hash || !bt_str_eq(map->slots[i].key, key))) {
        i = (i + 1) & (map->cap - 1);
    }
    return &map->slots[i];
}

bool bt_map_reserve(bt_map *map, size_t n)
{
    size_t cap = map->cap == 0 ? 16 : map->cap;
    while (cap / 4 * 3 < n) {
        if (!bt_mul_ok(cap, 2, &cap)) {
            return false;
        }
    }
    if (cap == map->cap) {
        return true;
    }
    bt_map_slot *slots = bt_mem_calloc(map->tag, cap, sizeof *slots);
    if (slots == NULL) {
        return false;
    }
    bt_map bigger = {.slots = slots, .n = map->n, .cap = cap, .tag = map->tag};
    for (size_t i = 0; i < map->cap; i++) {
        if (map->slots[i].full) {
            *probe(&bigger, map->slots[i].key, map->slots[i].hash) = map->slots[i];
        }
    }
    bt_mem_free(map->slots);
    *map = bigger;
    return true;
}

bool bt_map_add(bt_map *map, bt_str key, int64_t value, bool *added)
{
    if (!bt_map_reserve(map, map->n + 1)) {
        return false;
    }
    uint32_t hash = (uint32_t)bt_hash_bytes(key.p, key.n);
    bt_map_slot *slot = probe(map, key, hash);
    *added = !slot->full;
    if (!slot->full) {
        *slot = (bt_map_slot){.key = key, .hash = hash, .full = true, .value = value};
        map->n++;
    }
    return true;
}

int64_t *bt_map_find(const bt_map *map, bt_str key)
{
    if (map->cap == 0) {
        return NULL;
    }
    bt_map_slot *slot = probe(map, key, (uint32_t)bt_hash_bytes(key.p, key.n));
    return slot->full ? &slot->value : NULL;
}
