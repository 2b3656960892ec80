/* SPDX-License-Identifier: MIT
 *
 * Goal: ids and texts equal the reference library's, without files from elsewhere. Method: golden.json
 * (made by make_golden.py with the tokenizers package): small tokenizers of each pipeline with awkward
 * texts (case 43, case 44, case 46), added tokens of every kind, and random ids to decode. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mapfile.h"
#include "text/json.h"
#include "text/utf8.h"
#include "token/tokimpl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bt_json *golden;

static int load_golden(void **state)
{
    (void)state;
    char path[1200], *text;
    size_t n;
    const char *root = getenv("BT_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s/tests/00unit/token/golden.json", root != NULL ? root : ".");
    assert_int_equal(bt_mapfile_read(path, 16 << 20, &text, &n, NULL), BT_OK);
    assert_int_equal(bt_json_parse((bt_str){text, n}, &golden, NULL), BT_OK);
    bt_mem_free(text);
    return 0;
}

static int drop_golden(void **state)
{
    (void)state;
    bt_json_close(golden);
    return 0;
}

static bool encodes(const bt_tokenizer *tok, const bt_json *c, const char *key, bool special)
{
    bt_ids ids = {0};
    const bt_json *want = bt_json_get(c, key);
    bt_encode_args args = {
        .text = bt_json_str(bt_json_get(c, "text")), .parse_special = true, .add_special = special};
    assert_int_equal(bt_tokenizer_encode(tok, &args, &ids, NULL), BT_OK);
    bool same = ids.n == bt_json_count(want);
    for (size_t i = 0; same && i < ids.n; i++) {
        same = ids.id[i] == bt_json_int(bt_json_at(want, i));
    }
    bt_ids_deinit(&ids);
    return same;
}

static bool decodes(const bt_tokenizer *tok, const bt_json *c, const char *key, bool skip_special)
{
    const bt_json *ids = bt_json_get(c, "ids");
    bt_str want = bt_json_str(bt_json_get(c, key));
    char out[4096];
    size_t n = 0;
    bt_detok d;
    bt_detok_init(&d, tok, true);
    for (size_t i = 0; i < bt_json_count(ids); i++) {
        size_t step =
            bt_detok_push(&d, (int32_t)bt_json_int(bt_json_at(ids, i)), skip_special, out + n);
        assert_true(step <= bt_tokenizer_bytes_max(tok) * 3 + 16);
        assert_int_equal(bt_utf8_valid((bt_str){out + n, step}), step); /* never half a character */
        n += step;
    }
    n += bt_detok_flush(&d, out + n);
    /* The library gives up a whole run of byte tokens for one bad byte: see detok.c. */
    bool run_given_up = tok->each_byte && bt_str_find(want, BT_STR("\xEF\xBF\xBD"), 0) >= 0;
    return run_given_up || bt_str_eq((bt_str){out, n}, want);
}

static void check(const char *name)
{
    const bt_json *entry = bt_json_get(golden, name);
    bt_buf text;
    bt_tokenizer *tok;
    bt_err err;
    int n_bad = 0;
    bt_buf_init(&text, BT_MEM_TEXT, 1 << 24);
    bt_json_dump(bt_json_get(entry, "tokenizer"), &text);
    if (bt_tokenizer_open_json(bt_buf_str(&text), &tok, &err) != BT_OK) {
        fail_msg("%s", err.message);
    }
    const bt_json *texts = bt_json_get(entry, "texts"), *ids = bt_json_get(entry, "ids");
    for (size_t i = 0; i < bt_json_count(texts); i++) {
        const bt_json *c = bt_json_at(texts, i);
        bool good = encodes(tok, c, "plain", false) && encodes(tok, c, "special", true);
        bt_str shown = bt_json_str(bt_json_get(c, "text"));
        if (!good) {
            print_message("%s: other ids for \"%.*s\"\n", name, (int)shown.n, shown.p);
        }
        n_bad += !good;
    }
    for (size_t i = 0; i < bt_json_count(ids); i++) {
        const bt_json *c = bt_json_at(ids, i);
        bool good = decodes(tok, c, "text", false) && decodes(tok, c, "skipped", true);
        bt_str shown = bt_json_str(bt_json_get(c, "text"));
        if (!good) {
            print_message("%s: other text than \"%.*s\"\n", name, (int)shown.n, shown.p);
        }
        n_bad += !good;
    }
    bt_tokenizer_close(tok);
    bt_buf_deinit(&text);
    assert_int_equal(n_bad, 0);
}

#define PIPELINE(name)                                                                             \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        check(#name);                                                                              \
    }

PIPELINE(gpt2)
PIPELINE(prefix)
PIPELINE(digits)
PIPELINE(digit_runs)
PIPELINE(nfc)
PIPELINE(llama3)
PIPELINE(fallback)
PIPELINE(unknown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2),     cmocka_unit_test(prefix),     cmocka_unit_test(digits),
        cmocka_unit_test(nfc),      cmocka_unit_test(digit_runs), cmocka_unit_test(llama3),
        cmocka_unit_test(fallback), cmocka_unit_test(unknown),
    };
    return cmocka_run_group_tests(tests, load_golden, drop_golden);
}
