/* SPDX-License-Identifier: MIT
 *
 * real.h: doubles as text, with the fewest digits that read back as the same double. */
#ifndef BT_TEXT_REAL_H
#define BT_TEXT_REAL_H

#include "base/base.h"

enum { BT_REAL_TEXT_MAX = 32 };

/* Writes a finite value as Python's repr does: always with a point or an exponent (1.0, 0.1, 1e+16,
 * 1e-07, -0.0), exponent form below 1e-4 and from 1e16 on. That is also valid JSON for a real. Writes
 * nan, inf, -inf for what is not finite (not valid JSON). Independent of the locale. NUL-terminated;
 * returns the length. */
size_t bt_real_format(double value, char out[BT_REAL_TEXT_MAX]);

#endif
