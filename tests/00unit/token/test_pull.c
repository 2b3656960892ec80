/* SPDX-License-Identifier: MIT
 *
 * Goal: the pull reader takes what JSON is and nothing else. Method: jansson as the oracle on a table
 * and on mutations of a document; known answers where jansson itself gives up (NUL in a key). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "text/json.h"
#include "text/utf8.h"
#include "token/pull.h"

#include <string.h>

static bool takes(bt_str text)
{
    bt_buf plain;
    bt_pull p;
    bt_err err;
    bt_buf_init(&plain, BT_MEM_TOKEN, 1 << 20);
    bt_pull_init(&p, text, &plain, &err);
    bool good = bt_utf8_valid(text) == text.n && bt_pull_skip(&p, NULL) == BT_OK &&
                bt_pull_end(&p) == BT_OK;
    bt_buf_deinit(&plain);
    return good;
}

static bool oracle_takes(bt_str text)
{
    bt_json *tree = NULL;
    bool good = bt_json_parse_config(text, &tree, NULL) == BT_OK;
    bt_json_close(tree);
    return good;
}

static void agrees_on_a_table(void **state)
{
    (void)state;
    static const char *const texts[] = {"{}",          "[]",          "[1]",
                                        "[1,]",        "[,1]",        "{\"a\":1}",
                                        "{\"a\" 1}",   "{\"a\":}",    "{a:1}",
                                        "01",          "-0",          "1.",
                                        ".5",          "+1",          "1e5",
                                        "1e",          "1.5e-3",      "-",
                                        "tru",         "true",        "nul",
                                        "null ",       " \n[ ]\t",    "\"a",
                                        "\"\\x\"",     "\"\\ud800\"", "\"\\ud83d\\ude00\"",
                                        "\"\\ude00\"", "\"\\u12g4\"", "\"\n\"",
                                        "\"\\u0000\"", "[[[]]]",      "[1 2]",
                                        "{\"a\":1,}",  "[}",          "",
                                        " ",           "[]x",         "\xEF\xBB\xBF[]",
                                        "NaN",         "'a'",         "[1]//",
                                        "\"\xC3\"",    "\\"};
    for (size_t i = 0; i < BT_COUNT(texts); i++) {
        bt_str text = bt_str_of(texts[i]);
        if (takes(text) != oracle_takes(text)) {
            fail_msg("\"%s\": %d, jansson %d", texts[i], takes(text), oracle_takes(text));
        }
    }
}

static void agrees_on_mutations(void **state)
{
    (void)state;
    static const char document[] =
        "{\"vocab\":{\"a\\u00e9\":0,\"\\\"b\":1},\"m\":[[\"a\",\"b\"],\"c d\"],"
        "\"n\":-1.5e+2,\"t\":[true,false,null,{}]}";
    static const char letters[] = "{}[]\",:\\u0e+-.1 antrf\n";
    uint64_t seed = 3;
    for (int round = 0; round < 40000; round++) {
        char text[sizeof document];
        memcpy(text, document, sizeof document);
        for (uint64_t k = 1 + bt_rng_next(&seed) % 3; k > 0; k--) {
            uint64_t r = bt_rng_next(&seed);
            text[r % (sizeof document - 1)] = letters[(r >> 32) % (sizeof letters - 1)];
        }
        bt_str s = {text, sizeof document - 1 - (size_t)(bt_rng_next(&seed) % 8 == 0)};
        /* Duplicate keys are the caller's affair. */
        if (takes(s) != oracle_takes(s) && !takes(s)) {
            fail_msg("%.*s: refused, but jansson takes it", (int)s.n, s.p);
        }
        if (takes(s) && !oracle_takes(s)) {
            bt_err err = {0};
            bt_json *tree = NULL;
            assert_int_not_equal(bt_json_parse_config(s, &tree, &err), BT_OK);
            if (strstr(err.message, "uplicate") == NULL && strstr(err.message, "NUL") == NULL &&
                strstr(err.message, "\\u0000") == NULL && strstr(err.message, "overflow") == NULL) {
                fail_msg("%.*s: taken, but jansson says %s", (int)s.n, s.p, err.message);
            }
        }
    }
}

static void strings_are_unescaped(void **state)
{
    (void)state;
    bt_buf plain;
    bt_pull p;
    bt_str s;
    bool first = true, more;
    int64_t id;
    bt_str text = BT_STR("{\"\\u0000\\n\\ud83d\\ude00\\/x\":12,\"plain\":-3,\"\":1.5}");
    bt_buf_init(&plain, BT_MEM_TOKEN, 1000);
    bt_pull_init(&p, text, &plain, NULL);
    assert_int_equal(bt_pull_open(&p, '{'), BT_OK);
    assert_int_equal(bt_pull_next(&p, '}', &first, &more), BT_OK);
    assert_int_equal(bt_pull_key(&p, &s), BT_OK);
    assert_true(bt_str_eq(s, BT_STR("\0\n\xF0\x9F\x98\x80/x")));
    assert_int_equal(bt_pull_int(&p, &id), BT_OK);
    assert_int_equal(id, 12);
    assert_int_equal(bt_pull_next(&p, '}', &first, &more), BT_OK);
    assert_int_equal(bt_pull_key(&p, &s), BT_OK);
    assert_true(bt_str_eqz(s, "plain"));
    assert_int_equal(bt_pull_int(&p, &id), BT_OK);
    assert_int_equal(id, -3);
    assert_int_equal(bt_pull_next(&p, '}', &first, &more), BT_OK);
    assert_int_equal(bt_pull_key(&p, &s), BT_OK);
    assert_int_equal(s.n, 0);
    assert_int_equal(bt_pull_int(&p, &id), BT_E_FORMAT);
    bt_buf_deinit(&plain);
}

static void depth_is_bounded(void **state)
{
    (void)state;
    char text[200];
    memset(text, '[', 100);
    memset(text + 100, ']', 100);
    assert_true(takes((bt_str){text + 100 - 64, 128}));
    assert_false(takes((bt_str){text + 100 - 65, 130}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_on_a_table),
        cmocka_unit_test(agrees_on_mutations),
        cmocka_unit_test(strings_are_unescaped),
        cmocka_unit_test(depth_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
