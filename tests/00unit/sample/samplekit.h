/* SPDX-License-Identifier: MIT
 *
 * samplekit.h: what the tests of sample share: random rows, and chi-square. */
#ifndef BT_TESTS_SAMPLE_SAMPLEKIT_H
#define BT_TESTS_SAMPLE_SAMPLEKIT_H

#include "base/rng.h"
#include "sample/sample.h"

#include <math.h>
#include <stdio.h>

static inline double kit_uniform(uint64_t *rng)
{
    return ((double)(bt_rng_next(rng) >> 11) + 0.5) * 0x1p-53;
}

static inline int kit_below(uint64_t *rng, int n)
{
    return (int)(bt_rng_next(rng) % (uint64_t)n);
}

static inline float kit_normal(uint64_t *rng)
{
    double u = kit_uniform(rng), v = kit_uniform(rng);
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}

/* Rows of several kinds: normal, flat, peaked, coarse (many ties), masked in part, huge. */
static inline void kit_row(uint64_t *rng, float *row, int n)
{
    int kind = kit_below(rng, 6);
    for (int i = 0; i < n; i++) {
        float z = kit_normal(rng);
        float values[6] = {3.0f * z,        0.01f * z, z,
                           rintf(2.0f * z), 4.0f * z,  z > 0 ? 60000.0f : -60000.0f};
        row[i] = values[kind];
        if (kind == 4 && kit_below(rng, 3) != 0) {
            row[i] = -INFINITY;
        }
    }
    if (kind == 2) {
        row[kit_below(rng, n)] += 15.0f;
    }
    int first = kit_below(rng, n); /* never all masked */
    row[first] = row[first] > -INFINITY ? row[first] : 0.0f;
}

/* P(chi-square with df degrees >= x), by Wilson and Hilferty's cube root; good to 1e-3 or better
 * in the tail for df >= 3, which is all a threshold of 0.001 needs. */
static inline double kit_chi2_tail(double x, int df)
{
    double k = 2.0 / (9.0 * df);
    double z = (cbrt(x / df) - (1.0 - k)) / sqrt(k);
    return 0.5 * erfc(z / sqrt(2.0));
}

/* p-value of counts [n] against a law [n]; cells that expect fewer than 5 are pooled. A count where
 * the law is 0 gives 0. */
static inline double kit_chi2(const int *count, const double *law, int n, int draws)
{
    double x = 0.0, rest_law = 0.0;
    int rest = 0, df = -1;
    for (int i = 0; i < n; i++) {
        double want = law[i] * draws;
        if (law[i] <= 0.0 && count[i] > 0) {
            return 0.0;
        }
        if (want < 5.0) {
            rest_law += law[i];
            rest += count[i];
            continue;
        }
        x += (count[i] - want) * (count[i] - want) / want;
        df++;
    }
    if (rest_law * draws >= 5.0) {
        x += (rest - rest_law * draws) * (rest - rest_law * draws) / (rest_law * draws);
        df++;
    }
    return df < 1 ? 1.0 : kit_chi2_tail(x, df);
}

static inline bt_sampler *kit_sampler(int n)
{
    bt_sampler *s = NULL;
    bt_status status = bt_sampler_open(n, &s, NULL);
    BT_ASSERT(status == BT_OK);
    return s;
}

static inline int32_t kit_pick(bt_sampler *s, const float *row, int n, const bt_sampling *params,
                               int32_t position)
{
    int32_t token = -1;
    bt_status status = bt_sample_pick(s, row, n, params, position, &token);
    BT_ASSERT(status == BT_OK);
    return token;
}

#endif
