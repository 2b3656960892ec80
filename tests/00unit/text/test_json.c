/* SPDX-License-Identifier: MIT
 *
 * Goal: JSON is read strictly, with errors that name the place, and written so that it reads back
 * the same. Method: lists of valid and invalid documents by class (cases 61, 62, 71); random trees
 * written by the writer, parsed, dumped and compared; each allocation made to fail in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "text/json.h"
#include "text/utf8.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bt_str whole(const char *text, size_t size)
{
    return (bt_str){text, size - 1};
}
#define DOC(literal) whole(literal, sizeof(literal))

/* Case 61: whatever a client sends is refused with a position, never a crash. */
static void case_61_malformed_documents_are_refused(void **state)
{
    (void)state;
    const bt_str cases[] = {
        DOC("{:"),
        DOC(""),
        DOC("{\"a\":1}x"),
        DOC("\xEF\xBB\xBF{}"),
        DOC("\"\xFF\""),
        DOC("NaN"),
        DOC("Infinity"),
        DOC("-Infinity"),
        DOC("1e999"),
        DOC("-1e400"),
        DOC("{\"a\":1,\"a\":2}"),
        DOC("01"),
        DOC("1."),
        DOC(".5"),
        DOC("+1"),
        DOC("[1,]"),
        DOC("{\"a\":1,}"),
        DOC("/*x*/1"),
        DOC("// x\n1"),
        DOC("[1 2]"),
        DOC("{\"a\" 1}"),
        DOC("{a:1}"),
        DOC("{'a':1}"),
        DOC("tru"),
        DOC("True"),
        DOC("\"a"),
        DOC("\"\\"),
        DOC("\"\\x41\""),
        DOC("\"\\u12\""),
        DOC("\"\t\""),
        DOC("\"\n\""),
        DOC("["),
        DOC("]"),
        DOC("{"),
        DOC("}"),
        DOC("[}"),
        DOC(","),
        DOC(":"),
        DOC(" "),
        DOC("\0"),
        DOC("1\0"),
        DOC("\"\xC0\xAF\""),
        DOC("\"\xED\xA0\x80\""),
        DOC("9223372036854775808"),
        DOC("-9223372036854775809"),
        DOC("99999999999999999999999"),
        DOC("{\"a\\u0000b\":1}"),
        DOC("[1e]"),
        DOC("-"),
        DOC("[-]"),
        DOC("{\"a\":}"),
        DOC("{1:2}"),
    };
    for (size_t i = 0; i < BT_COUNT(cases); i++) {
        bt_json *root = NULL;
        bt_err err;
        bt_status status = bt_json_parse(cases[i], &root, &err);
        if (status != BT_E_FORMAT || root != NULL) {
            fail_msg("case %zu is not refused: %.*s", i, (int)cases[i].n, cases[i].p);
        }
        assert_int_equal(err.code, BT_E_FORMAT);
        assert_in_range(err.position, 0, cases[i].n);
        assert_int_equal(bt_utf8_valid(bt_str_of(err.message)), strlen(err.message));
    }
}

static void errors_name_line_and_column(void **state)
{
    (void)state;
    bt_json *root;
    bt_err err;
    assert_int_equal(bt_json_parse(BT_STR("{\n  \"a\": 1,\n  \"b\": x\n}"), &root, &err),
                     BT_E_FORMAT);
    assert_non_null(strstr(err.message, "line 3"));
    assert_non_null(strstr(err.message, "'x'"));
}

static void scalars_and_kinds(void **state)
{
    (void)state;
    bt_json *root;
    const char *text = "{\"n\":null,\"t\":true,\"f\":false,\"i\":-9223372036854775808,\"r\":1.5,"
                       "\"s\":\"x\",\"a\":[1,2],\"o\":{},\"z\":-0,\"tiny\":1e-400,"
                       "\"max\":9223372036854775807}";
    assert_int_equal(bt_json_parse(bt_str_of(text), &root, NULL), BT_OK);
    assert_int_equal(bt_json_kind_of(root), BT_JSON_OBJECT);
    assert_int_equal(bt_json_count(root), 11);
    assert_int_equal(bt_json_kind_of(bt_json_get(root, "n")), BT_JSON_NULL);
    assert_true(bt_json_bool(bt_json_get(root, "t")));
    assert_false(bt_json_bool(bt_json_get(root, "f")));
    assert_true(bt_json_int(bt_json_get(root, "i")) == INT64_MIN);
    assert_true(bt_json_int(bt_json_get(root, "max")) == INT64_MAX);
    assert_true(bt_json_real(bt_json_get(root, "r")) == 1.5);
    assert_true(bt_json_real(bt_json_get(root, "tiny")) == 0.0);
    assert_int_equal(bt_json_int(bt_json_get(root, "z")), 0);
    assert_true(bt_str_eqz(bt_json_str(bt_json_get(root, "s")), "x"));
    assert_int_equal(bt_json_int(bt_json_at(bt_json_get(root, "a"), 1)), 2);
    assert_null(bt_json_get(root, "absent"));
    static const char order[] = "ntfirsaoz";
    void *iter = NULL;
    bt_str key;
    const bt_json *member;
    for (size_t i = 0; i < sizeof order - 1; i++) {
        assert_true(bt_json_next(root, &iter, &key, &member));
        assert_true(key.n == 1 && key.p[0] == order[i]);
    }
    bt_json_close(root);
    bt_json_close(NULL);
    for (int kind = BT_JSON_NULL; kind <= BT_JSON_OBJECT; kind++) {
        assert_true(strlen(bt_json_kind_text((bt_json_kind)kind)) > 0);
    }
}

