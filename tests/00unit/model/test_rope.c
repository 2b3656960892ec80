/* SPDX-License-Identifier: MIT
 *
 * Goal: rotation tables are the definitions' values rounded once. Method: the formulas in long double,
 * written again from the papers: frequency theta^(-2i/d) (RoFormer, eq. 15), linear scaling by the
 * factor (position interpolation), Llama 3.1's smooth scaling, one divisor a frequency (GGUF). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "model/hparams.h"

#include <math.h>
#include <stdlib.h>

enum { N_POS = 300 };

static const long double pi = 3.14159265358979323846264338327950288L;

typedef long double scaling(long double f, int i, const bt_hparams *hp, const float *factors);

static long double plain(long double f, int i, const bt_hparams *hp, const float *factors)
{
    (void)i, (void)hp, (void)factors;
    return f;
}

static long double linear(long double f, int i, const bt_hparams *hp, const float *factors)
{
    (void)i, (void)factors;
    return f / (long double)hp->rope_factor;
}

static long double divided(long double f, int i, const bt_hparams *hp, const float *factors)
{
    (void)hp;
    return f / (long double)factors[i];
}

/* In turns over the original context: at most low turns are stretched, at least high turns kept. */
static long double llama3(long double f, int i, const bt_hparams *hp, const float *factors)
{
    (void)i, (void)factors;
    long double turns = (long double)hp->rope_n_ctx_orig * f / (2 * pi);
    long double low = (long double)hp->rope_low_freq_factor;
    long double high = (long double)hp->rope_high_freq_factor;
    long double kept = fminl(1, fmaxl(0, (turns - low) / (high - low)));
    return kept * f + (1 - kept) * f / (long double)hp->rope_factor;
}

static void check(const bt_hparams *hp, const float *factors, scaling *scale)
{
    int half = hp->head_dim / 2;
    float *c = calloc((size_t)N_POS * (size_t)half, sizeof *c);
    float *s = calloc((size_t)N_POS * (size_t)half, sizeof *s);
    assert_true(c != NULL && s != NULL);
    bt_rope_tables(hp, factors, N_POS, c, s);
    for (int p = 0; p < N_POS; p++) {
        for (int i = 0; i < half; i++) {
            long double f = powl((long double)hp->rope_theta, -2.0L * i / hp->head_dim);
            long double angle = p * scale(f, i, hp, factors);
            size_t at = (size_t)p * (size_t)half + (size_t)i;
            /* Half a unit of float, and the double angle's own rounding at position p. */
            long double bound = 0x1p-24L + (long double)p * 0x1p-50L;
            if (fabsl(cosl(angle) - (long double)c[at]) > bound ||
                fabsl(sinl(angle) - (long double)s[at]) > bound) {
                fail_msg("position %d, frequency %d: %.9g %.9g", p, i, (double)c[at],
                         (double)s[at]);
            }
        }
    }
    free(c);
    free(s);
}

static void rotation_tables(void **state)
{
    (void)state;
    static const int dims[] = {2, 16, 64, 128};
    static const double thetas[] = {10000.0, 500000.0, 1e6};
    float factors[64];
    for (int i = 0; i < 64; i++) {
        factors[i] = 1.0f + 0.125f * (float)i;
    }
    for (size_t d = 0; d < 4; d++) {
        for (size_t t = 0; t < 3; t++) {
            bt_hparams hp = {.head_dim = dims[d], .rope_theta = thetas[t], .rope_factor = 1};
            check(&hp, NULL, plain);
            hp.rope_scaling = BT_ROPE_LINEAR;
            hp.rope_factor = 4;
            check(&hp, NULL, linear);
            hp.rope_scaling = BT_ROPE_FACTORS;
            check(&hp, factors, divided);
            hp.rope_scaling = BT_ROPE_LLAMA3;
            hp.rope_factor = 8;
            hp.rope_low_freq_factor = 1;
            hp.rope_high_freq_factor = 4;
            hp.rope_n_ctx_orig = 8192;
            check(&hp, NULL, llama3);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rotation_tables)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
