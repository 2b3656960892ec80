/* SPDX-License-Identifier: MIT
 *
 * pretok.h: splits text into the pieces that are merged apart from each other.
 *
 * A splitter is a list of regular expressions, each applied inside the pieces of the one before.
 * PCRE2 with
 * JIT; \s means the White_Space property, as in the reference library. A pattern from a file is
 * hostile: its length, its match steps and its starts are bounded. Immutable after open. */
#ifndef BT_TOKEN_PRETOK_H
#define BT_TOKEN_PRETOK_H

#include "base/buf.h"
#include "base/status.h"

/* GPT-2's pattern (encoder.py), built into the ByteLevel pre-tokenizer. */
#define BT_PRETOK_GPT2                                                                             \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

enum { BT_PRETOK_PATTERNS_MAX = 8, BT_PRETOK_PATTERN_BYTES_MAX = 4096 };

typedef struct bt_pretok bt_pretok;
struct bt_pretok_pattern;

struct bt_pretok {
    int n;
    struct bt_pretok_pattern *patterns[BT_PRETOK_PATTERNS_MAX];
};

typedef struct bt_piece {
    size_t begin, end;
} bt_piece;

/* Growable list of pieces; zero-initialise. */
typedef struct bt_pieces {
    bt_piece *piece;
    size_t n, cap;
} bt_pieces;
bt_status bt_pieces_push(bt_pieces *list, size_t begin, size_t end) BT_MUST_USE;
void bt_pieces_deinit(bt_pieces *list);

/* Appends a pattern. keep_gaps: what lies between matches is a piece too ("Isolated"), else it is
 * dropped ("Removed", inverted). BT_E_UNSUPPORTED with PCRE2's words when it does not compile, or
 * naming what PCRE2 would read otherwise than the reference. */
bt_status bt_pretok_add(bt_pretok *p, bt_str pattern, bool keep_gaps, bt_err *err) BT_MUST_USE;
void bt_pretok_deinit(bt_pretok *p);

/* How far this thread's CPU clock may go while a text of n bytes is split, in all its parts. */
int64_t bt_pretok_deadline(size_t n);

/* Splits valid UTF-8 into `out` (emptied first): pieces in order; all of the text but for dropped gaps.
 * `scratch` is a second list. BT_E_LIMIT when a pattern passes the deadline. Thread-safe. */
bt_status bt_pretok_split(const bt_pretok *p, bt_str text, int64_t deadline_ns, bt_pieces *out,
                          bt_pieces *scratch, bt_err *err) BT_MUST_USE;

#endif