/* Case 71: NUL is an ordinary character, pairs are joined, lone surrogates are refused. */
static void case_71_strings_keep_every_character(void **state)
{
    (void)state;
    bt_json *root;
    assert_int_equal(bt_json_parse(BT_STR("\"a\\u0000b\""), &root, NULL), BT_OK);
    bt_str s = bt_json_str(root);
    assert_true(s.n == 3 && memcmp(s.p, "a\0b", 3) == 0);
    bt_buf buf;
    bt_buf_init(&buf, BT_MEM_TEXT, 100);
    bt_json_dump(root, &buf);
    assert_string_equal(buf.p, "\"a\\u0000b\"");
    bt_json_close(root);

    assert_int_equal(bt_json_parse(BT_STR("\"\\ud83d\\ude00\""), &root, NULL), BT_OK);
    assert_true(bt_str_eqz(bt_json_str(root), "\xF0\x9F\x98\x80"));
    bt_json_close(root);

    static const char *const lone[] = {"\"\\ud83d\"", "\"\\ude00\\ud83d\"", "\"\\ude00\"",
                                       "\"\\ud83dx\"", "\"\\ud83d\\ud83d\""};
    for (size_t i = 0; i < BT_COUNT(lone); i++) {
        assert_int_equal(bt_json_parse(bt_str_of(lone[i]), &root, NULL), BT_E_FORMAT);
    }
    bt_buf_deinit(&buf);
}

typedef struct nested {
    bt_str text;
    bt_status status;
} nested;

static void *parse_nested(void *arg)
{
    nested *job = arg;
    bt_json *root = NULL;
    job->status = bt_json_parse(job->text, &root, NULL);
    bt_buf buf;
    bt_buf_init(&buf, BT_MEM_TEXT, 1 << 20);
    if (job->status == BT_OK) {
        bt_json_dump(root, &buf);
        if (!bt_str_eq(bt_buf_str(&buf), job->text)) {
            job->status = BT_E_INTERNAL;
        }
    }
    bt_buf_deinit(&buf);
    bt_json_close(root);
    return NULL;
}

/* Case 62: deep nesting is refused before the recursive parser sees it; what is allowed is read and
 * written on a thread with a stack of 256 KiB. */
static void case_62_depth_is_limited(void **state)
{
    (void)state;
    static const struct {
        size_t depth;
        bt_status want;
    } cases[] = {
        {63, BT_OK}, {64, BT_OK}, {65, BT_E_FORMAT}, {10000, BT_E_FORMAT}, {1000000, BT_E_FORMAT}};
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 * 1024);
    for (size_t i = 0; i < BT_COUNT(cases); i++) {
        size_t depth = cases[i].depth;
        char *text = malloc(depth * 2);
        assert_non_null(text);
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        nested job = {.text = {text, depth * 2}};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, &attr, parse_nested, &job), 0);
        pthread_join(thread, NULL);
        assert_int_equal(job.status, cases[i].want);
        free(text);
    }
    pthread_attr_destroy(&attr);
    /* Brackets inside strings do not count, whatever is escaped around them. */
    char text[400];
    int n = snprintf(text, sizeof text, "[\"\\\\\\\"");
    memset(text + n, '[', 200);
    snprintf(text + n + 200, sizeof text - 200 - (size_t)n, "\\\\\"]");
    bt_json *root;
    assert_int_equal(bt_json_parse(bt_str_of(text), &root, NULL), BT_OK);
    bt_json_close(root);
}

