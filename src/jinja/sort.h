/* SPDX-License-Identifier: MIT
 *
 * sort.h: Python's sorted(): stable, with an error for values that have no order. */
#ifndef BT_JINJA_SORT_H
#define BT_JINJA_SORT_H

#include "jinja/context.h"

/* order[i]: index of the key that comes i-th. The array lives in the arena. */
bt_status bt_jsort_order(bt_jctx *ctx, const bt_jvalue *keys, size_t n, bool reverse,
                         size_t **order) BT_MUST_USE;

#endif
