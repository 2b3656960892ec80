/* SPDX-License-Identifier: MIT
 *
 * lexer.h: template source to tokens, in the environment of the transformers library: trim_blocks
 * and lstrip_blocks on, one final newline dropped, newlines normalised. */
#ifndef BT_JINJA_LEXER_H
#define BT_JINJA_LEXER_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/status.h"

typedef enum bt_jtok_kind {
    BT_JTOK_END = 0, /* of the source */
    BT_JTOK_DATA,    /* text between tags, as it is to be printed */
    BT_JTOK_PRINT,   /* {{ */
    BT_JTOK_PRINT_END,
    BT_JTOK_BLOCK, /* {% */
    BT_JTOK_BLOCK_END,
    BT_JTOK_NAME,
    BT_JTOK_STRING, /* text: unescaped */
    BT_JTOK_INT,
    BT_JTOK_REAL,
    BT_JTOK_OP
} bt_jtok_kind;

typedef struct bt_jtok {
    bt_jtok_kind kind;
    int line;      /* from 1 */
    size_t offset; /* byte in the source with normalised newlines */
    bt_str text;   /* lives in the arena */
    int64_t i;
    double r;
} bt_jtok;

typedef struct bt_jtokens {
    bt_jtok *items; /* the last one is BT_JTOK_END */
    size_t n;
} bt_jtokens;

/* Splits the whole source. Everything is allocated from the arena, the source is not kept. Errors:
 * BT_E_FORMAT with line and offset, BT_E_NO_MEMORY. */
bt_status bt_jlexer_run(bt_str source, bt_arena *arena, bt_jtokens *out, bt_err *err) BT_MUST_USE;

#endif
