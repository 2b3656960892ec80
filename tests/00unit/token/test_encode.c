/* SPDX-License-Identifier: MIT
 *
 * Goal: who wrote a text decides what may become a control token; added tokens keep their flags;
 * comparison (cases 1, 2) and hostile files say what is wrong. Method: one small byte-level tokenizer,
 * written here, and changed by replacing parts of its text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "token/tokimpl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char base_json[] =
    "{\"added_tokens\":["
    "{\"id\":20,\"content\":\"<e>\",\"special\":true,\"normalized\":false},"
    "{\"id\":21,\"content\":\"<ab>\",\"special\":false,\"normalized\":false},"
    "{\"id\":22,\"content\":\"<e>e\",\"special\":true,\"normalized\":false},"
    "{\"id\":23,\"content\":\"pad_0\",\"special\":true,\"normalized\":true}],"
    "\"normalizer\":null,"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false},"
    "\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"e\":2,\"<\":3,\">\":4,\"ab\":5,\"<"
    "e\":6,"
    "\"\\u0120\":7,\"p\":8,\"d\":9,\"_\":10,\"0\":11,\"<e>\":20},"
    "\"merges\":[\"a b\",[\"<\",\"e\"],\"<e >\"]}}";

/* The base with one part replaced. */
static bt_status open_changed(const char *from, const char *to, bt_tokenizer **tok, bt_err *err)
{
    static char json[8192];
    const char *at = strstr(base_json, from);
    assert_non_null(at);
    snprintf(json, sizeof json, "%.*s%s%s", (int)(at - base_json), base_json, to,
             at + strlen(from));
    return bt_tokenizer_open_json(bt_str_of(json), tok, err);
}

static bt_tokenizer *opened(const char *from, const char *to)
{
    bt_tokenizer *tok;
    bt_err err;
    if (open_changed(from, to, &tok, &err) != BT_OK) {
        fail_msg("%s", err.message);
    }
    return tok;
}

static void ids_are(const bt_tokenizer *tok, const bt_encode_args *args, const char *want)
{
    bt_ids ids = {0};
    char got[256] = "";
    bt_err err = {0};
    if (bt_tokenizer_encode(tok, args, &ids, &err) != BT_OK) {
        fail_msg("%s", err.message);
    }
    for (size_t i = 0; i < ids.n; i++) {
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", i == 0 ? "" : " ", ids.id[i]);
    }
    assert_string_equal(got, want);
    bt_ids_deinit(&ids);
}

#define TEXT(literal, ...) (&(bt_encode_args){.text = BT_STR(literal), __VA_ARGS__})

static void special_tokens_only_where_parsed(void **state)
{
    (void)state;
    bt_tokenizer *tok = opened("null", "null");
    ids_are(tok, TEXT("a<e>b", .parse_special = true), "0 20 1");
    ids_are(tok, TEXT("a<e>eb", .parse_special = true), "0 22 1");  /* the longest */
    ids_are(tok, TEXT("a<e>b", .parse_special = false), "0 6 4 1"); /* nor by merging "<e >" */
    ids_are(tok, TEXT("<ab>", .parse_special = false), "21");       /* no control token */
    ids_are(tok, TEXT("", .parse_special = true), "");
    ids_are(tok, TEXT("<e><e>", .parse_special = true), "20 20");
    bt_tokenizer_close(tok);
}

/* Runs of the text "<e>a<e>b<e>": a token counts where one trusted run holds all of it; merges cross
 * the borders. */
static void runs_decide(void **state)
{
    (void)state;
    bt_tokenizer *tok = opened("null", "null");
    const bt_run user[] = {{3, true}, {8, false}, {11, true}};
    ids_are(tok, TEXT("<e>a<e>b<e>", .runs = user, .n_runs = 3, .parse_special = true),
            "20 0 6 4 1 20");
    const bt_run forged[] = {{2, true}, {11, false}};
    ids_are(tok, TEXT("<e>a<e>b<e>", .runs = forged, .n_runs = 2), "6 4 0 6 4 1 6 4");
    const bt_run across[] = {{1, true}, {2, false}};
    ids_are(tok, TEXT("ab", .runs = across, .n_runs = 2), "5");
    const bt_run shorter[] = {{3, true}, {5, false}}; /* "<e>e" is not all trusted, "<e>" is */
    ids_are(tok, TEXT("<e>ea", .runs = shorter, .n_runs = 2), "20 2 0");
    const bt_run late[] = {{6, false}, {11, true}}; /* sought after normalisation, trusted there */
    ids_are(tok, TEXT("pad_0apad_0", .runs = late, .n_runs = 2), "8 0 9 10 11 0 23");
    bt_tokenizer_close(tok);
    tok = opened("\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}");
    ids_are(tok, TEXT("pad_0apad_0", .runs = late, .n_runs = 2), "8 0 9 10 11 0 8 0 9 10 11");
    bt_tokenizer_close(tok);
}

