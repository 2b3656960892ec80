/* SPDX-License-Identifier: MIT */
#include "base/bell.h"

#include "base/clock.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void bt_bell_init(bt_bell *bell)
{
    atomic_init(&bell->count, 0);
    atomic_init(&bell->n_sleeping, 0);
}

uint32_t bt_bell_read(bt_bell *bell)
{
    return atomic_load_explicit(&bell->count, memory_order_acquire); /* bt_bell_ring */
}

void bt_bell_ring(bt_bell *bell)
{
    /* Sequential consistency: either the waiter's kernel check sees the new count, or this thread
     * sees that somebody sleeps. */
    atomic_fetch_add_explicit(&bell->count, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&bell->n_sleeping, memory_order_seq_cst) > 0) {
        syscall(SYS_futex, &bell->count, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
}

void bt_bell_wait(bt_bell *bell, uint32_t seen, int64_t timeout_ns)
{
    int64_t until = timeout_ns < 0 ? 0 : bt_clock_now_ns() + timeout_ns;
    atomic_fetch_add_explicit(&bell->n_sleeping, 1, memory_order_seq_cst);
    while (atomic_load_explicit(&bell->count, memory_order_seq_cst) == seen) {
        struct timespec left, *timeout = NULL;
        if (timeout_ns >= 0) {
            int64_t ns = until - bt_clock_now_ns();
            if (ns <= 0) {
                break;
            }
            left = (struct timespec){.tv_sec = ns / BT_NS_PER_S, .tv_nsec = ns % BT_NS_PER_S};
            timeout = &left;
        }
        syscall(SYS_futex, &bell->count, FUTEX_WAIT_PRIVATE, seen, timeout, NULL, 0);
    }
    atomic_fetch_sub_explicit(&bell->n_sleeping, 1, memory_order_seq_cst);
}
