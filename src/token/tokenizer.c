/* SPDX-License-Identifier: MIT */
#include "token/tokenizer.h"

#include "token/tokimpl.h"

static bt_tokenizer *create(bt_err *err)
{
    bt_tokenizer *t = bt_mem_calloc(BT_MEM_TOKEN, 1, sizeof *t);
    if (t == NULL) {
        bt_fail(err, BT_E_NO_MEMORY, "no memory for a tokenizer");
        return NULL;
    }
    bt_vocab_init(&t->vocab);
    t->unk_id = t->bos = t->eos = -1;
    return t;
}

bt_status bt_tokenizer_open(const bt_weightfile *file, bt_tokenizer **out, bt_err *err)
{
    bt_tokenizer *t = create(err);
    if (t == NULL) {
        return BT_E_NO_MEMORY;
    }
    bt_status status = bt_weightfile_kind(file) == BT_FILE_GGUF
                           ? bt_tokenizer_load_gguf(t, file, err)
                           : bt_tokenizer_load_hf(t, file, err);
    if (status != BT_OK) {
        bt_err_prefix(err, "%s: tokenizer", bt_weightfile_path(file));
        bt_tokenizer_close(t);
        return status;
    }
    *out = t;
    return BT_OK;
}

bt_status bt_tokenizer_open_json(bt_str text, bt_tokenizer **out, bt_err *err)
{
    bt_tokenizer *t = create(err);
    bt_status status = t == NULL ? BT_E_NO_MEMORY : bt_tokenizer_load_json(t, text, err);
    if (status != BT_OK) {
        bt_tokenizer_close(t);
        return status;
    }
    *out = t;
    return BT_OK;
}

void bt_tokenizer_close(bt_tokenizer *t)
{
    if (t == NULL) {
        return;
    }
    bt_vocab_deinit(&t->vocab);
    bt_merges_deinit(&t->merges);
    bt_added_deinit(&t->added);
    bt_pretok_deinit(&t->pretok);
    bt_mem_free(t->chat_template);
    bt_mem_free(t);
}

bt_str bt_tokenizer_keep(bt_tokenizer *t, bt_str text)
{
    return (bt_str){bt_arena_dup(&t->vocab.arena, text.p, text.n), text.n};
}

void bt_tokenizer_index_bytes(bt_tokenizer *t)
{
    for (int b = 0; b < 256; b++) {
        t->byte_id[b] = -1;
        if (t->byte_level) {
            char byte = (char)b;
            t->byte_id[b] = bt_vocab_find_bytes(&t->vocab, (bt_str){&byte, 1});
        }
    }
    for (int32_t id = 0; !t->byte_level && id < t->vocab.n; id++) {
        if (t->vocab.entries[id].is_byte) {
            t->byte_id[(unsigned char)t->vocab.entries[id].bytes.p[0]] = id;
        }
    }
}

bt_status bt_tokenizer_add_merge(bt_tokenizer *t, size_t idx, bt_str left, bt_str right,
                                 bt_buf *joined, bt_err *err)
{
    bt_buf_clear(joined);
    bt_buf_push_str(joined, left);
    bt_buf_push_str(joined, right);
    bt_status status = bt_buf_ok(joined);
    if (status != BT_OK) {
        return bt_fail(err, status, "merge %zu of %zu and %zu bytes is too long", idx, left.n,
                       right.n);
    }
    int32_t a = bt_vocab_find(&t->vocab, left), b = bt_vocab_find(&t->vocab, right);
    int32_t both = bt_vocab_find(&t->vocab, bt_buf_str(joined));
    if (a < 0 || b < 0 || both < 0 || idx > INT32_MAX / 2) {
        bool whole = a >= 0 && b >= 0;
        bt_str missing = whole ? bt_buf_str(joined) : a < 0 ? left : right;
        return bt_fail_at(err, BT_E_FORMAT, (int64_t)idx,
                          "merge %zu (\"%.*s\" and \"%.*s\") needs token \"%.*s\", which is not in "
                          "the vocabulary",
                          idx, (int)BT_MIN(left.n, (size_t)60), left.p,
                          (int)BT_MIN(right.n, (size_t)60), right.p,
                          (int)BT_MIN(missing.n, (size_t)120), missing.p);
    }
    /* Text must not become a control token by merging: where it may be one, it has been cut out
     * before. */
    if (t->vocab.entries[both].is_special) {
        return BT_OK;
    }
    status = bt_merges_add(&t->merges, a, b, (int32_t)idx, both);
    return status == BT_OK ? BT_OK : bt_fail(err, status, "no memory for merge %zu", idx);
}