/* Writes a random value; at depth 0 only scalars. */
static void write_random(bt_jsonw *w, uint64_t *rng, int depth)
{
    char text[24];
    switch (bt_rng_next(rng) % (depth > 0 ? 8 : 6)) {
    case 0:
        bt_jsonw_null(w);
        return;
    case 1:
        bt_jsonw_bool(w, bt_rng_next(rng) % 2 == 0);
        return;
    case 2:
        bt_jsonw_int(w, (int64_t)(bt_rng_next(rng) >> bt_rng_next(rng) % 64));
        return;
    case 3:
    case 4: {
        uint64_t bits = bt_rng_next(rng);
        double value;
        memcpy(&value, &bits, sizeof value);
        bt_jsonw_real(w, isfinite(value) ? value : 0.5);
        return;
    }
    case 5: {
        size_t n = bt_rng_next(rng) % sizeof text;
        for (size_t i = 0; i < n; i++) {
            text[i] = (char)(bt_rng_next(rng) % 160);
        }
        bt_jsonw_str(w, (bt_str){text, n});
        return;
    }
    default:
        break;
    }
    bool object = bt_rng_next(rng) % 2 == 0;
    int n = (int)(bt_rng_next(rng) % 5);
    bt_jsonw_open(w, object ? '{' : '[');
    for (int i = 0; i < n; i++) {
        if (object) {
            snprintf(text, sizeof text, "k%d\"\n\xC3\xA9", i);
            bt_jsonw_key(w, text);
        }
        write_random(w, rng, depth - 1);
    }
    bt_jsonw_close(w, object ? '}' : ']');
}

/* parse(dump(x)) == x: the writer's text, its parse dumped, and the dump's parse dumped are equal. */
static void random_trees_read_back(void **state)
{
    (void)state;
    uint64_t rng = 2024;
    bt_buf a;
    bt_buf b;
    bt_buf_init(&a, BT_MEM_TEXT, 1 << 20);
    bt_buf_init(&b, BT_MEM_TEXT, 1 << 20);
    for (int round = 0; round < 3000; round++) {
        bt_buf_clear(&a);
        bt_jsonw w;
        bt_jsonw_init(&w, &a);
        write_random(&w, &rng, 5);
        assert_int_equal(w.depth, 0);
        bt_json *root;
        bt_err err;
        if (bt_json_parse(bt_buf_str(&a), &root, &err) != BT_OK) {
            fail_msg("round %d: %s in %s", round, err.message, a.p);
        }
        bt_buf_clear(&b);
        bt_json_dump(root, &b);
        bt_json_close(root);
        assert_string_equal(b.p, a.p);
    }
    bt_buf_deinit(&a);
    bt_buf_deinit(&b);
}

static void writer_output_is_exact(void **state)
{
    (void)state;
    bt_buf buf;
    bt_buf_init(&buf, BT_MEM_TEXT, 1000);
    bt_jsonw w;
    bt_jsonw_init(&w, &buf);
    bt_jsonw_open(&w, '{');
    bt_jsonw_key(&w, "a");
    bt_jsonw_open(&w, '[');
    bt_jsonw_int(&w, 1);
    bt_jsonw_real(&w, 0.1);
    bt_jsonw_real(&w, 3.0);
    bt_jsonw_real(&w, NAN);
    bt_jsonw_raw(&w, BT_STR("{}"));
    bt_jsonw_null(&w);
    bt_jsonw_close(&w, ']');
    bt_jsonw_key(&w, "b\n");
    bt_jsonw_str(&w, BT_STR("\"\\/\b\f\n\r\t\x01\x7F\xFF\xC3\xA9"));
    bt_jsonw_key(&w, "c");
    bt_jsonw_bool(&w, true);
    bt_jsonw_close(&w, '}');
    assert_string_equal(buf.p, "{\"a\":[1,0.1,3.0,null,{},null],\"b\\n\":\"\\\"\\\\/\\b\\f\\n\\r"
                               "\\t\\u0001\x7F\xEF\xBF\xBD\xC3\xA9\",\"c\":true}");
    bt_buf_deinit(&buf);
}

/* Each allocation fails in turn: the parse says so, gives everything back, and works afterwards. */
static void memory_failures_are_reported(void **state)
{
    (void)state;
    const bt_str text = BT_STR("{\"a\":[1,2.5,\"long enough to need a block of its own\"],"
                               "\"b\":{\"c\":null,\"d\":\"x\"}}");
    size_t before = bt_mem_used(BT_MEM_TEXT);
    for (uint64_t n = 1;; n++) {
        bt_json *root = NULL;
        bt_mem_fail_after(n);
        bt_status status = bt_json_parse(text, &root, NULL);
        bt_mem_fail_after(0);
        bt_json_close(root);
        assert_int_equal(bt_mem_used(BT_MEM_TEXT), before);
        if (status == BT_OK) {
            assert_true(n > 5);
            break;
        }
        assert_int_equal(status, BT_E_NO_MEMORY);
        assert_true(n < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_61_malformed_documents_are_refused),
        cmocka_unit_test(errors_name_line_and_column),
        cmocka_unit_test(scalars_and_kinds),
        cmocka_unit_test(case_71_strings_keep_every_character),
        cmocka_unit_test(case_62_depth_is_limited),
        cmocka_unit_test(random_trees_read_back),
        cmocka_unit_test(writer_output_is_exact),
        cmocka_unit_test(memory_failures_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
