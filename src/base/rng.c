/* SPDX-License-Identifier: MIT */
#include "base/rng.h"

#include <errno.h>
#include <sys/random.h>

bt_philox bt_rng_philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u; /* golden ratio */
        k1 += 0xBB67AE85u; /* sqrt(3) - 1 */
    }
    return (bt_philox){{c0, c1, c2, c3}};
}

uint64_t bt_rng_random_seed(void)
{
    uint64_t seed = 0;
    ssize_t n;
    do {
        n = getrandom(&seed, sizeof seed, 0);
    } while (n < 0 && errno == EINTR);
    BT_ASSERT(n == (ssize_t)sizeof seed);
    return seed;
}

uint64_t bt_rng_next(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
