/* SPDX-License-Identifier: MIT
 *
 * tokenizer.h: text to token ids and back, as the checkpoint's own library does it.
 *
 * Read from tokenizer.json (the format of Hugging Face tokenizers) or from a GGUF vocabulary.
 * Immutable after opening: several threads may encode and decode. */
#ifndef BT_TOKEN_TOKENIZER_H
#define BT_TOKEN_TOKENIZER_H

#include "file/weightfile.h"
#include "text/marked.h"

typedef struct bt_tokenizer bt_tokenizer;

/* Reads the tokenizer of an open checkpoint: HF directory: tokenizer.json (required) and
 * tokenizer_config.json; GGUF: tokenizer.ggml.*. What it does not know (a model type, a normalizer,
 * a pre-tokenizer name …) is an error that names it. The tokenizer keeps no reference to the file.
 * Returns owned. */
bt_status bt_tokenizer_open(const bt_weightfile *file, bt_tokenizer **out, bt_err *err) BT_MUST_USE;
void bt_tokenizer_close(bt_tokenizer *tok); /* NULL is allowed */

/* Growable list of ids. */
typedef struct bt_ids {
    int32_t *id;
    size_t n, cap;
} bt_ids;
bt_status bt_ids_push(bt_ids *ids, int32_t id) BT_MUST_USE;
void bt_ids_deinit(bt_ids *ids);

typedef struct bt_encode_args {
    bt_str text;        /* valid UTF-8 (checked: BT_E_INVALID with the byte offset) */
    const bt_run *runs; /* NULL: all of it trusted as n_runs = 0 says below */
    size_t n_runs;
    bool parse_special; /* without runs: recognise special tokens written in the text */
    bool add_special;   /* what the post-processor adds (BOS …), as add_special_tokens=True */
} bt_encode_args;

/* Appends the ids of a text. Linear time in the text's length for any input; BT_E_LIMIT when a
 * hostile pattern exceeds its budget. Thread-safe. */
bt_status bt_tokenizer_encode(const bt_tokenizer *tok, const bt_encode_args *args, bt_ids *ids,
                              bt_err *err) BT_MUST_USE;

/* Ids are 0 … count-1; all of them (added tokens included) have bytes or are holes (empty bytes). */
int32_t bt_tokenizer_count(const bt_tokenizer *tok);
/* The bytes that an id decodes to (byte-level and byte-fallback mapping undone, "▁" as a space);
 * for control tokens their written form. Empty for ids out of range. Borrowed. */
bt_str bt_tokenizer_bytes(const bt_tokenizer *tok, int32_t id);
/* Control tokens: left out of decoded text. */
bool bt_tokenizer_is_special(const bt_tokenizer *tok, int32_t id);
/* The id of a token written exactly so ("<|im_end|>"), -1 when there is none. */
int32_t bt_tokenizer_find(const bt_tokenizer *tok, bt_str written);
/* -1 where the checkpoint names none. */
int32_t bt_tokenizer_bos(const bt_tokenizer *tok);
int32_t bt_tokenizer_eos(const bt_tokenizer *tok);
/* Further end-of-turn ids that the vocabulary itself names (GGUF eot/eom ids); returns how many. */
int bt_tokenizer_extra_eos(const bt_tokenizer *tok, int32_t ids[8]);
/* Longest byte string of one token. */
size_t bt_tokenizer_bytes_max(const bt_tokenizer *tok);

/* The chat template that came with the checkpoint (chat_template.jinja, tokenizer_config.json — a
 * string, or the "default" of a list —, GGUF tokenizer.chat_template); empty when there is none. */
bt_str bt_tokenizer_chat_template(const bt_tokenizer *tok);
/* bos_token and eos_token as written, for templates; empty when there is none. */
bt_str bt_tokenizer_bos_text(const bt_tokenizer *tok);
bt_str bt_tokenizer_eos_text(const bt_tokenizer *tok);

/* Whether two tokenizers give the same id to the same bytes, for all ids that both know and use. Flags
 * (BOS, special), ids that only one knows, ids that the file declares unused, and control tokens whose
 * name says so (reserved, unused, pad) do not matter. BT_E_INVALID names the first id that differs and
 * both texts. */
bt_status bt_tokenizer_compare(const bt_tokenizer *target, const bt_tokenizer *draft,
                               bt_err *err) BT_MUST_USE;

/* Incremental decoder of one answer: no allocation after init, never half a character. */
typedef struct bt_detok {
    const bt_tokenizer *tok;
    char held[4]; /* bytes of an unfinished character */
    uint8_t n_held;
    bool at_start; /* a leading blank is still to be stripped (SentencePiece decoders) */
} bt_detok;

/* at_start: true for a whole text (as decode(ids)); false for an answer that continues a prompt,
 * whose first token keeps its blank. */
void bt_detok_init(bt_detok *d, const bt_tokenizer *tok, bool at_start);
/* Writes the text that token `id` completes; special tokens give nothing when skip_special.
 * out must have room for bt_tokenizer_bytes_max() * 3 + 16 bytes (each invalid byte may become
 * U+FFFD). Returns how many bytes were written. The bytes of all pushes and the flush joined are
 * valid UTF-8 and equal the library's decode of all ids, but for one thing: where a run of byte
 * tokens (<0xE4> …) holds a stray byte, the library turns the whole run into U+FFFD; here the run's
 * whole characters stay, for they have been sent already. */
size_t bt_detok_push(bt_detok *d, int32_t id, bool skip_special, char *out);
/* What is still held, as U+FFFD. */
size_t bt_detok_flush(bt_detok *d, char *out);

#endif
