/* SPDX-License-Identifier: MIT
 *
 * tokenizer.json, the serialised form of the Hugging Face tokenizers library, and what
 * tokenizer_config.json adds to it. Only what is read here is supported; anything else that would
 * change ids is refused by its name. */
#include "token/hfparts.h"

#include "base/mapfile.h"
#include "text/utf8.h"
#include "token/pull.h"

#include <stdio.h>
#include <string.h>

enum { JSON_MAX = 256 << 20, REST_MAX = 64 << 20, PATH_BYTES = 4096, SLACK_IDS = 1 << 16 };
/* Bytes of one entry in usual files, for first sizes of tables that grow by need. */
enum { VOCAB_BYTES = 20, MERGE_BYTES = 16 };

/* What a tokenizer.json is made of: the two long tables as they lie in the file, and all else that is
 * read, copied into a small document of its own. */
typedef struct parts {
    bt_str vocab, merges;
    bt_buf rest;
} parts;

static bool is_one_of(bt_str key, const char *const *names, size_t n)
{
    bool found = false;
    for (size_t i = 0; i < n && !found; i++) {
        found = bt_str_eqz(key, names[i]);
    }
    return found;
}

/* Copies `"key": value` and a comma. */
static bt_status copy_member(bt_pull *p, const char *const *names, size_t n, bt_str key, parts *out)
{
    bt_str value;
    bool wanted =
        is_one_of(key, names, n); /* before the value is read: it may end the key's life */
    if (wanted) {
        bt_buf_push_char(&out->rest, '"');
        bt_buf_push_str(&out->rest, key);
        bt_buf_pushz(&out->rest, "\":");
    }
    BT_TRY(bt_pull_skip(p, &value));
    if (wanted) {
        bt_buf_push_str(&out->rest, value);
        bt_buf_push_char(&out->rest, ',');
    }
    return BT_OK;
}

/* One of the long tables. */
static bt_status note_table(bt_pull *p, const char *name, bt_str *table)
{
    if (table->p != NULL) {
        return bt_fail_at(p->err, BT_E_FORMAT, (int64_t)p->at, "\"%s\" occurs twice", name);
    }
    return bt_pull_skip(p, table);
}

static bt_status scan_model(bt_pull *p, parts *out)
{
    static const char *const names[] = {"type",    "unk_token",     "continuing_subword_prefix",
                                        "dropout", "fuse_unk",      "end_of_word_suffix",
                                        "unk_id",  "byte_fallback", "ignore_merges"};
    bool first = true, more;
    bt_str key;
    bt_buf_pushz(&out->rest, "\"model\":{");
    BT_TRY(bt_pull_open(p, '{'));
    for (;;) {
        BT_TRY(bt_pull_next(p, '}', &first, &more));
        if (!more) {
            break;
        }
        BT_TRY(bt_pull_key(p, &key));
        if (bt_str_eqz(key, "vocab")) {
            BT_TRY(note_table(p, "vocab", &out->vocab));
        } else if (bt_str_eqz(key, "merges")) {
            BT_TRY(note_table(p, "merges", &out->merges));
        } else {
            BT_TRY(copy_member(p, names, BT_COUNT(names), key, out));
        }
    }
    bt_buf_pushz(&out->rest, "\"\":0},");
    return BT_OK;
}

static bt_status scan(bt_pull *p, parts *out)
{
    static const char *const names[] = {"added_tokens", "normalizer", "pre_tokenizer",
                                        "post_processor", "decoder"};
    bool first = true, more;
    bt_str key;
    bt_buf_push_char(&out->rest, '{');
    BT_TRY(bt_pull_open(p, '{'));
    for (;;) {
        BT_TRY(bt_pull_next(p, '}', &first, &more));
        if (!more) {
            break;
        }
        BT_TRY(bt_pull_key(p, &key));
        if (bt_str_eqz(key, "model") && bt_pull_peek(p) == '{') {
            BT_TRY(scan_model(p, out));
        } else {
            BT_TRY(copy_member(p, names, BT_COUNT(names), key, out));
        }
    }
    bt_buf_pushz(&out->rest, "\"\":0}");
    BT_TRY(bt_pull_end(p));
    return bt_buf_ok(&out->rest) == BT_OK ? BT_OK
                                          : bt_fail(p->err, bt_buf_ok(&out->rest),
                                                    "its small parts have over %d bytes", REST_MAX);
}

