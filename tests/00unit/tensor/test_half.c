/* SPDX-License-Identifier: MIT
 *
 * Goal: 16-bit floats convert exactly one way and round to nearest even the other. Method: all 65536
 * values there and back; every border between two neighbours and its surroundings, and seeded random
 * bit patterns, against the compiler's own _Float16 where it has one, and against a search in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "tensor/half.h"

#include <math.h>

#ifdef __FLT16_MAX__
__extension__ typedef _Float16 native16;
#endif

static bool is_nan16(uint16_t h)
{
    return (h & 0x7FFF) > 0x7C00;
}

static void f16_goes_there_and_back(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = bt_f16_to_f32((uint16_t)h);
        uint16_t back = bt_f32_to_f16(f);
        if (is_nan16((uint16_t)h)) {
            assert_true(isnan(f) && is_nan16(back) && (back & 0x8000) == (h & 0x8000));
            continue;
        }
        assert_int_equal(back, h);
        int exponent = (int)(h >> 10 & 31), mantissa = (int)(h & 1023);
        double want = exponent == 31  ? (double)INFINITY
                      : exponent == 0 ? ldexp(mantissa, -24)
                                      : ldexp(1024 + mantissa, exponent - 25);
        assert_true((double)f == (h & 0x8000 ? -want : want));
        assert_int_equal(bt_f32_bits(f) >> 31, h >> 15); /* -0 too */
    }
}

static void bf16_goes_there_and_back(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = bt_bf16_to_f32((uint16_t)h);
        assert_int_equal(bt_f32_bits(f), h << 16);
        uint16_t back = bt_f32_to_bf16(f);
        if (isnan(f)) {
            assert_true(isnan(bt_bf16_to_f32(back)));
        } else {
            assert_int_equal(back, h);
        }
    }
}

/* The neighbours of |f| among the finite non-negative values and the one after them, and which of
 * them is nearer; ties go to the even one. `value` of 2^16 (or 2^128) stands for infinity. */
static uint16_t nearest(float f, double (*value)(uint32_t h), uint32_t inf)
{
    double a = fabs((double)f);
    uint32_t low = 0, high = inf;
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        *(value(mid) <= a ? &low : &high) = mid;
    }
    double below = a - value(low), above = value(high) - a;
    uint32_t h = below < above || (!(above < below) && low % 2 == 0) ? low : high;
    return (uint16_t)(h | (bt_f32_bits(f) >> 31 << 15));
}

static double value_f16(uint32_t h)
{
    return h == 0x7C00 ? 65536.0 : (double)bt_f16_to_f32((uint16_t)h);
}

static double value_bf16(uint32_t h)
{
    return h == 0x7F80 ? 0x1p128 : (double)bt_bf16_to_f32((uint16_t)h);
}

static void check_rounding(uint32_t bits)
{
    float f = bt_f32_from_bits(bits);
    if (isnan(f)) {
        assert_true(is_nan16(bt_f32_to_f16(f)) && isnan(bt_bf16_to_f32(bt_f32_to_bf16(f))));
        return;
    }
    uint16_t h = bt_f32_to_f16(f), b = bt_f32_to_bf16(f);
#ifdef __FLT16_MAX__
    native16 native = (native16)f;
    uint16_t want;
    memcpy(&want, &native, sizeof want);
    assert_int_equal(h, want);
#endif
    if (isinf(f)) {
        assert_true((h & 0x7FFF) == 0x7C00 && (b & 0x7FFF) == 0x7F80);
        return;
    }
    assert_int_equal(h, nearest(f, value_f16, 0x7C00));
    assert_int_equal(b, nearest(f, value_bf16, 0x7F80));
}

static void rounding_is_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7C00; h++) { /* the middle between two neighbours, and beside it */
        double middle = (value_f16(h) + value_f16(h + 1)) / 2;
        uint32_t bits = bt_f32_bits((float)middle);
        for (uint32_t d = 0; d < 3; d++) {
            check_rounding(bits + d - 1);
            check_rounding((bits + d - 1) | 0x80000000u);
        }
    }
    uint64_t seed = 16;
    for (int i = 0; i < 200000; i++) {
        check_rounding((uint32_t)bt_rng_next(&seed));
    }
    static const uint32_t edges[] = {0,          0x80000000, 1,          0x7F7FFFFF, 0x7F800000,
                                     0xFF800000, 0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF,
                                     0x477FEFFF, 0x477FF000, 0x477FFFFF, 0x33000000, 0x33000001};
    for (size_t i = 0; i < BT_COUNT(edges); i++) {
        check_rounding(edges[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_goes_there_and_back),
        cmocka_unit_test(bf16_goes_there_and_back),
        cmocka_unit_test(rounding_is_to_nearest_even),
    };
    return cmocka_run_group_tests_name("tensor/half", tests, NULL, NULL);
}
