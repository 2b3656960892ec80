/* SPDX-License-Identifier: MIT
 *
 * literal.h: names, numbers and strings as they stand in a template's source. */
#ifndef BT_JINJA_LITERAL_H
#define BT_JINJA_LITERAL_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/status.h"

/* A letter, a digit or an underscore of ASCII. */
bool bt_literal_is_name(char c);

/* Reads the number at the start of text (which starts with a digit): decimal, 0x, 0o, 0b, reals with
 * point or exponent, underscores between digits. After a dot (x.0.1) only whole numbers are read.
 * Returns its length, 0 when it does not fit 64 bits. */
size_t bt_literal_number(bt_str text, bool after_dot, bool *is_real, int64_t *i, double *r);

/* Resolves the escapes of the inside of a quoted string as Python does; unknown escapes stay. The
 * result is allocated from the arena. BT_E_FORMAT: a broken \x, \u or \U; BT_E_NO_MEMORY. */
bt_status bt_literal_string(bt_str inner, bt_arena *arena, bt_str *out) BT_MUST_USE;

#endif
