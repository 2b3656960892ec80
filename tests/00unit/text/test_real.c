/* SPDX-License-Identifier: MIT
 *
 * Goal: doubles are written with the fewest digits that read back. Method: known answers from
 * Python's repr, and the round trip of random bit patterns, also under a locale with a decimal
 * comma where the machine has one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "text/real.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void known_answers_of_python(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *want;
    } cases[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1.0, "1.0"},
        {0.1, "0.1"},
        {100.0, "100.0"},
        {123456789.125, "123456789.125"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {1.5e16, "1.5e+16"},
        {9007199254740993.0, "9007199254740992.0"},
        {0.0001, "0.0001"},
        {0.00001, "1e-05"},
        {-3e-07, "-3e-07"},
        {22.0, "22.0"},
        {1.0 / 3, "0.3333333333333333"},
        {2.0 / 3, "0.6666666666666666"},
        {0.1 + 0.2, "0.30000000000000004"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {DBL_MIN, "2.2250738585072014e-308"},
        {5e-324, "5e-324"},
        {1e-310, "1e-310"},
        {NAN, "nan"},
        {-INFINITY, "-inf"},
    };
    for (size_t i = 0; i < BT_COUNT(cases); i++) {
        char text[BT_REAL_TEXT_MAX];
        size_t n = bt_real_format(cases[i].value, text);
        assert_int_equal(n, strlen(text));
        assert_string_equal(text, cases[i].want);
    }
}

static void random_doubles_read_back(void **state)
{
    (void)state;
    uint64_t rng = 5;
    for (int i = 0; i < 100000; i++) {
        uint64_t bits = bt_rng_next(&rng);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) {
            continue;
        }
        char text[BT_REAL_TEXT_MAX];
        bt_real_format(value, text);
        double back = strtod(text, NULL);
        assert_memory_equal(&back, &value, sizeof value);
        assert_true(strpbrk(text, ".e") != NULL);
    }
}

static void locale_does_not_matter(void **state)
{
    (void)state;
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL) {
        print_message("skipped: no locale de_DE.UTF-8 here\n");
        skip();
    }
    char text[BT_REAL_TEXT_MAX];
    bt_real_format(-1234.5, text);
    setlocale(LC_NUMERIC, "C");
    assert_string_equal(text, "-1234.5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers_of_python),
        cmocka_unit_test(random_doubles_read_back),
        cmocka_unit_test(locale_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
