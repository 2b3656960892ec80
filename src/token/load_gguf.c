/* SPDX-License-Identifier: MIT
 *
 * Vocabularies inside GGUF files: tokenizer.ggml.model "gpt2" (byte-level BPE; the pre-tokenizer is
 * named by tokenizer.ggml.pre) and "llama" (SentencePiece BPE with scores). Keys and token types as
 * in docs/gguf.md of the ggml repository; patterns as the models' own tokenizer.json files have
 * them. */
#include "token/tokimpl.h"

#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

/* llama.cpp's token types. */
enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER, TYPE_UNUSED, TYPE_BYTE };

static const char llama3_pattern[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char qwen2_pattern[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static const struct {
    const char *name;
    const char *patterns[2];
    bool nfc, ignore_merges;
} pretokenizers[] = {
    {"default", {BT_PRETOK_GPT2}, false, false},
    {"gpt-2", {BT_PRETOK_GPT2}, false, false},
    {"smollm", {"\\p{N}", BT_PRETOK_GPT2}, false, false},
    {"starcoder", {"\\p{N}", BT_PRETOK_GPT2}, false, false},
    {"llama-bpe", {llama3_pattern}, false, true},
    {"llama3", {llama3_pattern}, false, true},
    {"qwen2", {qwen2_pattern}, true, false},
    {"deepseek-r1-qwen", {qwen2_pattern}, true, false},
};

static bt_status get_array(const bt_meta *m, const char *key, bt_meta_kind kind, size_t n,
                           bt_meta_value *out, bt_err *err)
{
    bt_meta_value first;
    if (!bt_meta_get(m, key, out) || out->kind != BT_META_ARRAY || (n > 0 && out->n != n)) {
        return bt_fail(err, BT_E_FORMAT, "\"%s\" must be an array of %zu elements", key, n);
    }
    if (out->n > 0 && (!bt_meta_at(out, 0, &first) || first.kind != kind)) {
        return bt_fail(err, BT_E_FORMAT, "\"%s\" has elements of a wrong type", key);
    }
    return BT_OK;
}

static bt_status load_tokens(bt_tokenizer *t, const bt_meta *m, bt_err *err)
{
    bt_meta_value tokens, types = {0}, item;
    BT_TRY(get_array(m, "tokenizer.ggml.tokens", BT_META_STRING, 0, &tokens, err));
    if (bt_meta_get(m, "tokenizer.ggml.token_type", &types)) {
        BT_TRY(get_array(m, "tokenizer.ggml.token_type", BT_META_INT, tokens.n, &types, err));
    }
    if (!bt_map_reserve(&t->vocab.by_written, tokens.n) ||
        !bt_map_reserve(&t->vocab.by_bytes, tokens.n)) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for %zu tokens", tokens.n);
    }
    for (size_t i = 0; i < tokens.n; i++) {
        bt_meta_at(&tokens, i, &item);
        if (item.s.n == 0) {
            continue; /* a hole */
        }
        BT_TRY(bt_vocab_set(&t->vocab, (int64_t)i, item.s, (int64_t)tokens.n, err));
        int64_t type = TYPE_NORMAL;
        if (types.kind == BT_META_ARRAY && bt_meta_at(&types, i, &item)) {
            type = item.i;
        }
        bt_vocab_entry *e = &t->vocab.entries[i];
        e->is_special = type == TYPE_CONTROL;
        e->is_unused = type == TYPE_UNUSED;
        e->is_added = type == TYPE_CONTROL || type == TYPE_USER;
        if (e->is_added) {
            bt_added added = {
                .text = e->written, .id = (int32_t)i, .special = type == TYPE_CONTROL};
            BT_TRY(bt_added_push(&t->added, &added, err));
        }
    }
    bt_added_sort(&t->added);
    return BT_OK;
}

static bt_status load_merges(bt_tokenizer *t, const bt_meta *m, bt_err *err)
{
    bt_meta_value merges, item;
    BT_TRY(get_array(m, "tokenizer.ggml.merges", BT_META_STRING, 0, &merges, err));
    if (bt_merges_reserve(&t->merges, merges.n) != BT_OK) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for %zu merges", merges.n);
    }
    bt_buf joined;
    bt_buf_init(&joined, BT_MEM_TOKEN, 1 << 20);
    bt_status status = BT_OK;
    for (size_t i = 0; i < merges.n && status == BT_OK; i++) {
        bt_meta_at(&merges, i, &item);
        int64_t blank = item.s.n > 1 ? bt_str_find(item.s, BT_STR(" "), 1) : -1;
        bt_str left = {item.s.p, blank < 0 ? item.s.n : (size_t)blank};
        bt_str right = {item.s.p + left.n + 1, blank < 0 ? 0 : item.s.n - left.n - 1};
        status = bt_tokenizer_add_merge(t, i, left, right, &joined, err);
    }
    bt_buf_deinit(&joined);
    return status;
}

