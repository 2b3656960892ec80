/* SPDX-License-Identifier: MIT
 *
 * clock.h: time. */
#ifndef BT_BASE_CLOCK_H
#define BT_BASE_CLOCK_H

#include "base/base.h"

#define BT_NS_PER_S 1000000000ll

/* Monotonic nanoseconds from an arbitrary start. */
int64_t bt_clock_now_ns(void);
/* Seconds since 1970, for people and for `created` fields. */
int64_t bt_clock_unix_s(void);
void bt_clock_sleep_ns(int64_t ns);

#endif
