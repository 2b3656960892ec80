/* SPDX-License-Identifier: MIT
 *
 * Goal: vocabularies in GGUF metadata give the same ids as the tokenizer.json they were made from, and
 * wrong arrays are refused by name. Method: the tokenizers of golden.json (ids by the tokenizers
 * package) are written as GGUF metadata in memory and read back; one that is changed in one key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mapfile.h"
#include "file/table.h"
#include "text/json.h"
#include "token/tokimpl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* GGUF value types. */
enum { U32 = 4, I32 = 5, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };

typedef struct gguf {
    bt_buf meta;
    uint64_t n;
} gguf;

static void put(gguf *g, const void *p, size_t n)
{
    bt_buf_push(&g->meta, p, n);
}

static void put_string(gguf *g, bt_str s)
{
    uint64_t n = s.n;
    put(g, &n, 8);
    put(g, s.p, s.n);
}

static void put_key(gguf *g, const char *key, uint32_t type)
{
    put_string(g, bt_str_of(key));
    put(g, &type, 4);
    g->n++;
}

static void put_text(gguf *g, const char *key, const char *value)
{
    put_key(g, key, STRING);
    put_string(g, bt_str_of(value));
}

static void put_u32(gguf *g, const char *key, uint32_t value)
{
    put_key(g, key, U32);
    put(g, &value, 4);
}

static void put_bool(gguf *g, const char *key, bool value)
{
    put_key(g, key, BOOL);
    put(g, &value, 1);
}

static void put_array(gguf *g, const char *key, uint32_t type, uint64_t n)
{
    put_key(g, key, ARRAY);
    put(g, &type, 4);
    put(g, &n, 8);
}

static void start(gguf *g)
{
    bt_buf_init(&g->meta, BT_MEM_TOKEN, 1 << 26);
    g->n = 0;
    put_text(g, "general.architecture", "llama");
}

static bt_status open_gguf(gguf *g, bt_tokenizer **tok, bt_err *err)
{
    bt_buf file;
    const uint32_t version = 3;
    const uint64_t n_tensors = 1; /* "t": one float; the format's reader wants a tensor */
    static const char tensor[] = "\1\0\0\0\0\0\0\0t\1\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    bt_buf_init(&file, BT_MEM_TOKEN, 1 << 26);
    bt_buf_push(&file, "GGUF", 4);
    bt_buf_push(&file, &version, 4);
    bt_buf_push(&file, &n_tensors, 8);
    bt_buf_push(&file, &g->n, 8);
    bt_buf_push_str(&file, bt_buf_str(&g->meta));
    bt_buf_push(&file, tensor, 8 + 1 + 4 + 8 + 4 + 8);
    while (file.n % 32 != 0) {
        bt_buf_push_char(&file, '\0');
    }
    bt_buf_push(&file, "\0\0\0\0", 4);
    bt_weightfile *table = bt_table_create("test.gguf", BT_FILE_GGUF);
    assert_non_null(table);
    bt_status status = bt_gguf_parse(table, bt_buf_str(&file), err);
    if (status == BT_OK) {
        status = bt_tokenizer_open(table, tok, err);
    }
    bt_weightfile_close(table);
    bt_buf_deinit(&file);
    bt_buf_deinit(&g->meta);
    return status;
}

/* A byte-level vocabulary of four tokens; `changed` is left out, for the caller to write otherwise. */
static void small(gguf *g, const char *changed)
{
    static const char *const tokens[] = {"a", "b", "ab", "<s>"};
    static const int32_t types[] = {1, 1, 1, 3};
    start(g);
    if (strcmp(changed, "model") != 0) {
        put_text(g, "tokenizer.ggml.model", "gpt2");
    }
    if (strcmp(changed, "pre") != 0) {
        put_text(g, "tokenizer.ggml.pre", "smollm");
    }
    if (strcmp(changed, "tokens") != 0) {
        put_array(g, "tokenizer.ggml.tokens", STRING, 4);
        for (int i = 0; i < 4; i++) {
            put_string(g, bt_str_of(tokens[i]));
        }
    }
    if (strcmp(changed, "types") != 0) {
        put_array(g, "tokenizer.ggml.token_type", I32, 4);
        put(g, types, sizeof types);
    }
    if (strcmp(changed, "merges") != 0) {
        put_array(g, "tokenizer.ggml.merges", STRING, 1);
        put_string(g, BT_STR("a b"));
    }
}

