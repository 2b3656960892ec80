/* SPDX-License-Identifier: MIT
 *
 * vocab.h: ids, the text they are written as, the bytes they stand for, and which are special. */
#ifndef BT_TOKEN_VOCAB_H
#define BT_TOKEN_VOCAB_H

#include "base/arena.h"
#include "base/map.h"
#include "base/status.h"

enum { BT_VOCAB_MAX = 1 << 22 };

typedef struct bt_vocab_entry {
    bt_str written;  /* as in the file: byte-level letters, "▁", "<0x0A>", "<|im_end|>" */
    bt_str bytes;    /* what it decodes to */
    bool is_special; /* left out of decoded text */
    bool is_added;
    bool is_unused; /* declared so by the file */
    bool is_byte;   /* <0xNN> of a byte-fallback vocabulary */
} bt_vocab_entry;

typedef struct bt_vocab {
    bt_vocab_entry *entries; /* [n]; holes have empty strings */
    int32_t n, cap;
    bt_map by_written; /* text → id */
    bt_map by_bytes;   /* bytes → id, ordinary tokens only */
    bt_arena arena;
    size_t bytes_max;
} bt_vocab;

void bt_vocab_init(bt_vocab *v);
void bt_vocab_deinit(bt_vocab *v);
/* Sets an id (text is copied). `id_max` bounds ids: a small file cannot name huge ones. The text may
 * be there already with the same id; with another one it is BT_E_FORMAT. */
bt_status bt_vocab_set(bt_vocab *v, int64_t id, bt_str written, int64_t id_max,
                       bt_err *err) BT_MUST_USE;
/* -1 when absent. */
int32_t bt_vocab_find(const bt_vocab *v, bt_str written);
int32_t bt_vocab_find_bytes(const bt_vocab *v, bt_str bytes);

/* Fill `bytes` of all entries that have none: letters of the byte-level alphabet back to bytes, or
 * "▁" to a blank and <0xNN> to a byte; added tokens stand for themselves. */
bt_status bt_vocab_decode_byte_level(bt_vocab *v, bt_err *err) BT_MUST_USE;
bt_status bt_vocab_decode_sentencepiece(bt_vocab *v, bt_err *err) BT_MUST_USE;

/* Lets one token decode to `text`, with "▁" as a blank. */
bt_status bt_vocab_decode_marks(bt_vocab *v, int32_t id, bt_str text) BT_MUST_USE;

/* The letter of GPT-2's byte-level alphabet for a byte: itself where printable, else U+0100 + n. */
uint32_t bt_byte_letter(uint8_t byte);
/* -1 when the code point is no letter of the alphabet. */
int bt_letter_byte(uint32_t code_point);

#endif
