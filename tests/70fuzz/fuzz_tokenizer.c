/* SPDX-License-Identifier: MIT
 *
 * Goal: no tokenizer file makes loading, encoding or decoding step outside memory, hang, or give text
 * that is not UTF-8. Method: the input is a tokenizer.json, or a GGUF file when it begins like one; a
 * tokenizer that opens encodes the input's own text, half of it trusted, and decodes every id. */
#include "file/table.h"
#include "text/utf8.h"
#include "token/tokimpl.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void decode(const bt_tokenizer *tok, const int32_t *ids, size_t n)
{
    size_t room = bt_tokenizer_bytes_max(tok) * 3 + 16;
    char *out = malloc(room);
    bt_detok d;
    bt_detok_init(&d, tok, true);
    for (size_t i = 0; out != NULL && i <= n; i++) {
        size_t made = i < n ? bt_detok_push(&d, ids[i], i % 2 == 0, out) : bt_detok_flush(&d, out);
        if (made > room || bt_utf8_valid((bt_str){out, made}) != made) {
            abort();
        }
    }
    free(out);
}

static void use(const bt_tokenizer *tok, bt_str text)
{
    bt_ids ids = {0};
    text.n = bt_utf8_valid((bt_str){text.p, BT_MIN(text.n, (size_t)4096)});
    const bt_run runs[] = {{text.n / 2, true}, {text.n, false}};
    bt_encode_args args = {.text = text, .parse_special = true, .add_special = true};
    if (text.n >= 2) {
        args.runs = runs;
        args.n_runs = 2;
    }
    bt_err err;
    bt_status status = bt_tokenizer_encode(tok, &args, &ids, &err);
    if (status != BT_OK && status != BT_E_LIMIT) {
        abort();
    }
    decode(tok, ids.id, ids.n);
    for (size_t i = 0; i < ids.n; i++) {
        if (ids.id[i] < 0 || ids.id[i] >= bt_tokenizer_count(tok)) {
            abort();
        }
    }
    bt_ids_deinit(&ids);
    int32_t all[512];
    int32_t n_all = BT_MIN(bt_tokenizer_count(tok), 500);
    for (int32_t id = 0; id < n_all; id++) {
        all[id] = id;
        (void)bt_tokenizer_find(tok, bt_tokenizer_bytes(tok, id));
    }
    decode(tok, all, (size_t)n_all);
    if (bt_tokenizer_compare(tok, tok, NULL) != BT_OK) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    bt_str text = {(const char *)bytes, n};
    bt_tokenizer *tok = NULL;
    bt_err err;
    bt_status status;
    if (n >= 4 && memcmp(bytes, "GGUF", 4) == 0) {
        bt_weightfile *table = bt_table_create("fuzz", BT_FILE_GGUF);
        status = table == NULL ? BT_E_NO_MEMORY : bt_gguf_parse(table, text, &err);
        status = status == BT_OK ? bt_tokenizer_open(table, &tok, &err) : status;
        bt_weightfile_close(table);
        text.p = "<s>ab  ab12\n\xC3\xA9 <x>";
        text.n = strlen(text.p);
    } else {
        status = bt_tokenizer_open_json(text, &tok, &err);
    }
    if (status == BT_OK) {
        use(tok, text);
    }
    bt_tokenizer_close(tok);
    return 0;
}