static void encodes_to(const bt_tokenizer *tok, const char *text, bool add_special,
                       const int32_t *want, size_t n)
{
    bt_ids ids = {0};
    bt_encode_args args = {
        .text = bt_str_of(text), .parse_special = true, .add_special = add_special};
    assert_int_equal(bt_tokenizer_encode(tok, &args, &ids, NULL), BT_OK);
    assert_int_equal(ids.n, n);
    assert_memory_equal(ids.id, want, n * sizeof *want);
    bt_ids_deinit(&ids);
}

static void special_ids(void **state)
{
    (void)state;
    gguf g;
    bt_tokenizer *tok;
    int32_t extra[8];
    small(&g, "");
    put_u32(&g, "tokenizer.ggml.bos_token_id", 3);
    put_u32(&g, "tokenizer.ggml.eos_token_id", 2);
    put_u32(&g, "tokenizer.ggml.eot_token_id", 1);
    put_u32(&g, "tokenizer.ggml.eom_token_id", 0);
    put_u32(&g, "tokenizer.ggml.unknown_token_id", 3);
    put_bool(&g, "tokenizer.ggml.add_bos_token", true);
    put_bool(&g, "tokenizer.ggml.add_eos_token", true);
    put_text(&g, "tokenizer.chat_template", "{{ messages }}");
    assert_int_equal(open_gguf(&g, &tok, NULL), BT_OK);
    assert_int_equal(bt_tokenizer_count(tok), 4);
    assert_int_equal(bt_tokenizer_bos(tok), 3);
    assert_int_equal(bt_tokenizer_eos(tok), 2);
    assert_int_equal(bt_tokenizer_extra_eos(tok, extra), 2);
    assert_int_equal(extra[0], 1);
    assert_int_equal(extra[1], 0);
    assert_true(bt_str_eqz(bt_tokenizer_bos_text(tok), "<s>"));
    assert_true(bt_str_eqz(bt_tokenizer_chat_template(tok), "{{ messages }}"));
    assert_true(bt_tokenizer_is_special(tok, 3));
    encodes_to(tok, "ab<s>b", false, (const int32_t[]){2, 3, 1}, 3);
    encodes_to(tok,
               "a\x1C"
               "b",
               false, (const int32_t[]){0, 1}, 2); /* no byte token: dropped */
    encodes_to(tok, "ab", true, (const int32_t[]){3, 2, 2}, 3);
    bt_tokenizer_close(tok);
}

static void refused(gguf *g, const char *names)
{
    bt_tokenizer *tok = NULL;
    bt_err err = {0};
    assert_int_not_equal(open_gguf(g, &tok, &err), BT_OK);
    assert_null(tok);
    if (strstr(err.message, names) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", err.message, names);
    }
}

