/* SPDX-License-Identifier: MIT */
#include "probe/timing.h"

#include "base/clock.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const double *sorted, int n, double q)
{
    double at = q * (n - 1);
    int i = (int)at;
    return i + 1 < n ? sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

bt_timing bt_timing_of(double *samples_ns, int n)
{
    BT_ASSERT(n >= 1);
    qsort(samples_ns, (size_t)n, sizeof *samples_ns, by_value);
    return (bt_timing){.median_ns = quantile(samples_ns, n, 0.5),
                       .best_ns = samples_ns[0],
                       .worst_ns = samples_ns[n - 1],
                       .low_ns = quantile(samples_ns, n, 0.25),
                       .high_ns = quantile(samples_ns, n, 0.75),
                       .n_rounds = n};
}

bt_status bt_timing_run(const bt_timing_case *cases, int n_cases, int n_warm, int n_rounds,
                        bt_timing *out)
{
    BT_ASSERT(n_cases >= 1 && n_cases <= BT_TIMING_CASES_MAX);
    BT_ASSERT(n_rounds >= 1 && n_rounds <= BT_TIMING_ROUNDS_MAX);
    size_t rounds = (size_t)n_rounds;
    double *samples = bt_mem_calloc(BT_MEM_BASE, rounds * (size_t)n_cases, sizeof *samples);
    if (samples == NULL) {
        return BT_E_NO_MEMORY;
    }
    for (int round = -n_warm; round < n_rounds; round++) {
        for (int i = 0; i < n_cases; i++) {
            int64_t start = bt_clock_now_ns();
            cases[i].run(cases[i].ctx);
            int64_t end = bt_clock_now_ns();
            if (round >= 0) {
                samples[(size_t)i * rounds + (size_t)round] = (double)(end - start);
            }
        }
    }
    for (int i = 0; i < n_cases; i++) {
        out[i] = bt_timing_of(samples + (size_t)i * rounds, n_rounds);
    }
    bt_mem_free(samples);
    return BT_OK;
}

static void push_name(bt_buf *out, const char *name)
{
    bt_buf_push_char(out, '"');
    for (const char *p = name; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\') {
            bt_buf_push_char(out, '\\');
        }
        if (*p >= 0 && *p < ' ') {
            bt_buf_printf(out, "\\u%04x", (unsigned)*p);
        } else {
            bt_buf_push_char(out, *p);
        }
    }
    bt_buf_push_char(out, '"');
}

void bt_timing_json(bt_buf *out, const char *name, const bt_timing *timing)
{
    bt_buf_pushz(out, "{\"name\":");
    push_name(out, name);
    bt_buf_printf(out,
                  ",\"median_ns\":%.0f,\"low_ns\":%.0f,\"high_ns\":%.0f,\"best_ns\":%.0f,"
                  "\"worst_ns\":%.0f,\"rounds\":%d}",
                  timing->median_ns, timing->low_ns, timing->high_ns, timing->best_ns,
                  timing->worst_ns, timing->n_rounds);
}
