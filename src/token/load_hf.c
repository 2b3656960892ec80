/* SPDX-License-Identifier: MIT
 *
 * tokenizer.json, the serialised form of the Hugging Face tokenizers library, and what
 * tokenizer_config.json adds to it. Only what is read here is supported; anything else that would
 * change ids is refused by its name. */
#include "token/hfparts.h"

#include "base/mapfile.h"

#include <stdio.h>
#include <string.h>

enum { JSON_MAX = 256 << 20, PATH_BYTES = 4096, SLACK_IDS = 1 << 16 };

static bt_status load_vocab(bt_tokenizer *t, const bt_json *vocab, int64_t id_max, bt_err *err)
{
    void *iter = NULL;
    bt_str token;
    const bt_json *id;
    if (vocab == NULL || bt_json_kind_of(vocab) != BT_JSON_OBJECT) {
        return bt_fail(err, BT_E_FORMAT, "model.vocab must be an object");
    }
    size_t n = bt_json_count(vocab);
    if (!bt_map_reserve(&t->vocab.by_written, n) || !bt_map_reserve(&t->vocab.by_bytes, n)) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for %zu tokens", n);
    }
    while (bt_json_next(vocab, &iter, &token, &id)) {
        if (bt_json_kind_of(id) != BT_JSON_INT) {
            return bt_fail(err, BT_E_FORMAT, "the id of token \"%.*s\" is not a whole number",
                           (int)BT_MIN(token.n, (size_t)60), token.p);
        }
        BT_TRY(bt_vocab_set(&t->vocab, bt_json_int(id), token, id_max, err));
    }
    return BT_OK;
}

/* "a b" or ["a", "b"]. */
static bool split_merge(const bt_json *merge, bt_str *left, bt_str *right)
{
    if (bt_json_kind_of(merge) == BT_JSON_ARRAY && bt_json_count(merge) == 2 &&
        bt_json_kind_of(bt_json_at(merge, 0)) == BT_JSON_STRING &&
        bt_json_kind_of(bt_json_at(merge, 1)) == BT_JSON_STRING) {
        *left = bt_json_str(bt_json_at(merge, 0));
        *right = bt_json_str(bt_json_at(merge, 1));
        return true;
    }
    if (bt_json_kind_of(merge) != BT_JSON_STRING) {
        return false;
    }
    bt_str both = bt_json_str(merge);
    int64_t blank = both.n > 1 ? bt_str_find(both, BT_STR(" "), 1) : -1;
    if (blank < 0) {
        return false;
    }
    *left = (bt_str){both.p, (size_t)blank};
    *right = (bt_str){both.p + blank + 1, both.n - (size_t)blank - 1};
    return true;
}

static bt_status load_merges(bt_tokenizer *t, const bt_json *merges, bt_err *err)
{
    if (merges == NULL || bt_json_kind_of(merges) != BT_JSON_ARRAY) {
        return bt_fail(err, BT_E_FORMAT, "model.merges must be a list");
    }
    size_t n = bt_json_count(merges);
    BT_TRY(bt_merges_reserve(&t->merges, n, err));
    bt_buf joined;
    bt_buf_init(&joined, BT_MEM_TOKEN, 1 << 20);
    bt_status status = BT_OK;
    for (size_t i = 0; i < n && status == BT_OK; i++) {
        bt_str left = {0}, right = {0};
        bool shape = split_merge(bt_json_at(merges, i), &left, &right);
        bt_buf_clear(&joined);
        bt_buf_push_str(&joined, left);
        bt_buf_push_str(&joined, right);
        int32_t a = bt_vocab_find(&t->vocab, left), b = bt_vocab_find(&t->vocab, right);
        int32_t both = bt_vocab_find(&t->vocab, bt_buf_str(&joined));
        if (bt_buf_ok(&joined) != BT_OK) {
            status = bt_fail(err, BT_E_NO_MEMORY, "no memory for merge %zu", i);
        } else if (!shape || a < 0 || b < 0 || both < 0) {
            status = bt_fail_at(err, BT_E_FORMAT, (int64_t)i,
                                "merge %zu (\"%.*s\" and \"%.*s\") names a token that is not in "
                                "the vocabulary",
                                i, (int)BT_MIN(left.n, (size_t)60), left.p,
                                (int)BT_MIN(right.n, (size_t)60), right.p);
        } else if (!t->vocab.entries[both].is_special) {
            /* Text must not become a control token by merging: where it may be one, it has been cut
             * out before. */
            bt_merges_add(&t->merges, a, b, (int32_t)i, both);
        }
    }
    bt_buf_deinit(&joined);
    return status;
}