void bt_tokenizer_find_cuts(bt_tokenizer *t)
{
    static const bt_str mark = {"\xE2\x96\x81", 3};
    t->cut_at_mark = !t->byte_level && !t->ignore_merges && bt_vocab_find(&t->vocab, mark) >= 0;
    for (size_t i = 0; i < t->merges.cap && t->cut_at_mark; i++) {
        uint64_t pair = t->merges.slots[i].pair;
        if (pair != BT_MERGE_NONE) {
            bt_str left = t->vocab.entries[pair >> 32].written;
            bt_str right = t->vocab.entries[pair & UINT32_MAX].written;
            t->cut_at_mark = bt_str_ends(left, mark) || !bt_str_starts(right, mark);
        }
    }
}

bt_status bt_tokenizer_set_template(bt_tokenizer *t, bt_str text, bt_err *err)
{
    bt_mem_free(t->chat_template);
    t->n_chat_template = 0;
    t->chat_template = bt_mem_dup(BT_MEM_TOKEN, text.p, text.n);
    if (t->chat_template == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for the chat template");
    }
    t->n_chat_template = text.n;
    return BT_OK;
}

int32_t bt_tokenizer_count(const bt_tokenizer *t)
{
    return t->vocab.n;
}

bt_str bt_tokenizer_bytes(const bt_tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->vocab.n ? t->vocab.entries[id].bytes : (bt_str){"", 0};
}

bool bt_tokenizer_is_special(const bt_tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->vocab.n && t->vocab.entries[id].is_special;
}

int32_t bt_tokenizer_find(const bt_tokenizer *t, bt_str written)
{
    return bt_vocab_find(&t->vocab, written);
}

int32_t bt_tokenizer_bos(const bt_tokenizer *t)
{
    return t->bos;
}

int32_t bt_tokenizer_eos(const bt_tokenizer *t)
{
    return t->eos;
}

int bt_tokenizer_extra_eos(const bt_tokenizer *t, int32_t ids[8])
{
    for (int i = 0; i < t->n_extra_eos; i++) {
        ids[i] = t->extra_eos[i];
    }
    return t->n_extra_eos;
}

size_t bt_tokenizer_bytes_max(const bt_tokenizer *t)
{
    return t->vocab.bytes_max;
}

bt_str bt_tokenizer_chat_template(const bt_tokenizer *t)
{
    return (bt_str){t->chat_template, t->n_chat_template};
}

static bt_str written(const bt_tokenizer *t, int32_t id)
{
    return id < 0 ? (bt_str){"", 0} : t->vocab.entries[id].written;
}

bt_str bt_tokenizer_bos_text(const bt_tokenizer *t)
{
    return written(t, t->bos);
}

bt_str bt_tokenizer_eos_text(const bt_tokenizer *t)
{
    return written(t, t->eos);
}

/* Whether a control token's name says that nothing uses it. */
static bool is_placeholder(const bt_tokenizer *t, int32_t id)
{
    static const char *const words[] = {"reserved", "unused", "pad", "PAD"};
    const bt_vocab_entry *e = &t->vocab.entries[id];
    bool found = false;
    for (size_t i = 0; i < BT_COUNT(words) && e->is_special && !found; i++) {
        found = bt_str_find(e->written, bt_str_of(words[i]), 0) >= 0;
    }
    return found;
}

static bool in_use(const bt_tokenizer *t, int32_t id)
{
    const bt_vocab_entry *e = &t->vocab.entries[id];
    return e->written.n > 0 && !e->is_unused;
}

bt_status bt_tokenizer_compare(const bt_tokenizer *a, const bt_tokenizer *b, bt_err *err)
{
    for (int32_t id = 0; id < BT_MIN(a->vocab.n, b->vocab.n); id++) {
        if (!in_use(a, id) || !in_use(b, id)) {
            continue;
        }
        bt_str x = bt_tokenizer_bytes(a, id), y = bt_tokenizer_bytes(b, id);
        bool special = bt_tokenizer_is_special(a, id) || bt_tokenizer_is_special(b, id);
        bool spare = special && (is_placeholder(a, id) || is_placeholder(b, id));
        if (!bt_str_eq(x, y) && !spare) {
            return bt_fail_at(err, BT_E_INVALID, id,
                              "id %d is \"%.*s\" in the target and \"%.*s\" in the draft", (int)id,
                              (int)BT_MIN(x.n, (size_t)60), x.p, (int)BT_MIN(y.n, (size_t)60), y.p);
        }
    }
    return BT_OK;
}

bt_status bt_ids_push(bt_ids *ids, int32_t id)
{
    if (ids->n == ids->cap) {
        size_t cap = ids->cap == 0 ? 64 : 2 * ids->cap;
        int32_t *grown = bt_mem_realloc(BT_MEM_TOKEN, ids->id, cap, sizeof *grown);
        if (grown == NULL) {
            return BT_E_NO_MEMORY;
        }
        ids->id = grown;
        ids->cap = cap;
    }
    ids->id[ids->n++] = id;
    return BT_OK;
}

void bt_ids_deinit(bt_ids *ids)
{
    bt_mem_free(ids->id);
    *ids = (bt_ids){0};
}
