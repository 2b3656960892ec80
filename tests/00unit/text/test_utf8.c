/* SPDX-License-Identifier: MIT
 *
 * Goal: UTF-8 is decoded exactly as RFC 3629 says, and broken input is replaced as Unicode 3.9 asks.
 * Method: every code point there and back; the invalid forms by class; the examples of Unicode table
 * 3-8 (whose results Python's decoder shares); cuts of a valid text at every byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "text/utf8.h"

#include <string.h>

static void every_code_point_comes_back(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c == 0xD800) {
            c = 0xE000;
        }
        char bytes[4];
        int n = bt_utf8_encode(c, bytes);
        uint32_t back = ~c;
        if (bt_utf8_decode(bytes, (size_t)n, &back) != n || back != c ||
            bt_utf8_valid((bt_str){bytes, (size_t)n}) != (size_t)n) {
            fail_msg("U+%04X does not come back", c);
        }
        for (size_t k = 1; k < (size_t)n; k++) {
            assert_int_equal(bt_utf8_decode(bytes, k, &back), 0);
            assert_int_equal(bt_utf8_incomplete_tail(bytes, k), k);
        }
        assert_int_equal(bt_utf8_incomplete_tail(bytes, (size_t)n), 0);
    }
}

/* Each row: bytes, and what Python's bytes.decode("utf-8", "replace") makes of them. */
static void broken_bytes_are_replaced(void **state)
{
    (void)state;
#define R "\xEF\xBF\xBD"
    static const struct {
        const char *in, *want;
    } cases[] = {
        {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", R R R R R R R R "A"},
        {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", R R R R R R R R "A"},
        {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", R R R R R "A" R R "B"},
        {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", R R R R "A"},
        {"ok\xE4\xB8", "ok" R},
        {"\x80", R},
        {"\xF5\x80\x80\x80", R R R R},
        {"\xC3\xA9t\xC3\xA9", "\xC3\xA9t\xC3\xA9"},
    };
    for (size_t i = 0; i < BT_COUNT(cases); i++) {
        bt_buf buf;
        bt_buf_init(&buf, BT_MEM_TEXT, 1000);
        bt_utf8_push_lossy(&buf, bt_str_of(cases[i].in));
        assert_int_equal(bt_buf_ok(&buf), BT_OK);
        assert_string_equal(buf.p, cases[i].want);
        bt_buf_deinit(&buf);
    }
#undef R
}

/* Random bytes: what the lossy copy gives is valid, and equals its input when that was valid. */
static void lossy_text_is_always_valid(void **state)
{
    (void)state;
    uint64_t rng = 71;
    bt_buf buf;
    bt_buf_init(&buf, BT_MEM_TEXT, 4096);
    for (int round = 0; round < 20000; round++) {
        static const unsigned char interesting[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F,
                                                    0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0,
                                                    0xE1, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF};
        char bytes[24];
        size_t n = bt_rng_next(&rng) % (sizeof bytes + 1);
        for (size_t i = 0; i < n; i++) {
            bytes[i] = (char)interesting[bt_rng_next(&rng) % sizeof interesting];
        }
        bt_str text = {bytes, n};
        bt_buf_clear(&buf);
        bt_utf8_push_lossy(&buf, text);
        assert_int_equal(bt_utf8_valid(bt_buf_str(&buf)), buf.n);
        if (bt_utf8_valid(text) == n) {
            assert_true(bt_str_eq(bt_buf_str(&buf), text));
        }
    }
    bt_buf_deinit(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_comes_back),
        cmocka_unit_test(broken_bytes_are_replaced),
        cmocka_unit_test(lossy_text_is_always_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
