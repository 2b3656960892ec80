/* SPDX-License-Identifier: MIT
 *
 * bell.h: lets a thread sleep until another one has news, without losing a ring.
 *
 *   waiter:  seen = bt_bell_read(&bell); if (nothing to do) bt_bell_wait(&bell, seen, -1);
 *   ringer:  publish the news; bt_bell_ring(&bell);
 *
 * Any number of ringers and waiters. Ringing costs a system call only while somebody sleeps. */
#ifndef BT_BASE_BELL_H
#define BT_BASE_BELL_H

#include "base/base.h"

#include <stdatomic.h>

typedef struct bt_bell {
    _Atomic uint32_t count; /* futex word: rings so far */
    _Atomic uint32_t n_sleeping;
} bt_bell;

void bt_bell_init(bt_bell *bell);
/* What was published before the rings counted here is visible to the reader. */
uint32_t bt_bell_read(bt_bell *bell);
void bt_bell_ring(bt_bell *bell);
/* Returns once the bell has rung since `seen` was read, or after timeout_ns (< 0: never). */
void bt_bell_wait(bt_bell *bell, uint32_t seen, int64_t timeout_ns);

#endif
