/* SPDX-License-Identifier: MIT
 *
 * Goal: splitting is linear and exact on the worst texts, and a hostile pattern is refused instead of
 * hanging. Method: pieces cover the text; CPU time of 1 MB inputs; patterns that backtrack, or that
 * consume the rest of the text at every start. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "token/pretok.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char llama3[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,"
                             "3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
                             "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

enum { MEGABYTE = 1000000 };

static char *filled(const char *unit, size_t *n)
{
    char *text = malloc(MEGABYTE);
    assert_non_null(text);
    *n = 0;
    while (*n + strlen(unit) <= MEGABYTE) {
        memcpy(text + *n, unit, strlen(unit));
        *n += strlen(unit);
    }
    return text;
}

static void worst_texts_are_linear(void **state)
{
    (void)state;
    static const char *const units[] = {"a",  " ", " x",   "\n",       "\xE4\xB8\xAD", "'",
                                        "Aa", "1", "\t a", "\xCC\x81", "\xC2\xA0",     "'S"};
    bt_pretok p = {0};
    bt_pieces out = {0}, scratch = {0};
    assert_int_equal(bt_pretok_add(&p, bt_str_of(llama3), true, NULL), BT_OK);
    for (size_t i = 0; i < BT_COUNT(units); i++) {
        size_t n, at = 0;
        char *text = filled(units[i], &n);
        clock_t begin = clock();
        assert_int_equal(bt_pretok_split(&p, (bt_str){text, n}, bt_pretok_deadline(MEGABYTE / 4),
                                         &out, &scratch, NULL),
                         BT_OK);
        assert_true(clock() - begin < CLOCKS_PER_SEC);
        for (size_t k = 0; k < out.n; k++) {
            assert_int_equal(out.piece[k].begin, at);
            assert_true(out.piece[k].end > at);
            at = out.piece[k].end;
        }
        assert_int_equal(at, n);
        free(text);
    }
    bt_pieces_deinit(&out);
    bt_pieces_deinit(&scratch);
    bt_pretok_deinit(&p);
}

static void hostile_patterns_end(void **state)
{
    (void)state;
    static const char *const patterns[] = {"(a+)+[bc]", "(?:a|b)*[cd]", "[ab]+c", "(?>a+)b",
                                           "(?:(?=a*b)a)+c"};
    for (size_t i = 0; i < BT_COUNT(patterns); i++) {
        bt_pretok p = {0};
        bt_pieces out = {0}, scratch = {0};
        bt_err err = {0};
        size_t n;
        char *text = filled("a", &n);
        assert_int_equal(bt_pretok_add(&p, bt_str_of(patterns[i]), true, &err), BT_OK);
        clock_t begin = clock();
        bt_status status = bt_pretok_split(&p, (bt_str){text, n / 4},
                                           bt_pretok_deadline(MEGABYTE / 4), &out, &scratch, &err);
        assert_true(clock() - begin < 20 * CLOCKS_PER_SEC);
        assert_true(status == BT_OK || status == BT_E_LIMIT);
        if (status == BT_E_LIMIT) {
            assert_non_null(strstr(err.message, patterns[i]));
        }
        free(text);
        bt_pieces_deinit(&out);
        bt_pieces_deinit(&scratch);
        bt_pretok_deinit(&p);
    }
}

static void pieces_are(const char *pattern, bool keep_gaps, const char *text, const char *want)
{
    bt_pretok p = {0};
    bt_pieces out = {0}, scratch = {0};
    bt_buf joined;
    bt_buf_init(&joined, BT_MEM_TOKEN, 1000);
    assert_int_equal(bt_pretok_add(&p, bt_str_of(pattern), keep_gaps, NULL), BT_OK);
    assert_int_equal(bt_pretok_split(&p, bt_str_of(text), bt_pretok_deadline(MEGABYTE / 4), &out,
                                     &scratch, NULL),
                     BT_OK);
    for (size_t k = 0; k < out.n; k++) {
        bt_buf_push(&joined, text + out.piece[k].begin, out.piece[k].end - out.piece[k].begin);
        bt_buf_push_char(&joined, '|');
    }
    assert_true(bt_str_eqz(bt_buf_str(&joined), want));
    bt_buf_deinit(&joined);
    bt_pieces_deinit(&out);
    bt_pieces_deinit(&scratch);
    bt_pretok_deinit(&p);
}

/* Case 43: digits and punctuation as the model was trained on. U+180E is no white space. */
static void pieces_are_right(void **state)
{
    (void)state;
    pieces_are("\\p{N}", true, "ab12c", "ab|1|2|c|");
    pieces_are("\\p{N}", false, "ab12c", "1|2|");
    pieces_are(llama3, true, "3333+777? I'M", "333|3|+|777|?| I|'M|");
    pieces_are(llama3, true, "  \n\n  a", "  \n\n| | a|");
    pieces_are(BT_PRETOK_GPT2, true,
               "a\xE1\xA0\x8E"
               "b",
               "a|\xE1\xA0\x8E|b|");
    pieces_are(BT_PRETOK_GPT2, true, "a  b", "a| | b|");
    pieces_are("x*", true, "axxb", "a|xx|b|");
    pieces_are("[^\\s]", true, "a\xE1\xA0\x8E ", "a|\xE1\xA0\x8E| |");
}

static void what_would_differ_is_refused(void **state)
{
    (void)state;
    static const char *const patterns[] = {"\\w+",   "\\bx",   "\\h",    "\\K",
                                           "(a)\\1", "[a[b]]", "[a&&b]", "a{1,3}+",
                                           "(",      "\\C",    "x\\",    "\\p{Nope}"};
    for (size_t i = 0; i < BT_COUNT(patterns); i++) {
        bt_pretok p = {0};
        bt_err err = {0};
        assert_int_equal(bt_pretok_add(&p, bt_str_of(patterns[i]), true, &err), BT_E_UNSUPPORTED);
        assert_non_null(strstr(err.message, patterns[i]));
        bt_pretok_deinit(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worst_texts_are_linear),
        cmocka_unit_test(hostile_patterns_end),
        cmocka_unit_test(pieces_are_right),
        cmocka_unit_test(what_would_differ_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