static bt_status load_vocab(bt_tokenizer *t, bt_str table, bt_buf *plain, int64_t id_max,
                            bt_err *err)
{
    bt_pull p;
    bool first = true, more;
    bt_str token;
    bt_pull_init(&p, table, plain, err);
    if (!bt_map_reserve(&t->vocab.by_written, table.n / VOCAB_BYTES)) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for a vocabulary of %zu bytes", table.n);
    }
    BT_TRY(bt_pull_open(&p, '{'));
    for (;;) {
        int64_t id;
        BT_TRY(bt_pull_next(&p, '}', &first, &more));
        if (!more) {
            return BT_OK;
        }
        BT_TRY(bt_pull_key(&p, &token));
        bt_status status = bt_pull_int(&p, &id);
        if (status != BT_OK) {
            bt_err_prefix(err, "id of token \"%.*s\"", (int)BT_MIN(token.n, (size_t)60), token.p);
            return status;
        }
        BT_TRY(bt_vocab_set(&t->vocab, id, token, id_max, err));
    }
}

/* "a b" or ["a", "b"]. The left one is copied where the right one's escapes may overwrite it. */
static bt_status read_merge(bt_pull *p, bt_buf *kept, bt_str *left, bt_str *right)
{
    if (bt_pull_peek(p) != '[') {
        bt_str both;
        BT_TRY(bt_pull_string(p, &both));
        int64_t blank = both.n > 1 ? bt_str_find(both, BT_STR(" "), 1) : -1;
        if (blank < 0) {
            return bt_fail_at(p->err, BT_E_FORMAT, (int64_t)p->at, "\"%.*s\" is no pair of tokens",
                              (int)BT_MIN(both.n, (size_t)60), both.p);
        }
        *left = (bt_str){both.p, (size_t)blank};
        *right = (bt_str){both.p + blank + 1, both.n - (size_t)blank - 1};
        return BT_OK;
    }
    bool first = true, more = false;
    bt_str one;
    BT_TRY(bt_pull_open(p, '['));
    BT_TRY(bt_pull_next(p, ']', &first, &more));
    BT_TRY(bt_pull_string(p, &one));
    bt_buf_clear(kept);
    bt_buf_push_str(kept, one);
    *left = bt_buf_str(kept);
    BT_TRY(bt_pull_next(p, ']', &first, &more));
    BT_TRY(bt_pull_string(p, right));
    BT_TRY(bt_pull_next(p, ']', &first, &more));
    return more ? bt_pull_fail(p, "the end of a pair") : bt_buf_ok(kept);
}

static bt_status load_merges(bt_tokenizer *t, bt_str table, bt_buf *plain, bt_buf work[2],
                             bt_err *err)
{
    bt_pull p;
    bool first = true, more;
    bt_pull_init(&p, table, plain, err);
    if (bt_merges_reserve(&t->merges, table.n / MERGE_BYTES) != BT_OK) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for merges of %zu bytes", table.n);
    }
    BT_TRY(bt_pull_open(&p, '['));
    for (size_t i = 0;; i++) {
        bt_str left, right;
        BT_TRY(bt_pull_next(&p, ']', &first, &more));
        if (!more) {
            return BT_OK;
        }
        bt_status status = read_merge(&p, &work[0], &left, &right);
        if (status != BT_OK) {
            bt_err_prefix(err, "merge %zu", i);
            return status;
        }
        BT_TRY(bt_tokenizer_add_merge(t, i, left, right, &work[1], err));
    }
}

static bt_status check_model(const bt_json *model, bool has_merges, bt_err *err)
{
    bt_str type = bt_hf_text(model, "type"); /* absent in old files: BPE by its merges */
    if (!(bt_str_eqz(type, "BPE") || (type.n == 0 && has_merges))) {
        return bt_fail(err, BT_E_UNSUPPORTED, "model type \"%.*s\" is not supported (BPE is)",
                       (int)BT_MIN(type.n, (size_t)40), type.p);
    }
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < BT_COUNT(affixes); i++) {
        if (bt_hf_text(model, affixes[i]).n > 0) {
            return bt_fail(err, BT_E_UNSUPPORTED, "model.%s is not supported", affixes[i]);
        }
    }
    const bt_json *dropout = bt_json_get(model, "dropout");
    bool number = dropout != NULL && (bt_json_kind_of(dropout) == BT_JSON_INT ||
                                      bt_json_kind_of(dropout) == BT_JSON_REAL);
    return number && bt_json_real(dropout) > 0
               ? bt_fail(err, BT_E_UNSUPPORTED, "model.dropout is not supported")
               : BT_OK;
}

