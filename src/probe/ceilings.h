/* SPDX-License-Identifier: MIT
 *
 * ceilings.h: what this machine can do at most, for judging what the engine reaches: the rate at
 * which memory is read, by one thread and by all of them. Decoding reads every weight once a token,
 * so this divided by the model's bytes bounds tokens per second. */
#ifndef BT_PROBE_CEILINGS_H
#define BT_PROBE_CEILINGS_H

#include "base/buf.h"
#include "base/pool.h"

typedef struct bt_ceilings {
    int n_threads;
    size_t bytes;                      /* read in one run */
    double read_one_gbs, read_all_gbs; /* best run, 10^9 bytes a second */
    double median_one_gbs, median_all_gbs;
} bt_ceilings;

/* Reads `bytes` (at least 1 MiB; well above the last cache, 1 GiB say, to measure memory) n_rounds
 * times with one thread and with the whole pool in turn. Allocates the bytes and frees them.
 * BT_E_NO_MEMORY, BT_E_INVALID. */
bt_status bt_ceilings_measure(bt_pool *pool, size_t bytes, int n_rounds, bt_ceilings *out,
                              bt_err *err) BT_MUST_USE;

/* Appends one JSON object with the fields above. */
void bt_ceilings_json(bt_buf *out, const bt_ceilings *ceilings);

#endif
