/* SPDX-License-Identifier: MIT
 *
 * map.h: byte strings to 64-bit integers, open addressing. Keys are borrowed: they must outlive
 * the map. One writer; readers may share a map that is no longer written. */
#ifndef BT_BASE_MAP_H
#define BT_BASE_MAP_H

#include "base/buf.h"

typedef struct bt_map_slot {
    bt_str key;
    uint32_t hash;
    bool full;
    int64_t value;
} bt_map_slot;

typedef struct bt_map {
    bt_map_slot *slots;
    size_t n, cap; /* cap: 0 or a power of two */
    bt_mem_tag tag;
} bt_map;

/* Hash of n bytes (FNV-1a, then mixed); stable within one build. */
uint64_t bt_hash_bytes(const void *bytes, size_t n);

void bt_map_init(bt_map *map, bt_mem_tag tag);
void bt_map_deinit(bt_map *map);
/* Room for n keys without growing. */
bool bt_map_reserve(bt_map *map, size_t n) BT_MUST_USE;
/* Adds a key. *added = false and nothing changes when the key is there already. False when memory
 * is out. */
bool bt_map_add(bt_map *map, bt_str key, int64_t value, bool *added) BT_MUST_USE;
/* NULL when absent; valid until the next add. */
int64_t *bt_map_find(const bt_map *map, bt_str key);

#endif
