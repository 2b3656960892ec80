/* SPDX-License-Identifier: MIT
 *
 * rng.h: counter-based random numbers. A value is a function of (key, counter) alone, so that it
 * does not depend on what was drawn before, on threads or on the batch.
 *
 * Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3",
 * SC 2011; round constants and known answers as published there. */
#ifndef BT_BASE_RNG_H
#define BT_BASE_RNG_H

#include "base/base.h"

typedef struct bt_philox {
    uint32_t v[4];
} bt_philox;

/* Ten rounds of Philox4x32 under the 64-bit key. */
bt_philox bt_rng_philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3);

/* 64 bits from the operating system (getrandom); never fails, waits for entropy at boot. */
uint64_t bt_rng_random_seed(void);

/* A small sequential generator for tests and tools: SplitMix64 (Steele, Lea, Flood 2014). */
uint64_t bt_rng_next(uint64_t *state);

#endif
