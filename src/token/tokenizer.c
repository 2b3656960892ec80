/* SPDX-License-Identifier: MIT */
#include "token/tokenizer.h"

#include "token/tokimpl.h"

bt_status bt_tokenizer_open(const bt_weightfile *file, bt_tokenizer **out, bt_err *err)
{
    bt_tokenizer *t = bt_mem_calloc(BT_MEM_TOKEN, 1, sizeof *t);
    if (t == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for a tokenizer");
    }
    bt_vocab_init(&t->vocab);
    t->unk_id = t->bos = t->eos = -1;
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

bt_status bt_tokenizer_compare(const bt_tokenizer *a, const bt_tokenizer *b, bt_err *err)
{
    int32_t n = BT_MAX(a->vocab.n, b->vocab.n);
    for (int32_t id = 0; id < n; id++) {
        bt_str x = bt_tokenizer_bytes(a, id), y = bt_tokenizer_bytes(b, id);
        bool special = bt_tokenizer_is_special(a, id);
        bool in_use = x.n > 0 && y.n > 0;
        if (in_use && (!bt_str_eq(x, y) || special != bt_tokenizer_is_special(b, id))) {
            return bt_fail_at(err, BT_E_INVALID, id,
                              "id %d is \"%.*s\"%s in the target and \"%.*s\"%s in the draft",
                              (int)id, (int)BT_MIN(x.n, (size_t)60), x.p,
                              special ? " (special)" : "", (int)BT_MIN(y.n, (size_t)60), y.p,
                              bt_tokenizer_is_special(b, id) ? " (special)" : "");
        }
        /* A token that only one of them knows, ordinary and in the range of both. */
        if (!in_use && (x.n > 0 || y.n > 0) && id < BT_MIN(a->vocab.n, b->vocab.n)) {
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