static void flags_of_added_tokens(void **state)
{
    (void)state;
    bt_tokenizer *tok = opened("\"<ab>\",", "\"<ab>\",\"lstrip\":true,\"rstrip\":true,");
    ids_are(tok, TEXT("a  <ab>  b", .parse_special = true), "0 21 1");
    ids_are(tok, TEXT(" <ab> <ab> ", .parse_special = true), "21 21");
    bt_tokenizer_close(tok);
    tok = opened("\"content\":\"<ab>\",", "\"content\":\"a b\",\"single_word\":true,");
    ids_are(tok, TEXT("a b", .parse_special = true), "21");
    ids_are(tok, TEXT("aa b", .parse_special = true), "0 0 7 1");
    ids_are(tok, TEXT("a b_", .parse_special = true), "0 7 1 10");
    ids_are(tok, TEXT("a b<", .parse_special = true), "21 3");
    bt_tokenizer_close(tok);
}

static void a_file_that_contradicts_itself(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *names;
    } bad[] = {
        {"\"b\":1", "\"b\":0", "\"b\""},           /* an id twice */
        {"\"b\":1", "\"a\":1", "\"a\""},           /* a token twice */
        {"\"b\":1", "\"b\":99999999", "99999999"}, /* far beyond what the file holds */
        {"\"b\":1", "\"b\":-1", "-1"},
        {"\"b\":1", "\"b\":\"1\"", "\"b\""},
        {"\"b\":1", "\"b\":1.5", "\"b\""},
        {"\"b\":1", "\"b\":1e999", "\"b\""},
        {"\"a b\"", "\"a zz\"", "\"zz\""}, /* merges name unknown tokens */
        {"\"a b\"", "\"b a\"", "\"ba\""},
        {"\"a b\"", "\"ab\"", "\"ab\""},
        {"\"a b\"", "7", "merge 0"},
        {"\"a b\"", "[\"a\"]", "merge 0"},
        {"\"id\":20", "\"id\":3", "<e>"},
        {"\"id\":21", "\"id\":3", "<ab>"},
        {"\"id\":21", "\"id\":\"x\"", "added_tokens[1]"},
        {"\"content\":\"<ab>\"", "\"content\":\"\"", "added_tokens[1]"},
        {"\"BPE\"", "\"Unigram\"", "Unigram"}, /* not known: refused by name */
        {"\"normalizer\":null", "\"normalizer\":{\"type\":\"Lowercase\"}", "Lowercase"},
        {"\"normalizer\":null",
         "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"}}", "Replace"},
        {"\"type\":\"ByteLevel\",\"add", "\"type\":\"Whitespace\",\"add", "Whitespace"},
        {"\"decoder\":{\"type\":\"ByteLevel\"}", "\"decoder\":{\"type\":\"WordPiece\"}",
         "WordPiece"},
        {"\"decoder\":{\"type\":\"ByteLevel\"}", "\"decoder\":null", "decoder"},
        {"\"post_processor\":null", "\"post_processor\":{\"type\":\"BertProcessing\"}",
         "BertProcessing"},
        {"\"model\":{", "\"model\":{\"dropout\":0.1,", "dropout"},
        {"\"model\":{", "\"model\":{\"end_of_word_suffix\":\"</w>\",", "end_of_word_suffix"},
        {"\"vocab\":{", "\"vocab\":[", "byte"},
        {"\"merges\":[", "\"merges\":{", "byte"},
        {"\"model\":", "\"nomodel\":", "model"},
        {"\"merges\":", "\"nomerges\":", "merges"},
    };
    for (size_t i = 0; i < BT_COUNT(bad); i++) {
        bt_tokenizer *tok = NULL;
        bt_err err = {0};
        if (open_changed(bad[i].from, bad[i].to, &tok, &err) == BT_OK) {
            fail_msg("%s is taken", bad[i].to);
        }
        if (strstr(err.message, bad[i].names) == NULL) {
            fail_msg("%s: the message lacks it: %s", bad[i].to, err.message);
        }
        assert_null(tok);
    }
}

static void a_file_cut_short_is_refused(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof base_json - 1; n++) {
        bt_tokenizer *tok = NULL;
        bt_err err = {0};
        assert_int_equal(bt_tokenizer_open_json((bt_str){base_json, n}, &tok, &err), BT_E_FORMAT);
    }
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    bt_status status = BT_E_NO_MEMORY;
    for (uint64_t n = 1; status != BT_OK; n++) {
        bt_tokenizer *tok = NULL;
        bt_err err = {0};
        assert_true(n < 1000);
        bt_mem_fail_after(n);
        status = bt_tokenizer_open_json(BT_STR(base_json), &tok, &err);
        bt_mem_fail_after(0);
        bt_tokenizer_close(tok);
    }
}

static void same_or_not(const char *from, const char *to, const char *id)
{
    bt_err err = {0};
    bt_tokenizer *a = opened("null", "null"), *b = opened(from, to);
    bt_status status = bt_tokenizer_compare(a, b, &err), other = bt_tokenizer_compare(b, a, NULL);
    assert_int_equal(status, id == NULL ? BT_OK : BT_E_INVALID);
    assert_int_equal(status, other);
    if (id != NULL && strstr(err.message, id) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", err.message, id);
    }
    bt_tokenizer_close(a);
    bt_tokenizer_close(b);
}

