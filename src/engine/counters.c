/* SPDX-License-Identifier: MIT
 *
 * Counters and histograms. The engine thread counts in its own copy and publishes it after a step;
 * readers copy what was published last. */
#include "engine/engine.h"

#include <string.h>

static void set_bounds(betoken_histogram *h, const double *bounds, int n)
{
    *h = (betoken_histogram){.n_buckets = n};
    memcpy(h->bound, bounds, (size_t)n * sizeof *bounds);
}

void bt_counters_init(betoken_stats *stats)
{
    /* Seconds and tokens: the bucket bounds that vLLM's dashboards expect. */
    static const double first_token[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5,
                                         0.75,  1,     2.5,  5,    7.5,  10,   20,   40,  80};
    static const double inter_token[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15,
                                         0.2,   0.3,    0.4,   0.5,  0.75,  1,    2.5,   5};
    static const double request[] = {0.1, 0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,  10,
                                     15,  20,  30,  40,  50, 60,  120, 240, 480};
    static const double length[] = {1,   2,    5,    10,   20,    50,    100,   200,
                                    500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
    static const double rows[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
    memset(stats, 0, sizeof *stats);
    set_bounds(&stats->time_to_first_token_s, first_token, (int)BT_COUNT(first_token));
    set_bounds(&stats->inter_token_s, inter_token, (int)BT_COUNT(inter_token));
    betoken_histogram *requests[] = {&stats->e2e_s, &stats->queue_s, &stats->prefill_s,
                                     &stats->decode_s};
    for (size_t i = 0; i < BT_COUNT(requests); i++) {
        set_bounds(requests[i], request, (int)BT_COUNT(request));
    }
    set_bounds(&stats->prompt_length, length, (int)BT_COUNT(length));
    set_bounds(&stats->generation_length, length, (int)BT_COUNT(length));
    set_bounds(&stats->iteration_tokens, rows, (int)BT_COUNT(rows));
}

void bt_counters_add(betoken_histogram *h, double value)
{
    for (int i = h->n_buckets - 1; i >= 0 && value <= h->bound[i]; i--) {
        h->count[i]++;
    }
    h->n++;
    h->sum += value;
}

void bt_counters_publish(betoken_engine *e, bool wait)
{
    e->stats.running = e->n_running;
    e->stats.waiting = e->n_waiting;
    e->stats.kv_usage = 1.0 - (double)e->kv.n_free / (double)e->kv.n_blocks;
    /* A step never waits for a reader: the next one publishes instead. */
    if (wait ? pthread_mutex_lock(&e->stats_lock) == 0
             : pthread_mutex_trylock(&e->stats_lock) == 0) {
        e->stats_shared = e->stats;
        pthread_mutex_unlock(&e->stats_lock);
    }
}

void betoken_engine_stats(betoken_engine *e, betoken_stats *stats)
{
    pthread_mutex_lock(&e->stats_lock);
    *stats = e->stats_shared;
    pthread_mutex_unlock(&e->stats_lock);
}
