/* SPDX-License-Identifier: MIT
 *
 * tokimpl.h: the inside of bt_tokenizer, for the loaders, the encoder and the decoder. */
#ifndef BT_TOKEN_TOKIMPL_H
#define BT_TOKEN_TOKIMPL_H

#include "token/added.h"
#include "token/bpe.h"
#include "token/pretok.h"
#include "token/tokenizer.h"
#include "token/vocab.h"

typedef enum bt_norm_kind { BT_NORM_NFC, BT_NORM_PREPEND, BT_NORM_REPLACE } bt_norm_kind;

typedef struct bt_norm_step {
    bt_norm_kind kind;
    bt_str from, to; /* in the vocabulary's arena; PREPEND uses `to` */
} bt_norm_step;

enum { BT_NORM_STEPS_MAX = 8, BT_POST_IDS_MAX = 8 };

struct bt_tokenizer {
    bt_vocab vocab;
    bt_merges merges;
    bt_added_list added;

    bt_norm_step norm[BT_NORM_STEPS_MAX];
    int n_norm;
    bt_pretok pretok;
    bool add_prefix_space; /* ByteLevel: a blank before text that has none */

    bool byte_level;    /* symbols are bytes; else characters with byte fallback */
    bool ignore_merges; /* a piece that is a token is that token */
    bool fuse_unk, byte_fallback;
    bool cut_at_mark;     /* no merge joins anything with a "▁" behind it */
    int32_t unk_id;       /* -1: unknown characters vanish */
    int32_t byte_id[256]; /* token of each byte, -1: none */

    int32_t before[BT_POST_IDS_MAX], after[BT_POST_IDS_MAX]; /* add_special */
    int n_before, n_after;

    bool each_byte;   /* byte-fallback decoder: a U+FFFD for each stray byte */
    bool strip_start; /* the decoder drops the first blank of a text */
    int32_t bos, eos;
    int32_t extra_eos[8];
    int n_extra_eos;
    char *chat_template;
    size_t n_chat_template;
};

bt_status bt_tokenizer_load_hf(bt_tokenizer *t, const bt_weightfile *file, bt_err *err) BT_MUST_USE;
/* The text of a tokenizer.json. */
bt_status bt_tokenizer_load_json(bt_tokenizer *t, bt_str text, bt_err *err) BT_MUST_USE;
/* A tokenizer of nothing else: for tests. Returns owned. */
bt_status bt_tokenizer_open_json(bt_str text, bt_tokenizer **out, bt_err *err) BT_MUST_USE;
bt_status bt_tokenizer_load_gguf(bt_tokenizer *t, const bt_weightfile *file,
                                 bt_err *err) BT_MUST_USE;

/* A copy in the vocabulary's arena; p NULL when memory is out. */
bt_str bt_tokenizer_keep(bt_tokenizer *t, bt_str text);
/* Adds merge number `idx`, written as two tokens; BT_E_FORMAT naming them when the vocabulary lacks
 * one or the two joined. `joined` is scratch. */
bt_status bt_tokenizer_add_merge(bt_tokenizer *t, size_t idx, bt_str left, bt_str right,
                                 bt_buf *joined, bt_err *err) BT_MUST_USE;
/* The text as the normalizers change it: borrowed from `text` or `work`, until the next call. */
bt_status bt_tokenizer_normalise(const bt_tokenizer *t, bt_str text, bt_buf work[2],
                                 bt_str *out) BT_MUST_USE;
/* Fills byte_id once the vocabulary is decoded. */
void bt_tokenizer_index_bytes(bt_tokenizer *t);
/* Sets cut_at_mark once vocabulary and merges are there. */
void bt_tokenizer_find_cuts(bt_tokenizer *t);
/* Takes a copy of the template's text. */
bt_status bt_tokenizer_set_template(bt_tokenizer *t, bt_str text, bt_err *err) BT_MUST_USE;

#endif