/* case 1, case 2 */
static void comparison(void **state)
{
    (void)state;
    same_or_not("null", "null", NULL);
    same_or_not("\"a\":0,\"b\":1", "\"b\":0,\"a\":1",
                "id 0 is \"a\" in the target and \"b\" in the draft");
    same_or_not("\"<ab>\"", "\"<ba>\"", "id 21");
    same_or_not("\"_\":10", "\"_\":10,\"c\":30", NULL);         /* an id that one alone has */
    same_or_not("\"special\":false", "\"special\":true", NULL); /* a flag */
    same_or_not("\"pad_0\"", "\"pad_1\"", NULL);                /* nothing uses it */
}

static void invalid_text_is_refused(void **state)
{
    (void)state;
    bt_tokenizer *tok = opened("null", "null");
    bt_ids ids = {0};
    bt_err err = {0};
    assert_int_equal(bt_tokenizer_encode(tok, TEXT("ab\xC3(", .parse_special = true), &ids, &err),
                     BT_E_INVALID);
    assert_int_equal(err.position, 2);
    assert_int_equal(bt_tokenizer_find(tok, BT_STR("<e>")), 20);
    assert_int_equal(bt_tokenizer_find(tok, BT_STR("<x>")), -1);
    assert_int_equal(bt_tokenizer_bytes(tok, -1).n, 0);
    assert_int_equal(bt_tokenizer_bytes(tok, 12).n, 0); /* a hole */
    assert_int_equal(bt_tokenizer_bytes(tok, 1000000).n, 0);
    assert_true(bt_str_eqz(bt_tokenizer_bytes(tok, 7), " "));
    bt_ids_deinit(&ids);
    bt_tokenizer_close(tok);
}

/* Thousands of added tokens with one beginning: a place must not cost their number. */
static void many_added_tokens_are_linear(void **state)
{
    (void)state;
    bt_buf json;
    bt_tokenizer *tok;
    bt_ids ids = {0};
    bt_buf_init(&json, BT_MEM_TOKEN, 1 << 24);
    bt_buf_pushz(&json, "{\"added_tokens\":[");
    for (int i = 0; i < 6000; i++) {
        bt_buf_printf(&json, "%s{\"id\":%d,\"content\":\"<%d>\",\"special\":true}",
                      i > 0 ? "," : "", 100 + i, i);
    }
    bt_buf_pushz(&json, "],");
    bt_buf_pushz(&json, strstr(base_json, "\"normalizer\""));
    assert_int_equal(bt_tokenizer_open_json(bt_buf_str(&json), &tok, NULL), BT_OK);
    enum { N = 1000000 };
    char *text = malloc(N);
    memset(text, '<', N);
    clock_t begin = clock();
    bt_encode_args args = {.text = {text, N}, .parse_special = true};
    assert_int_equal(bt_tokenizer_encode(tok, &args, &ids, NULL), BT_OK);
    assert_true(clock() - begin < 2 * CLOCKS_PER_SEC);
    assert_int_equal(ids.n, N);
    free(text);
    bt_ids_deinit(&ids);
    bt_tokenizer_close(tok);
    bt_buf_deinit(&json);
}

/* A chat of very many short messages: the cost of a token must not grow with the number of runs. */
static void many_runs_are_linear(void **state)
{
    (void)state;
    enum { N = 200000 };
    bt_tokenizer *tok = opened("null", "null");
    bt_ids ids = {0};
    bt_run *runs = malloc(2 * N * sizeof *runs);
    char *text = malloc(4 * N);
    for (size_t i = 0; i < N; i++) {
        memcpy(text + 4 * i, "<e>a", 4);
        runs[2 * i] = (bt_run){4 * i + 3, true};
        runs[2 * i + 1] = (bt_run){4 * i + 4, false};
    }
    clock_t begin = clock();
    bt_encode_args args = {.text = {text, 4 * N}, .runs = runs, .n_runs = 2 * N};
    assert_int_equal(bt_tokenizer_encode(tok, &args, &ids, NULL), BT_OK);
    assert_true(clock() - begin < 2 * CLOCKS_PER_SEC);
    assert_int_equal(ids.n, 2 * N);
    free(runs);
    free(text);
    bt_ids_deinit(&ids);
    bt_tokenizer_close(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_tokens_only_where_parsed),
        cmocka_unit_test(runs_decide),
        cmocka_unit_test(flags_of_added_tokens),
        cmocka_unit_test(a_file_that_contradicts_itself),
        cmocka_unit_test(a_file_cut_short_is_refused),
        cmocka_unit_test(memory_may_run_out_anywhere),
        cmocka_unit_test(comparison),
        cmocka_unit_test(invalid_text_is_refused),
        cmocka_unit_test(many_added_tokens_are_linear),
        cmocka_unit_test(many_runs_are_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
