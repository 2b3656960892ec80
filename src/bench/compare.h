/* SPDX-License-Identifier: MIT
 *
 * compare.h: two or more things measured by runs that take turns (A, B, A, B, …). The speed of a
 * shared machine moves by a third within minutes; runs that alternate see the same machine, and the
 * ratio of each pair shows how far the answer can be trusted.
 *
 * A value is a rate or another number of which more is better. */
#ifndef BT_BENCH_COMPARE_H
#define BT_BENCH_COMPARE_H

#include "base/status.h"

enum { BT_BENCH_ROUNDS_MAX = 1000, BT_BENCH_CASES_MAX = 16 };

/* One measurement. round: -n_warm … n_rounds - 1. On failure *value is untouched. */
typedef bt_status bt_bench_fn(void *ctx, int round, double *value, bt_err *err);

typedef struct bt_bench_case {
    const char *name;
    bt_bench_fn *run;
    void *ctx;
} bt_bench_case;

typedef struct bt_bench_plan {
    int n_warm;   /* >= 0 rounds that are not counted */
    int n_rounds; /* 1 … BT_BENCH_ROUNDS_MAX */
} bt_bench_plan;

typedef struct bt_bench_stat {
    double median, low, high; /* low and high are the quartiles */
    double min, max;
    int n;
} bt_bench_stat;

typedef struct bt_bench_ratio {
    double of_medians, of_bests;
    bt_bench_stat pairs; /* of a[i] / b[i] */
} bt_bench_ratio;

/* Runs every case once a round, in the order given. samples: [n_cases][n_rounds]. Errors: those of
 * the cases, with the case's name before the message; the first one ends the run. */
bt_status bt_bench_run(const bt_bench_case *cases, int n_cases, bt_bench_plan plan, double *samples,
                       bt_err *err) BT_MUST_USE;

/* Of n samples (1 … BT_BENCH_ROUNDS_MAX), which stay in their order. */
bt_bench_stat bt_bench_stat_of(const double *samples, int n);

/* a over b, sample by sample; every sample is above 0. */
bt_bench_ratio bt_bench_ratio_of(const double *a, const double *b, int n);

#endif
