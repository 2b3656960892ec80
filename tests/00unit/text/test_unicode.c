/* SPDX-License-Identifier: MIT
 *
 * Goal: NFC as the reference has it, also where utf8proc itself goes wrong or slow. Method: known
 * answers (from Python's unicodedata), utf8proc as the oracle on random short texts without U+11A7,
 * and a bound on the CPU time of long runs of marks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "text/unicode.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utf8proc.h>

static void check(const char *text, const char *want)
{
    bt_buf out;
    bt_buf_init(&out, BT_MEM_TEXT, 1 << 20);
    assert_int_equal(bt_unicode_nfc(bt_str_of(text), &out), BT_OK);
    assert_true(bt_str_eqz(bt_buf_str(&out), want));
    bt_buf_deinit(&out);
}

/* case 44 */
static void known_answers(void **state)
{
    (void)state;
    check("", "");
    check("plain", "plain");
    check("e\xCC\x81", "\xC3\xA9");
    check("\xC2\xBD", "\xC2\xBD");         /* ½ stays: no compatibility form */
    check("\xCD\x84", "\xCC\x88\xCC\x81"); /* U+0344 never composes again */
    check("\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xEA\xB0\x81"); /* Hangul jamo */
    check("a\xCC\x81\xCC\xA3", "\xE1\xBA\xA1\xCC\x81");            /* marks are put in order */
    check("\xEF\xA4\x80", "\xE8\xB1\x88"); /* a CJK compatibility ideograph */
    check("\xEA\xB0\x80\xE1\x86\xA7", "\xEA\xB0\x80\xE1\x86\xA7"); /* U+11A7 is kept */
}

static uint32_t random_char(uint64_t *seed)
{
    static const uint32_t pool[] = {'a',    'e',   0xC4,   0x300,  0x301,  0x323,  0x327,
                                    0x344,  0x345, 0x1100, 0x1161, 0x11A8, 0xAC00, 0xAC01,
                                    0x1E0B, 0x3B1, 0x3099, 0x304B, 0x93C,  0x915,  0x1D15E,
                                    0x5D0,  0x5B0, 0x5B4,  0xF900, 0x2126};
    uint64_t r = bt_rng_next(seed);
    return r % 4 == 0 ? 0x300 + (uint32_t)(r >> 8) % 0x45 : pool[(r >> 8) % BT_COUNT(pool)];
}

static void agrees_with_utf8proc(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int round = 0; round < 20000; round++) {
        char text[128];
        size_t n = 0;
        for (uint64_t left = bt_rng_next(&seed) % 24; left > 0; left--) {
            n += (size_t)bt_utf8_encode(random_char(&seed), text + n);
        }
        text[n] = '\0';
        utf8proc_uint8_t *want = utf8proc_NFC((utf8proc_uint8_t *)text);
        assert_non_null(want);
        check(text, (const char *)want);
        free(want);
    }
}

static void long_runs_of_marks_are_linear(void **state)
{
    (void)state;
    enum { N = 250000 };
    char *text = malloc(4 * N + 1);
    bt_buf out;
    bt_buf_init(&out, BT_MEM_TEXT, 1 << 24);
    for (int i = 0; i < N; i++) {
        memcpy(text + 4 * i, "\xCC\x81\xCC\xA3", 4); /* classes 230, 220: all in the wrong order */
    }
    clock_t begin = clock();
    assert_int_equal(bt_unicode_nfc((bt_str){text, 4 * N}, &out), BT_OK);
    assert_true(clock() - begin < 2 * CLOCKS_PER_SEC);
    assert_int_equal(out.n, 4 * N);
    assert_memory_equal(out.p, "\xCC\xA3\xCC\xA3", 4);
    assert_memory_equal(out.p + out.n - 4, "\xCC\x81\xCC\x81", 4);
    bt_buf_deinit(&out);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(agrees_with_utf8proc),
        cmocka_unit_test(long_runs_of_marks_are_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
