/* SPDX-License-Identifier: MIT
 *
 * gumbel.c: noise in blocks (gumbel.h).
 *
 * Two guards keep the shortcut exact in floating point. All scores are x - log E in double, and
 * rounding is monotone, so an entry may be passed over by a bound on log E that is low by more than
 * the library's error in log and log1p (margins below); and a bound is compared strictly, for an
 * equal score may still win by its id. */
#include "sample/gumbel.h"

#include "base/rng.h"
#include "kernel/rowstat.h"

#include <math.h>

/* Error of log and log1p is below 1e-14 for the arguments that occur (|log E| < 45). */
static const double log_margin = 1e-12;

/* The draw that the 64 ids of a block share. */
typedef struct block_noise {
    double v;  /* 1 - u for the smallest of 64 uniforms; 0 < v < 1 */
    int first; /* which id (mod 64) has the smallest E */
} block_noise;

/* Generator outputs that neighbours share: two blocks and four ids one call each. */
typedef struct noise_cache {
    const bt_noise *noise;
    int32_t pair, quad; /* which are held, -1: none */
    bt_philox pair_words, quad_words;
} noise_cache;

static bt_philox noise_words(const bt_noise *noise, uint32_t index, uint32_t part)
{
    return bt_rng_philox(noise->seed, index, noise->position, noise->choice,
                         (uint32_t)noise->use + part);
}

/* 52 bits and a half: exact in double, never 0 and never 1. */
BT_INLINE double uniform52(uint64_t bits)
{
    return ((double)(bits >> 12) + 0.5) * 0x1p-52;
}

static block_noise draw_block(noise_cache *cache, int32_t block)
{
    if (cache->pair != block / 2) {
        cache->pair = block / 2;
        cache->pair_words = noise_words(cache->noise, (uint32_t)(block / 2), 0);
    }
    const uint32_t *w = cache->pair_words.v + 2 * (block % 2);
    uint64_t bits = (uint64_t)w[1] << 32 | w[0];
    return (block_noise){.v = uniform52(bits), .first = (int)(bits % BT_ROW_BLOCK)};
}

static double draw_rest(noise_cache *cache, int32_t token)
{
    if (cache->quad != token / 4) {
        cache->quad = token / 4;
        cache->quad_words = noise_words(cache->noise, (uint32_t)(token / 4), 1);
    }
    double v = ((double)cache->quad_words.v[token % 4] + 0.5) * 0x1p-32;
    return -log1p(-v);
}

BT_INLINE double smallest_of_block(double v)
{
    return -log1p(-v) / BT_ROW_BLOCK;
}

double bt_gumbel_exponential(const bt_noise *noise, int32_t token)
{
    BT_DEBUG_ASSERT(token >= 0);
    noise_cache cache = {.noise = noise, .pair = -1, .quad = -1};
    block_noise block = draw_block(&cache, token / BT_ROW_BLOCK);
    double smallest = smallest_of_block(block.v);
    return token % BT_ROW_BLOCK == block.first ? smallest : smallest + draw_rest(&cache, token);
}

double bt_gumbel_uniform(const bt_noise *noise, uint32_t index)
{
    bt_philox w = noise_words(noise, index, 0);
    return uniform52((uint64_t)w.v[1] << 32 | w.v[0]);
}

void bt_scored_offer(bt_scored *best, int *n, int n_max, bt_scored entry)
{
    int at = *n;
    while (at > 0 && (best[at - 1].score < entry.score ||
                      (best[at - 1].score == entry.score && best[at - 1].token > entry.token))) {
        at--;
    }
    if (at == n_max) {
        return;
    }
    int last = *n < n_max ? (*n)++ : n_max - 1;
    for (int i = last; i > at; i--) {
        best[i] = best[i - 1];
    }
    best[at] = entry;
}

typedef struct ranking {
    bt_scored *best;
    int n, n_max;
} ranking;

/* A score must reach this to matter; -infinity while the list has room. */
BT_INLINE double ranking_bar(const ranking *r)
{
    return r->n == r->n_max ? r->best[r->n - 1].score : -INFINITY;
}