static bt_status load_pretok(bt_tokenizer *t, const bt_meta *m, bt_err *err)
{
    bt_meta_value v;
    bt_str name = BT_STR("default");
    if (bt_meta_get(m, "tokenizer.ggml.pre", &v) && v.kind == BT_META_STRING) {
        name = v.s;
    }
    for (size_t i = 0; i < BT_COUNT(pretokenizers); i++) {
        if (!bt_str_eqz(name, pretokenizers[i].name)) {
            continue;
        }
        for (int k = 0; k < 2 && pretokenizers[i].patterns[k] != NULL; k++) {
            BT_TRY(bt_pretok_add(&t->pretok, bt_str_of(pretokenizers[i].patterns[k]), true, err));
        }
        if (pretokenizers[i].nfc) {
            t->norm[t->n_norm++] = (bt_norm_step){.kind = BT_NORM_NFC};
        }
        t->ignore_merges = pretokenizers[i].ignore_merges;
        return BT_OK;
    }
    return bt_fail(err, BT_E_UNSUPPORTED, "tokenizer.ggml.pre \"%.*s\" is not supported",
                   (int)BT_MIN(name.n, (size_t)60), name.p);
}

/* A token's ways to be cut are tried one by one, in time that grows with the square of its bytes. */
enum { CUT_BYTES_MAX = 1024 };

typedef struct scored {
    float score;
    int32_t id;
} scored;

static int by_score(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    if (x->score > y->score || x->score < y->score) {
        return x->score > y->score ? -1 : 1;
    }
    return x->id < y->id ? -1 : x->id > y->id;
}

/* SentencePiece merges the pair whose joined token scores best: each way to cut a token into two
 * tokens is a merge with the rank of its score. */
static bt_status merges_from_scores(bt_tokenizer *t, const bt_meta *m, bt_err *err)
{
    bt_meta_value scores, item;
    size_t n = (size_t)t->vocab.n, n_cuts = 0;
    BT_TRY(get_array(m, "tokenizer.ggml.scores", BT_META_REAL, 0, &scores, err));
    scored *order = bt_mem_calloc(BT_MEM_TOKEN, n + 1, sizeof *order);
    if (order == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for %zu scores", n);
    }
    for (size_t i = 0; i < n; i++) {
        bool has = bt_meta_at(&scores, i, &item);
        order[i] = (scored){has ? (float)item.f : 0.0f, (int32_t)i};
        n_cuts += t->vocab.entries[i].written.n;
    }
    qsort(order, n, sizeof *order, by_score);
    bt_status status = bt_merges_reserve(&t->merges, BT_MIN(n_cuts, 4 * n));
    int32_t rank = -1;
    for (size_t i = 0; i < n && status == BT_OK; i++) {
        rank +=
            i == 0 || order[i].score < order[i - 1].score || order[i].score > order[i - 1].score;
        const bt_vocab_entry *e = &t->vocab.entries[order[i].id];
        size_t n_bytes = e->is_added ? 0 : e->written.n;
        if (n_bytes > CUT_BYTES_MAX) {
            status = bt_fail(err, BT_E_LIMIT, "token %d has %zu bytes; %d are the most",
                             (int)order[i].id, n_bytes, CUT_BYTES_MAX);
            bt_mem_free(order);
            return status;
        }
        for (size_t cut = 1; cut < n_bytes && status == BT_OK; cut++) {
            if (((unsigned char)e->written.p[cut] & 0xC0) == 0x80) {
                continue;
            }
            int32_t a = bt_vocab_find(&t->vocab, (bt_str){e->written.p, cut});
            int32_t b = bt_vocab_find(&t->vocab, (bt_str){e->written.p + cut, e->written.n - cut});
            if (a >= 0 && b >= 0) {
                status = bt_merges_add(&t->merges, a, b, rank, order[i].id);
            }
        }
    }
    bt_mem_free(order);
    return status == BT_OK ? BT_OK : bt_fail(err, status, "no memory for the merges");
}

