/* SPDX-License-Identifier: MIT
 *
 * report.h: results as JSON and as lines for people. Every report names the machine. */
#ifndef BT_BENCH_REPORT_H
#define BT_BENCH_REPORT_H

#include "bench/enginecase.h"
#include "probe/ceilings.h"
#include "text/json.h"

typedef struct bt_bench_machine {
    char cpu[128];      /* model name, "unknown" where the system does not say */
    const char *kernel; /* class of kernels in use */
    double load;        /* average of the last minute when asked, without this process's share */
    int n_cores;        /* that this process may keep busy */
    int n_threads;      /* in use */
} bt_bench_machine;

bt_bench_machine bt_bench_machine_of(int n_threads);
void bt_bench_machine_json(bt_jsonw *w, const bt_bench_machine *m);
/* One line. */
void bt_bench_machine_text(bt_buf *out, const bt_bench_machine *m);

/* {"median":…,"low":…,"high":…,"min":…,"max":…,"n":…} */
void bt_bench_stat_json(bt_jsonw *w, const bt_bench_stat *s);

/* Two sides of one case; a and b are [n] samples in tokens a second. */
typedef struct bt_bench_pair {
    const char *name; /* "decode" */
    const char *a_name, *b_name;
    const double *a, *b;
    int n;
} bt_bench_pair;

void bt_bench_pair_json(bt_jsonw *w, const bt_bench_pair *pair);
/* A row of the table; header true: its heading. */
void bt_bench_pair_row(bt_buf *out, const bt_bench_pair *pair, bool header);
/* "decode: betoken 123.4 tok/s, llama.cpp 110.2 tok/s, ratio 1.12 (pairs 1.05…1.20)" */
void bt_bench_pair_line(bt_buf *out, const bt_bench_pair *pair);

/* Answers to one kind of prompt. */
typedef struct bt_bench_latency {
    const char *model;
    int n_prompt, n_output;
    uint64_t weight_bytes; /* of the target */
    const bt_bench_answer *answer;
    int n;
    const bt_ceilings *ceilings;
} bt_bench_latency;

/* Weight bytes read a second (the target's, once a step) over the best rate that memory was read at.
 * Above 1 where the last cache holds the weights. */
double bt_bench_bandwidth_share(const bt_bench_latency *l);
void bt_bench_latency_json(bt_jsonw *w, const bt_bench_latency *l);
void bt_bench_latency_text(bt_buf *out, const bt_bench_latency *l);

#endif