static bt_status load_tables(bt_tokenizer *t, const parts *from, const bt_json *root, bt_err *err)
{
    const bt_json *added = bt_json_get(root, "added_tokens");
    bool list = added != NULL && bt_json_kind_of(added) == BT_JSON_ARRAY;
    int64_t id_max = SLACK_IDS + (int64_t)(from->vocab.n / 4);
    id_max += list ? 2 * (int64_t)bt_json_count(added) : 0;
    bt_buf buf[3];
    for (int i = 0; i < 3; i++) {
        bt_buf_init(&buf[i], BT_MEM_TOKEN, 1 << 20);
    }
    bt_status status = load_vocab(t, from->vocab, &buf[0], id_max, err);
    if (status != BT_OK) {
        bt_err_prefix(err, "model.vocab");
    } else {
        status = bt_hf_load_added(t, added, id_max, err);
    }
    if (status == BT_OK) {
        status = load_merges(t, from->merges, &buf[0], &buf[1], err);
    }
    for (int i = 0; i < 3; i++) {
        bt_buf_deinit(&buf[i]);
    }
    return status;
}

static bt_status load_model(bt_tokenizer *t, const parts *from, const bt_json *root, bt_err *err)
{
    const bt_json *model = bt_hf_object(root, "model");
    if (model == NULL) {
        return bt_fail(err, BT_E_FORMAT, "no \"model\" object");
    }
    BT_TRY(check_model(model, from->merges.p != NULL, err));
    if (from->vocab.p == NULL || from->merges.p == NULL) {
        return bt_fail(err, BT_E_FORMAT, "the model lacks its \"%s\"",
                       from->vocab.p == NULL ? "vocab" : "merges");
    }
    BT_TRY(load_tables(t, from, root, err));
    t->ignore_merges = bt_hf_flag(model, "ignore_merges", false);
    t->fuse_unk = bt_hf_flag(model, "fuse_unk", false);
    t->byte_fallback = bt_hf_flag(model, "byte_fallback", false);
    bt_str unk = bt_hf_text(model, "unk_token");
    t->unk_id = unk.n > 0 ? bt_vocab_find(&t->vocab, unk) : -1;
    return BT_OK;
}

/* A token named in tokenizer_config.json: "text" or {"content": "text"}. */
static int32_t configured(const bt_tokenizer *t, const bt_meta *config, const char *key)
{
    bt_meta_value v;
    char nested[64];
    if (config == NULL || !bt_meta_get(config, key, &v)) {
        return -1;
    }
    if (v.kind == BT_META_OBJECT) {
        snprintf(nested, sizeof nested, "%s.content", key);
        if (!bt_meta_get(config, nested, &v)) {
            return -1;
        }
    }
    return v.kind == BT_META_STRING ? bt_vocab_find(&t->vocab, v.s) : -1;
}

/* chat_template of tokenizer_config.json: a text, or a list of {"name", "template"}. The list's
 * elements are objects, which bt_meta does not open: the file is read again for them. */
static bt_status template_from_list(bt_tokenizer *t, const char *dir, bt_err *err)
{
    bt_json *root = NULL;
    BT_TRY(bt_hf_read_json(dir, "tokenizer_config.json", &root, err));
    const bt_json *list = bt_json_get(root, "chat_template");
    bt_status status = BT_OK;
    for (size_t i = 0; i < bt_json_count(list) && status == BT_OK; i++) {
        const bt_json *item = bt_json_at(list, i);
        if (bt_json_kind_of(item) == BT_JSON_OBJECT &&
            bt_str_eqz(bt_hf_text(item, "name"), "default")) {
            status = bt_tokenizer_set_template(t, bt_hf_text(item, "template"), err);
        }
    }
    bt_json_close(root);
    return status;
}

static bt_status load_template(bt_tokenizer *t, const bt_weightfile *file, bt_err *err)
{
    char path[PATH_BYTES], *text = NULL;
    size_t n;
    const char *dir = bt_weightfile_path(file);
    const bt_meta *config = bt_weightfile_tokenizer_config(file);
    snprintf(path, sizeof path, "%s/chat_template.jinja", dir);
    bt_status status = bt_mapfile_read(path, 1 << 22, &text, &n, err);
    if (status == BT_OK) {
        status = bt_tokenizer_set_template(t, (bt_str){text, n}, err);
        bt_mem_free(text);
        return status;
    }
    if (status != BT_E_NOT_FOUND) {
        return status;
    }
    bt_meta_value v;
    if (config == NULL || !bt_meta_get(config, "chat_template", &v)) {
        return BT_OK;
    }
    if (v.kind == BT_META_STRING) {
        return bt_tokenizer_set_template(t, v.s, err);
    }
    return v.kind == BT_META_ARRAY ? template_from_list(t, dir, err) : BT_OK;
}

