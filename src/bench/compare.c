/* SPDX-License-Identifier: MIT */
#include "bench/compare.h"

#include "probe/timing.h"

#include <math.h>
#include <string.h>

static bt_status run_one(const bt_bench_case *c, int round, double *value, bt_err *err)
{
    double v = 0;
    bt_status status = c->run(c->ctx, round, &v, err);
    if (status == BT_OK && !(v > 0 && isfinite(v))) {
        status = bt_fail(err, BT_E_INVALID, "measured %g; a number above 0 is expected", v);
    }
    if (status != BT_OK) {
        bt_err_prefix(err, "%s", c->name);
        return status;
    }
    *value = v;
    return BT_OK;
}

bt_status bt_bench_run(const bt_bench_case *cases, int n_cases, bt_bench_plan plan, double *samples,
                       bt_err *err)
{
    BT_ASSERT(n_cases >= 1 && n_cases <= BT_BENCH_CASES_MAX);
    BT_ASSERT(plan.n_rounds >= 1 && plan.n_rounds <= BT_BENCH_ROUNDS_MAX && plan.n_warm >= 0);
    for (int round = -plan.n_warm; round < plan.n_rounds; round++) {
        for (int i = 0; i < n_cases; i++) {
            double value;
            BT_TRY(run_one(&cases[i], round, &value, err));
            if (round >= 0) {
                samples[(size_t)i * (size_t)plan.n_rounds + (size_t)round] = value;
            }
        }
    }
    return BT_OK;
}

bt_bench_stat bt_bench_stat_of(const double *samples, int n)
{
    BT_ASSERT(n >= 1 && n <= BT_BENCH_ROUNDS_MAX);
    double sorted[BT_BENCH_ROUNDS_MAX];
    memcpy(sorted, samples, (size_t)n * sizeof *samples);
    bt_timing t = bt_timing_of(sorted, n);
    return (bt_bench_stat){.median = t.median_ns,
                           .low = t.low_ns,
                           .high = t.high_ns,
                           .min = t.best_ns,
                           .max = t.worst_ns,
                           .n = n};
}

bt_bench_ratio bt_bench_ratio_of(const double *a, const double *b, int n)
{
    BT_ASSERT(n >= 1 && n <= BT_BENCH_ROUNDS_MAX);
    double ratio[BT_BENCH_ROUNDS_MAX];
    for (int i = 0; i < n; i++) {
        BT_ASSERT(a[i] > 0 && b[i] > 0);
        ratio[i] = a[i] / b[i];
    }
    bt_bench_stat of_a = bt_bench_stat_of(a, n), of_b = bt_bench_stat_of(b, n);
    return (bt_bench_ratio){.of_medians = of_a.median / of_b.median,
                            .of_bests = of_a.max / of_b.max,
                            .pairs = bt_bench_stat_of(ratio, n)};
}