BT_INLINE int row_of(const bt_contest *c, int entry)
{
    return c->idx != NULL ? c->idx[entry] : entry;
}

BT_INLINE int32_t token_of(const bt_contest *c, int row)
{
    return c->id != NULL ? c->id[row] : row;
}

/* A run of entries whose tokens lie in one block. */
typedef struct run {
    int begin, end;
    int32_t block;
    float max; /* of its logits */
} run;

static run run_at(const bt_contest *c, int begin)
{
    run r = {.begin = begin, .max = -INFINITY};
    if (c->idx == NULL && c->id == NULL) {
        BT_DEBUG_ASSERT(begin % BT_ROW_BLOCK == 0);
        r.block = begin / BT_ROW_BLOCK;
        r.end = BT_MIN(begin + BT_ROW_BLOCK, c->n);
        r.max = c->block_max[r.block];
        return r;
    }
    r.block = token_of(c, row_of(c, begin)) / BT_ROW_BLOCK;
    for (r.end = begin; r.end < c->n; r.end++) {
        int row = row_of(c, r.end);
        if (token_of(c, row) / BT_ROW_BLOCK != r.block) {
            break;
        }
        r.max = c->logits[row] > r.max ? c->logits[row] : r.max;
    }
    return r;
}

/* True when even the block's smallest E cannot bring its largest logit to the bar. From
 * -log1p(-v) >= v: score <= x - log(v / 64), so it loses when v > 64 e^(x - bar). */
static bool run_loses(double v, double x, double bar)
{
    if (bar == -INFINITY) {
        return false;
    }
    double d = x - bar + 1e-9 + 4.5e-16 * (fabs(x) + fabs(bar)); /* rounding of both scores */
    if (d > -4.0) {
        return false; /* 64 e^-4 > 1 > v */
    }
    return d < -45.0 || v > BT_ROW_BLOCK * exp(d); /* 64 e^-45 < 2^-53 <= v */
}

static void open_run(const bt_contest *c, const run *r, noise_cache *cache, ranking *list)
{
    block_noise block = draw_block(cache, r->block);
    double smallest = smallest_of_block(block.v);
    double log_smallest = log(smallest);
    for (int entry = r->begin; entry < r->end; entry++) {
        int row = row_of(c, entry);
        double x = (double)c->logits[row] * c->inv_t;
        /* Catches masked rows too, once the list is full. */
        if (x - (log_smallest - log_margin) < ranking_bar(list) || x == -INFINITY) {
            continue;
        }
        int32_t token = token_of(c, row);
        bool is_first = token % BT_ROW_BLOCK == block.first;
        double log_e = is_first ? log_smallest : log(smallest + draw_rest(cache, token));
        bt_scored_offer(list->best, &list->n, list->n_max, (bt_scored){x - log_e, token});
    }
}

int bt_gumbel_best(const bt_contest *contest, int n_best, bt_scored *best)
{
    BT_ASSERT(n_best >= 1 && n_best <= BT_GUMBEL_BEST_MAX);
    BT_ASSERT(contest->idx != NULL || contest->id != NULL || contest->block_max != NULL);
    noise_cache cache = {.noise = &contest->noise, .pair = -1, .quad = -1};
    ranking list = {.best = best, .n_max = n_best};

    /* The run with the largest logit goes first: it sets a bar that most others miss. */
    run top = {.max = -INFINITY};
    for (int at = 0; at < contest->n;) {
        run r = run_at(contest, at);
        if (r.max > top.max) {
            top = r;
        }
        at = r.end;
    }
    if (top.max == -INFINITY) {
        return 0;
    }
    open_run(contest, &top, &cache, &list);
    for (int at = 0; at < contest->n;) {
        run r = run_at(contest, at);
        at = r.end;
        if (r.begin == top.begin || r.max == -INFINITY) {
            continue;
        }
        double v = draw_block(&cache, r.block).v;
        if (!run_loses(v, (double)r.max * contest->inv_t, ranking_bar(&list))) {
            open_run(contest, &r, &cache, &list);
        }
    }
    return list.n;
}
