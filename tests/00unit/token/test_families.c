/* SPDX-License-Identifier: MIT
 *
 * Goal: ids and decoded text equal the reference library's for the families that are served. Method:
 * the cases of the shared tokenizer data (ids and texts by the Rust tokenizers library); each string
 * is encoded with and without special tokens and decoded whole and token by token. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/mapfile.h"
#include "text/json.h"
#include "token/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *shared_dir(void)
{
    static char path[1024];
    const char *env = getenv("BT_SHARED"), *root = getenv("BT_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s%s",
             env != NULL    ? env
             : root != NULL ? root
                            : ".",
             env != NULL ? "" : "/../shared");
    return path;
}

static void write_file(const char *dir, const char *name, const void *bytes, size_t n)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* A directory that a weight file can be opened from: the family's tokenizer and an empty model. */
static bool make_dir(const char *family, char dir[64])
{
    char command[4096], probe[1200];
    snprintf(probe, sizeof probe, "%s/data/tokenizers/%s/cases.jsonl", shared_dir(), family);
    if (access(probe, R_OK) != 0) {
        print_message("skipped: %s is not there\n", probe);
        return false;
    }
    strcpy(dir, "/tmp/bt-token-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(
        command, sizeof command,
        "cd '%s/data/tokenizers/%s' && for f in tokenizer.json tokenizer_config.json; do "
        "if [ -e $f.gz ]; then gzip -dc $f.gz > %s/$f; elif [ -e $f ]; then cp $f %s/; fi; done",
        shared_dir(), family, dir, dir);
    assert_int_equal(system(command), 0);
    write_file(dir, "config.json", "{}", 2);
    write_file(dir, "model.safetensors", "\2\0\0\0\0\0\0\0{}", 10);
    return true;
}

static void remove_dir(const char *dir)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

static bool same_ids(const bt_ids *got, const bt_json *want)
{
    if (got->n != bt_json_count(want)) {
        return false;
    }
    for (size_t i = 0; i < got->n; i++) {
        if (got->id[i] != bt_json_int(bt_json_at(want, i))) {
            return false;
        }
    }
    return true;
}

static bool encodes(const bt_tokenizer *tok, const bt_json *c, const char *key, bool special)
{
    bt_ids ids = {0};
    bt_encode_args args = {
        .text = bt_json_str(bt_json_get(c, "text")), .parse_special = true, .add_special = special};
    bt_err err = {0};
    if (bt_tokenizer_encode(tok, &args, &ids, &err) != BT_OK) {
        fail_msg("%s", err.message);
    }
    bool same = same_ids(&ids, bt_json_get(c, key));
    if (!same) {
        print_message("%s: %.*s\n", key, (int)BT_MIN(args.text.n, (size_t)120), args.text.p);
    }
    bt_ids_deinit(&ids);
    return same;
}

static bool decodes(const bt_tokenizer *tok, const bt_json *c, const char *key, bool skip_special)
{
    const bt_json *ids = bt_json_get(c, "ids_plain");
    bt_buf out;
    bt_detok d;
    bt_buf_init(&out, BT_MEM_TOKEN, 1 << 26);
    bt_detok_init(&d, tok, true);
    size_t room = bt_tokenizer_bytes_max(tok) * 3 + 16;
    for (size_t i = 0; i <= bt_json_count(ids); i++) {
        assert_int_equal(bt_buf_reserve(&out, room), BT_OK);
        size_t before = out.n;
        out.n += i == bt_json_count(ids)
                     ? bt_detok_flush(&d, out.p + out.n)
                     : bt_detok_push(&d, (int32_t)bt_json_int(bt_json_at(ids, i)), skip_special,
                                     out.p + out.n);
        assert_true(out.n - before <= room);
    }
    bt_str want = bt_json_str(bt_json_get(c, key));
    bool same = bt_str_eq(bt_buf_str(&out), want);
    if (!same) {
        print_message("%s: want %.*s, got %.*s\n", key, (int)BT_MIN(want.n, (size_t)120), want.p,
                      (int)BT_MIN(out.n, (size_t)120), out.p);
    }
    bt_buf_deinit(&out);
    return same;
}

static void check_family(const char *family)
{
    char dir[64], path[1200], *text;
    size_t n;
    if (!make_dir(family, dir)) {
        skip();
    }
    bt_weightfile *file;
    bt_tokenizer *tok = NULL;
    bt_err err = {0};
    if (bt_weightfile_open(dir, &file, &err) != BT_OK) {
        fail_msg("%s", err.message);
    }
    if (bt_tokenizer_open(file, &tok, &err) != BT_OK) {
        fail_msg("%s", err.message);
    }
    bt_weightfile_close(file);
    remove_dir(dir);
    snprintf(path, sizeof path, "%s/data/tokenizers/%s/cases.jsonl", shared_dir(), family);
    assert_int_equal(bt_mapfile_read(path, 64 << 20, &text, &n, NULL), BT_OK);
    int n_cases = 0, n_bad = 0;
    for (char *line = text; line < text + n;) {
        char *end = memchr(line, '\n', (size_t)(text + n - line));
        end = end == NULL ? text + n : end;
        bt_json *c = NULL;
        if (end > line) {
            assert_int_equal(bt_json_parse((bt_str){line, (size_t)(end - line)}, &c, NULL), BT_OK);
            bool plain = encodes(tok, c, "ids_plain", false);
            bool special = encodes(tok, c, "ids_special", true);
            bool whole = decodes(tok, c, "decoded", false);
            bool skipped = decodes(tok, c, "decoded_skip_special", true);
            n_bad += !(plain && special && whole && skipped);
            n_cases++;
        }
        bt_json_close(c);
        line = end + 1;
    }
    bt_mem_free(text);
    bt_tokenizer_close(tok);
    print_message("%s: %d of %d cases agree\n", family, n_cases - n_bad, n_cases);
    assert_int_equal(n_bad, 0);
}

#define FAMILY(name)                                                                               \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        check_family(#name);                                                                       \
    }

FAMILY(gpt2)
FAMILY(starcoder2)
FAMILY(llama3_1)
FAMILY(qwen2_5)
FAMILY(qwen3)
FAMILY(stories260k)
FAMILY(llama2)
FAMILY(mistral_v1)
FAMILY(mistral_nemo)
FAMILY(phi2)
FAMILY(gptoss)
FAMILY(deepseek_v3)
FAMILY(yi)
FAMILY(internlm2)
FAMILY(phi3)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2),    cmocka_unit_test(starcoder2), cmocka_unit_test(llama3_1),
        cmocka_unit_test(qwen2_5), cmocka_unit_test(qwen3),      cmocka_unit_test(stories260k),
        cmocka_unit_test(llama2),  cmocka_unit_test(mistral_v1), cmocka_unit_test(mistral_nemo),
        cmocka_unit_test(phi2),    cmocka_unit_test(gptoss),     cmocka_unit_test(deepseek_v3),
        cmocka_unit_test(yi),      cmocka_unit_test(internlm2),  cmocka_unit_test(phi3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