static void wrong_metadata_are_refused(void **state)
{
    (void)state;
    gguf g;
    small(&g, "pre");
    put_text(&g, "tokenizer.ggml.pre", "nosuch"); /* case 43 */
    refused(&g, "nosuch");
    small(&g, "model");
    put_text(&g, "tokenizer.ggml.model", "rwkv");
    refused(&g, "rwkv");
    small(&g, "model");
    refused(&g, "tokenizer.ggml.model");
    small(&g, "tokens");
    refused(&g, "tokenizer.ggml.tokens");
    small(&g, "tokens");
    put_u32(&g, "tokenizer.ggml.tokens", 5);
    refused(&g, "tokenizer.ggml.tokens");
    small(&g, "tokens");
    put_array(&g, "tokenizer.ggml.tokens", I32, 1);
    put(&g, "\0\0\0\0", 4);
    refused(&g, "tokenizer.ggml.tokens");
    small(&g, "types");
    put_array(&g, "tokenizer.ggml.token_type", I32, 3);
    put(&g, "\1\0\0\0\1\0\0\0\1\0\0\0", 12);
    refused(&g, "tokenizer.ggml.token_type");
    small(&g, "types");
    put_array(&g, "tokenizer.ggml.token_type", F32, 4);
    put(&g, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
    refused(&g, "tokenizer.ggml.token_type");
    small(&g, "merges");
    refused(&g, "tokenizer.ggml.merges");
    small(&g, "merges");
    put_array(&g, "tokenizer.ggml.merges", STRING, 1);
    put_string(&g, BT_STR("a zz"));
    refused(&g, "\"zz\"");
    small(&g, "merges");
    put_array(&g, "tokenizer.ggml.merges", STRING, 1);
    put_string(&g, BT_STR("ab"));
    refused(&g, "merge 0");
    small(&g, "");
    put_u32(&g, "tokenizer.ggml.bos_token_id", 4);
    refused(&g, "tokenizer.ggml.bos_token_id");
}

static bt_json *read_json(const char *path)
{
    char *text;
    size_t n;
    bt_json *root;
    assert_int_equal(bt_mapfile_read(path, 64 << 20, &text, &n, NULL), BT_OK);
    assert_int_equal(bt_json_parse((bt_str){text, n}, &root, NULL), BT_OK);
    bt_mem_free(text);
    return root;
}

/* Writes tokens and types of a parsed tokenizer.json; returns their number. */
static uint64_t put_vocabulary(gguf *g, const bt_json *json)
{
    enum { MAX = 40000 };
    bt_str *tokens = calloc(MAX, sizeof *tokens);
    int32_t *types = calloc(MAX, sizeof *types);
    const bt_json *id, *added = bt_json_get(json, "added_tokens");
    const bt_json *vocab = bt_json_get(bt_json_get(json, "model"), "vocab");
    void *iter = NULL;
    bt_str token;
    int64_t n = 0;
    while (bt_json_next(vocab, &iter, &token, &id)) {
        assert_true(bt_json_int(id) < MAX);
        tokens[bt_json_int(id)] = token;
        types[bt_json_int(id)] = token.n == 6 && bt_str_starts(token, BT_STR("<0x")) ? 6 : 1;
        n = BT_MAX(n, bt_json_int(id) + 1);
    }
    for (size_t i = 0; i < bt_json_count(added); i++) {
        const bt_json *item = bt_json_at(added, i);
        int64_t at = bt_json_int(bt_json_get(item, "id"));
        tokens[at] = bt_json_str(bt_json_get(item, "content"));
        types[at] = bt_json_bool(bt_json_get(item, "special")) ? 3 : 4;
        n = BT_MAX(n, at + 1);
    }
    put_array(g, "tokenizer.ggml.tokens", STRING, (uint64_t)n);
    for (int64_t i = 0; i < n; i++) {
        put_string(g, tokens[i]);
    }
    put_array(g, "tokenizer.ggml.token_type", I32, (uint64_t)n);
    put(g, types, (size_t)n * 4);
    free(tokens);
    free(types);
    return (uint64_t)n;
}

static void texts_agree(const bt_tokenizer *tok, const bt_json *texts)
{
    for (size_t i = 0; i < bt_json_count(texts); i++) {
        const bt_json *c = bt_json_at(texts, i), *want = bt_json_get(c, "plain");
        bt_str text = bt_json_str(bt_json_get(c, "text"));
        int32_t ids[512];
        bool flagged = bt_str_find(text, BT_STR("["), 0) >= 0 ||
                       bt_str_find(text, BT_STR("word"), 0) >= 0; /* GGUF has no such flags */
        for (size_t k = 0; k < bt_json_count(want); k++) {
            ids[k] = (int32_t)bt_json_int(bt_json_at(want, k));
        }
        if (!flagged && memchr(text.p, '\0', text.n) == NULL) {
            encodes_to(tok, text.p, false, ids, bt_json_count(want));
        }
    }
}

static void byte_level_equals_tokenizer_json(void **state)
{
    (void)state;
    static const struct {
        const char *golden, *pre;
    } pairs[] = {
        {"gpt2", "gpt-2"}, {"digits", "smollm"}, {"nfc", "qwen2"}, {"llama3", "llama-bpe"}};
    char path[1200];
    const char *root = getenv("BT_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s/tests/00unit/token/golden.json", root != NULL ? root : ".");
    bt_json *golden = read_json(path);
    for (size_t i = 0; i < BT_COUNT(pairs); i++) {
        gguf g;
        bt_tokenizer *tok;
        const bt_json *entry = bt_json_get(golden, pairs[i].golden);
        const bt_json *json = bt_json_get(entry, "tokenizer");
        const bt_json *merges = bt_json_get(bt_json_get(json, "model"), "merges");
        start(&g);
        put_text(&g, "tokenizer.ggml.model", "gpt2");
        put_text(&g, "tokenizer.ggml.pre", pairs[i].pre);
        put_vocabulary(&g, json);
        put_array(&g, "tokenizer.ggml.merges", STRING, bt_json_count(merges));
        for (size_t k = 0; k < bt_json_count(merges); k++) {
            char both[256];
            const bt_json *pair = bt_json_at(merges, k);
            bt_str left = bt_json_str(bt_json_at(pair, 0)),
                   right = bt_json_str(bt_json_at(pair, 1));
            snprintf(both, sizeof both, "%.*s %.*s", (int)left.n, left.p, (int)right.n, right.p);
            put_string(&g, bt_str_of(both));
        }
        assert_int_equal(open_gguf(&g, &tok, NULL), BT_OK);
        texts_agree(tok, bt_json_get(entry, "texts"));
        bt_tokenizer_close(tok);
    }
    bt_json_close(golden);
}

/* A token's score is minus the number of the first merge that makes it: the order in which its
 * tokenizer.model has them. */
static void put_scores(gguf *g, const bt_json *json, uint64_t n)
{
    const bt_json *model = bt_json_get(json, "model"), *merges = bt_json_get(model, "merges");
    const bt_json *vocab = bt_json_get(model, "vocab");
    float *score = calloc(n, sizeof *score);
    for (uint64_t i = 0; i < n; i++) {
        score[i] = -1e9f;
    }
    for (size_t k = bt_json_count(merges); k-- > 0;) {
        char token[256];
        bt_str both = bt_json_str(bt_json_at(merges, k));
        size_t blank = (size_t)bt_str_find(both, BT_STR(" "), 1);
        snprintf(token, sizeof token, "%.*s%s", (int)blank, both.p, both.p + blank + 1);
        score[bt_json_int(bt_json_get(vocab, token))] = -(float)k;
    }
    put_array(g, "tokenizer.ggml.scores", F32, n);
    put(g, score, n * sizeof *score);
    free(score);
}

/* Its cases come from the reference library. */
static void scores_equal_tokenizer_json(void **state)
{
    (void)state;
    char path[1200], *cases;
    const char *env = getenv("BT_SHARED"), *root = getenv("BT_SOURCE_ROOT");
    size_t n_cases;
    char shared[1024];
    snprintf(shared, sizeof shared, "%s%s",
             env != NULL    ? env
             : root != NULL ? root
                            : ".",
             env != NULL ? "" : "/../shared");
    snprintf(path, sizeof path, "%s/data/tokenizers/llama2/cases.jsonl", shared);
    if (bt_mapfile_read(path, 64 << 20, &cases, &n_cases, NULL) != BT_OK) {
        print_message("skipped: %s is not there\n", path);
        skip();
    }
    snprintf(path, sizeof path, "%s/data/tokenizers/llama2/tokenizer.json", shared);
    bt_json *json = read_json(path);
    gguf g;
    bt_tokenizer *tok;
    start(&g);
    put_text(&g, "tokenizer.ggml.model", "llama");
    uint64_t n = put_vocabulary(&g, json);
    put_scores(&g, json, n);
    put_u32(&g, "tokenizer.ggml.bos_token_id", 1);
    put_u32(&g, "tokenizer.ggml.unknown_token_id", 0);
    assert_int_equal(open_gguf(&g, &tok, NULL), BT_OK);
    bt_json_close(json);
    int n_lines = 0;
    for (char *line = cases; line < cases + n_cases; n_lines++) {
        char *end = memchr(line, '\n', (size_t)(cases + n_cases - line));
        end = end == NULL ? cases + n_cases : end;
        bt_json *c;
        assert_int_equal(bt_json_parse((bt_str){line, (size_t)(end - line)}, &c, NULL), BT_OK);
        const bt_json *want = bt_json_get(c, "ids_special");
        bt_ids ids = {0};
        bt_encode_args args = {.text = bt_json_str(bt_json_get(c, "text")),
                               .parse_special = true,
                               .add_special = true};
        assert_int_equal(bt_tokenizer_encode(tok, &args, &ids, NULL), BT_OK);
        assert_int_equal(ids.n, bt_json_count(want));
        for (size_t i = 0; i < ids.n; i++) {
            assert_int_equal(ids.id[i], bt_json_int(bt_json_at(want, i)));
        }
        bt_ids_deinit(&ids);
        bt_json_close(c);
        line = end + 1;
    }
    print_message("llama2 by scores: %d cases agree\n", n_lines);
    bt_mem_free(cases);
    bt_tokenizer_close(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_ids),
        cmocka_unit_test(wrong_metadata_are_refused),
        cmocka_unit_test(byte_level_equals_tokenizer_json),
        cmocka_unit_test(scores_equal_tokenizer_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
