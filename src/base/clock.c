/* SPDX-License-Identifier: MIT */
#include "base/clock.h"

#include <errno.h>
#include <time.h>

int64_t bt_clock_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * BT_NS_PER_S + t.tv_nsec;
}

int64_t bt_clock_unix_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec;
}

void bt_clock_sleep_ns(int64_t ns)
{
    struct timespec left = {.tv_sec = ns / BT_NS_PER_S, .tv_nsec = ns % BT_NS_PER_S};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}