static bt_status load_model(bt_tokenizer *t, const bt_json *root, bt_err *err)
{
    const bt_json *model = bt_hf_object(root, "model");
    if (model == NULL) {
        return bt_fail(err, BT_E_FORMAT, "no \"model\" object");
    }
    bt_str type = bt_hf_text(model, "type"); /* absent in old files: BPE by its merges */
    if (!(bt_str_eqz(type, "BPE") || (type.n == 0 && bt_json_get(model, "merges") != NULL))) {
        return bt_fail(err, BT_E_UNSUPPORTED, "model type \"%.*s\" is not supported (BPE is)",
                       (int)BT_MIN(type.n, (size_t)40), type.p);
    }
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < BT_COUNT(affixes); i++) {
        if (bt_hf_text(model, affixes[i]).n > 0) {
            return bt_fail(err, BT_E_UNSUPPORTED, "model.%s is not supported", affixes[i]);
        }
    }
    const bt_json *vocab = bt_json_get(model, "vocab"), *added = bt_json_get(root, "added_tokens");
    int64_t id_max = SLACK_IDS;
    id_max += vocab != NULL && bt_json_kind_of(vocab) == BT_JSON_OBJECT
                  ? 2 * (int64_t)bt_json_count(vocab)
                  : 0;
    id_max += added != NULL && bt_json_kind_of(added) == BT_JSON_ARRAY
                  ? 2 * (int64_t)bt_json_count(added)
                  : 0;
    BT_TRY(load_vocab(t, vocab, id_max, err));
    BT_TRY(bt_hf_load_added(t, added, id_max, err));
    BT_TRY(load_merges(t, bt_json_get(model, "merges"), err));
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

static bt_status load_parts(bt_tokenizer *t, const bt_json *root, bt_err *err)
{
    BT_TRY(load_model(t, root, err));
    BT_TRY(bt_hf_load_normalizer(t, bt_json_get(root, "normalizer"), err));
    BT_TRY(bt_hf_index_added(t, err));
    BT_TRY(bt_hf_load_pretok(t, bt_json_get(root, "pre_tokenizer"), err));
    BT_TRY(bt_hf_load_decoder(t, bt_json_get(root, "decoder"), err));
    BT_TRY(t->byte_level ? bt_vocab_decode_byte_level(&t->vocab, err)
                         : bt_vocab_decode_sentencepiece(&t->vocab, err));
    if (t->byte_level || t->byte_fallback) {
        bt_tokenizer_index_bytes(t);
    }
    bt_tokenizer_find_cuts(t);
    return bt_hf_load_post(t, bt_json_get(root, "post_processor"), err);
}

bt_status bt_tokenizer_load_hf(bt_tokenizer *t, const bt_weightfile *file, bt_err *err)
{
    bt_json *root = NULL;
    for (int b = 0; b < 256; b++) {
        t->byte_id[b] = -1;
    }
    BT_TRY(bt_hf_read_json(bt_weightfile_path(file), "tokenizer.json", &root, err));
    bt_status status = load_parts(t, root, err);
    bt_json_close(root);
    BT_TRY(status);
    const bt_meta *config = bt_weightfile_tokenizer_config(file);
    t->bos = configured(t, config, "bos_token");
    t->eos = configured(t, config, "eos_token");
    return load_template(t, file, err);
}
