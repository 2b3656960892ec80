/* SPDX-License-Identifier: MIT
 *
 * Goal: row statistics are right and the same bits on every instruction set. Method: comparison with
 * plain loops and libm; every level that this machine has against the reference, odd lengths, guard
 * values behind the output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernel/rowstat.h"
#include "samplekit.h"

/* Relative error of the exponential under 3e-7 from -87 to 0, monotone enough to end at 1 exactly. */
static void exponential_is_accurate(void **state)
{
    (void)state;
    assert_true(bt_row_exp(0.0f) == 1.0f);
    assert_true(bt_row_exp(-INFINITY) == 0.0f);
    assert_true(bt_row_exp(-100.0f) == 0.0f);
    for (int i = 0; i <= 870000; i++) {
        float x = -1e-4f * (float)i;
        double want = exp((double)x);
        double got = (double)bt_row_exp(x);
        if (x >= -87.0f) {
            assert_true(fabs(got / want - 1.0) < 3e-7);
            assert_true(got <= 1.0);
        }
    }
}

/* NaN of both signs, +infinity, and nothing unmasked are refused wherever they stand; maxima agree
 * with a plain loop. */
static void scan_finds_broken_rows(void **state)
{
    (void)state;
    float row[200], block_max[4], max;
    uint64_t rng = 5;
    for (int n = 1; n <= 200; n += n < 70 ? 1 : 13) {
        for (int i = 0; i < n; i++) {
            row[i] = kit_normal(&rng) - 2.0f;
        }
        assert_true(bt_row_scan_ref(row, n, block_max, &max));
        float want = -INFINITY;
        for (int i = 0; i < n; i++) {
            want = row[i] > want ? row[i] : want;
        }
        assert_true(max == want);
        int at = kit_below(&rng, n);
        float held = row[at];
        const float broken[] = {NAN, -NAN, INFINITY};
        for (int k = 0; k < 3; k++) {
            row[at] = broken[k];
            assert_false(bt_row_scan_ref(row, n, block_max, &max));
        }
        row[at] = -INFINITY;
        assert_int_equal(bt_row_scan_ref(row, n, block_max, &max), n > 1);
        row[at] = held;
    }
    for (int i = 0; i < 200; i++) {
        row[i] = -INFINITY;
    }
    assert_false(bt_row_scan_ref(row, 200, block_max, &max));
}

/* Scan and exponential of each level equal the reference bit for bit, broken rows too; the sum of
 * masses equals a plain sum; nothing is written behind the output. */
static void levels_agree(void **state)
{
    (void)state;
    enum { V = 1100, GUARD = 64 };
    static float row[V], a[V + GUARD], b[V + GUARD];
    float max_a[V / BT_ROW_BLOCK + 2], max_b[V / BT_ROW_BLOCK + 2], ma, mb;
    uint64_t rng = 77;
    bt_cpu_init(NULL);
    for (int isa = BT_ISA_REF; isa < BT_ISA_COUNT; isa++) {
        if (!bt_cpu_has((bt_isa)isa)) {
            continue;
        }
        const bt_row_kernels *k = bt_row_kernels_for((bt_isa)isa);
        for (int round = 0; round < 600; round++) {
            int n = round < 140 ? round + 1 : 1 + kit_below(&rng, V);
            kit_row(&rng, row, n);
            const float broken[] = {NAN, -NAN, INFINITY, -INFINITY, -0.0f, 0.0f};
            if (round % 3 == 0) {
                row[kit_below(&rng, n)] = broken[kit_below(&rng, 6)];
            }
            bool ok = bt_row_scan_ref(row, n, max_a, &ma);
            assert_int_equal(k->scan(row, n, max_b, &mb), ok);
            if (!ok) {
                continue;
            }
            assert_memory_equal(&ma, &mb, sizeof ma);
            assert_memory_equal(max_a, max_b, (size_t)bt_row_blocks(n) * sizeof *max_a);
            memset(a, 0x11, sizeof a);
            memset(b, 0x11, sizeof b);
            float scale = (float)exp(log(0.5) + kit_uniform(&rng) * log(2e5));
            double want = bt_row_exp_ref(row, n, ma, scale, a), plain = 0;
            double got = k->exp(row, n, ma, scale, b);
            assert_memory_equal(a, b, sizeof a);
            for (int i = n - 1; i >= 0; i--) {
                plain += bt_row_grain(a[i]);
            }
            assert_true(got == want && plain == want && want >= 1.0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponential_is_accurate),
        cmocka_unit_test(scan_finds_broken_rows),
        cmocka_unit_test(levels_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