bt_status bt_hf_read_json(const char *dir, const char *name, bt_json **out, bt_err *err)
{
    char path[PATH_BYTES], *text = NULL;
    size_t n;
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= PATH_BYTES) {
        return bt_fail(err, BT_E_INVALID, "%.200s…: path too long", dir);
    }
    BT_TRY(bt_mapfile_read(path, JSON_MAX, &text, &n, err));
    bt_status status = bt_json_parse_config((bt_str){text, n}, out, err);
    bt_mem_free(text);
    if (status == BT_OK && bt_json_kind_of(*out) != BT_JSON_OBJECT) {
        bt_json_close(*out);
        *out = NULL;
        status = bt_fail(err, BT_E_FORMAT, "an object is expected");
    }
    if (status != BT_OK) {
        bt_err_prefix(err, "%s", name);
    }
    return status;
}

static bt_status load_parts(bt_tokenizer *t, const parts *from, const bt_json *root, bt_err *err)
{
    BT_TRY(load_model(t, from, root, err));
    BT_TRY(bt_hf_load_normalizer(t, bt_json_get(root, "normalizer"), err));
    BT_TRY(bt_hf_load_pretok(t, bt_json_get(root, "pre_tokenizer"), err));
    BT_TRY(bt_hf_load_decoder(t, bt_json_get(root, "decoder"), err));
    BT_TRY(t->byte_level ? bt_vocab_decode_byte_level(&t->vocab, err)
                         : bt_vocab_decode_sentencepiece(&t->vocab, err));
    BT_TRY(bt_hf_index_added(t, err));
    if (t->byte_level || t->byte_fallback) {
        bt_tokenizer_index_bytes(t);
    }
    bt_tokenizer_find_cuts(t);
    return bt_hf_load_post(t, bt_json_get(root, "post_processor"), err);
}

bt_status bt_tokenizer_load_json(bt_tokenizer *t, bt_str text, bt_err *err)
{
    size_t valid = bt_utf8_valid(text);
    if (valid < text.n) {
        return bt_fail_at(err, BT_E_FORMAT, (int64_t)valid, "it is not UTF-8 at byte %zu", valid);
    }
    for (int b = 0; b < 256; b++) {
        t->byte_id[b] = -1;
    }
    parts from = {0};
    bt_buf plain;
    bt_pull p;
    bt_json *root = NULL;
    bt_buf_init(&plain, BT_MEM_TOKEN, REST_MAX);
    bt_buf_init(&from.rest, BT_MEM_TOKEN, REST_MAX);
    bt_pull_init(&p, text, &plain, err);
    bt_status status = scan(&p, &from);
    bt_buf_deinit(&plain);
    if (status == BT_OK) {
        status = bt_json_parse_config(bt_buf_str(&from.rest), &root, err);
    }
    if (status == BT_OK) {
        status = load_parts(t, &from, root, err);
    }
    bt_json_close(root);
    bt_buf_deinit(&from.rest);
    return status;
}

bt_status bt_tokenizer_load_hf(bt_tokenizer *t, const bt_weightfile *file, bt_err *err)
{
    char path[PATH_BYTES];
    bt_mapfile json;
    const char *dir = bt_weightfile_path(file);
    if (snprintf(path, sizeof path, "%s/tokenizer.json", dir) >= PATH_BYTES) {
        return bt_fail(err, BT_E_INVALID, "%.200s…: path too long", dir);
    }
    BT_TRY(bt_mapfile_open(path, &json, err));
    bt_status status = json.n > JSON_MAX
                           ? bt_fail(err, BT_E_LIMIT, "more than %d bytes", JSON_MAX)
                           : bt_tokenizer_load_json(t, (bt_str){(const char *)json.p, json.n}, err);
    bt_mapfile_close(&json);
    if (status != BT_OK) {
        bt_err_prefix(err, "tokenizer.json");
        return status;
    }
    const bt_meta *config = bt_weightfile_tokenizer_config(file);
    t->bos = configured(t, config, "bos_token");
    t->eos = configured(t, config, "eos_token");
    return load_template(t, file, err);
}
