/* SPDX-License-Identifier: MIT
 *
 * timing.h: how long something takes, on a machine that others share. Speeds of one host move by a
 * third within minutes, so two things are compared only by runs that alternate (A, B, A, B), and a
 * result is a median with its spread. */
#ifndef BT_PROBE_TIMING_H
#define BT_PROBE_TIMING_H

#include "base/buf.h"

/* The work to time; whatever it computes must reach memory that ctx owns. */
typedef void bt_timing_fn(void *ctx);

typedef struct bt_timing_case {
    const char *name;
    bt_timing_fn *run;
    void *ctx;
} bt_timing_case;

/* Nanoseconds of one run, over the rounds. */
typedef struct bt_timing {
    double median_ns, best_ns, worst_ns;
    double low_ns, high_ns; /* quartiles */
    int n_rounds;
} bt_timing;

enum { BT_TIMING_CASES_MAX = 64, BT_TIMING_ROUNDS_MAX = 10000 };

/* Times n_cases (1 … 64) over n_rounds (1 … 10000): n_warm untimed rounds first, then in each round
 * every case once, in the order given. out: [n_cases]. Errors: BT_E_NO_MEMORY. */
bt_status bt_timing_run(const bt_timing_case *cases, int n_cases, int n_warm, int n_rounds,
                        bt_timing *out) BT_MUST_USE;

/* The statistics of n >= 1 samples, which it sorts. Quartiles and median by linear interpolation. */
bt_timing bt_timing_of(double *samples_ns, int n);

/* Appends {"name":…,"median_ns":…,"low_ns":…,"high_ns":…,"best_ns":…,"worst_ns":…,"rounds":…}. The
 * name may hold any bytes below 128. */
void bt_timing_json(bt_buf *out, const char *name, const bt_timing *timing);

#endif
