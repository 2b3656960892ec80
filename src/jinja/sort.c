/* SPDX-License-Identifier: MIT
 *
 * sort.c: bottom-up merge sort (Knuth, The Art of Computer Programming 3, section 5.2.4). */
#include "jinja/sort.h"

/* Merges from[a, mid) and from[mid, b) into to[a, b). */
static bt_status merge(bt_jctx *ctx, const bt_jvalue *keys, const size_t *from, size_t *to,
                       const size_t bounds[3], int sign)
{
    size_t left = bounds[0];
    size_t right = bounds[1];
    for (size_t k = bounds[0]; k < bounds[2]; k++) {
        bool take_left = right == bounds[2];
        if (left < bounds[1] && right < bounds[2]) {
            int c;
            BT_TRY(bt_jvalue_order(ctx, keys[from[right]], keys[from[left]], "<", &c));
            take_left = c * sign >= 0;
        }
        to[k] = take_left ? from[left++] : from[right++];
    }
    return BT_OK;
}

bt_status bt_jsort_order(bt_jctx *ctx, const bt_jvalue *keys, size_t n, bool reverse,
                         size_t **order)
{
    size_t *from;
    size_t *to;
    BT_TRY(bt_jctx_new(ctx, n, sizeof *from, &from));
    BT_TRY(bt_jctx_new(ctx, n, sizeof *to, &to));
    for (size_t i = 0; i < n; i++) {
        from[i] = i;
    }
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t a = 0; a < n; a += 2 * width) {
            size_t bounds[3] = {a, BT_MIN(a + width, n), BT_MIN(a + 2 * width, n)};
            BT_TRY(merge(ctx, keys, from, to, bounds, reverse ? -1 : 1));
        }
        size_t *swap = from;
        from = to;
        to = swap;
    }
    *order = from;
    return BT_OK;
}