static bt_status load_sentencepiece(bt_tokenizer *t, const bt_meta *m, bt_err *err)
{
    static const bt_str mark = {"\xE2\x96\x81", 3};
    bt_meta_value v;
    bool prefix = true;
    if (bt_meta_get(m, "tokenizer.ggml.add_space_prefix", &v) && v.kind == BT_META_BOOL) {
        prefix = v.b;
    }
    if (prefix) {
        t->norm[t->n_norm++] = (bt_norm_step){.kind = BT_NORM_PREPEND, .to = mark};
        t->strip_start = true;
    }
    t->norm[t->n_norm++] = (bt_norm_step){.kind = BT_NORM_REPLACE, .from = BT_STR(" "), .to = mark};
    t->fuse_unk = true;
    t->each_byte = true;
    BT_TRY(bt_vocab_decode_sentencepiece(&t->vocab, err));
    return merges_from_scores(t, m, err);
}

static bt_status load_id(const bt_tokenizer *t, const bt_meta *m, const char *key, int32_t *out,
                         bt_err *err)
{
    bt_meta_value v;
    if (!bt_meta_get(m, key, &v)) {
        return BT_OK;
    }
    if (v.kind != BT_META_INT || v.i < 0 || v.i >= t->vocab.n) {
        return bt_fail(err, BT_E_FORMAT, "\"%s\" is no id of the vocabulary", key);
    }
    *out = (int32_t)v.i;
    return BT_OK;
}

static bool flag(const bt_meta *m, const char *key, bool otherwise)
{
    bt_meta_value v;
    return bt_meta_get(m, key, &v) && v.kind == BT_META_BOOL ? v.b : otherwise;
}

static bt_status load_special(bt_tokenizer *t, const bt_meta *m, bool sentencepiece, bt_err *err)
{
    static const char *const ends[] = {"tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    BT_TRY(load_id(t, m, "tokenizer.ggml.bos_token_id", &t->bos, err));
    BT_TRY(load_id(t, m, "tokenizer.ggml.eos_token_id", &t->eos, err));
    /* Byte-level vocabularies drop a byte they lack: the id, often that of <|endoftext|>, comes from
     * the tokenizer's configuration, not from its model. */
    int32_t unk = -1;
    BT_TRY(load_id(t, m, "tokenizer.ggml.unknown_token_id", &unk, err));
    t->unk_id = sentencepiece ? unk : -1;
    for (size_t i = 0; i < BT_COUNT(ends); i++) {
        int32_t id = -1;
        BT_TRY(load_id(t, m, ends[i], &id, err));
        if (id >= 0) {
            t->extra_eos[t->n_extra_eos++] = id;
        }
    }
    bool bos = flag(m, "tokenizer.ggml.add_bos_token", sentencepiece || t->ignore_merges);
    if (bos && t->bos >= 0) {
        t->before[t->n_before++] = t->bos;
    }
    if (flag(m, "tokenizer.ggml.add_eos_token", false) && t->eos >= 0) {
        t->after[t->n_after++] = t->eos;
    }
    bt_meta_value v;
    if (bt_meta_get(m, "tokenizer.chat_template", &v) && v.kind == BT_META_STRING) {
        return bt_tokenizer_set_template(t, v.s, err);
    }
    return BT_OK;
}

bt_status bt_tokenizer_load_gguf(bt_tokenizer *t, const bt_weightfile *file, bt_err *err)
{
    const bt_meta *m = bt_weightfile_config(file);
    bt_meta_value v;
    if (!bt_meta_get(m, "tokenizer.ggml.model", &v) || v.kind != BT_META_STRING) {
        return bt_fail(err, BT_E_FORMAT, "the metadata lack \"tokenizer.ggml.model\"");
    }
    t->byte_level = bt_str_eqz(v.s, "gpt2");
    if (!t->byte_level && !bt_str_eqz(v.s, "llama")) {
        return bt_fail(err, BT_E_UNSUPPORTED, "tokenizer.ggml.model \"%.*s\" is not supported",
                       (int)BT_MIN(v.s.n, (size_t)60), v.s.p);
    }
    BT_TRY(load_tokens(t, m, err));
    if (t->byte_level) {
        BT_TRY(load_pretok(t, m, err));
        BT_TRY(bt_vocab_decode_byte_level(&t->vocab, err));
        BT_TRY(load_merges(t, m, err));
    } else {
        BT_TRY(load_sentencepiece(t, m, err));
    }
    bt_tokenizer_index_bytes(t);
    bt_tokenizer_find_cuts(t);
    return load_special(t, m, !t->byte_level, err);
}
