/* SPDX-License-Identifier: MIT
 *
 * origin.h: text that knows which of its bytes the template wrote and which came from data.
 *
 * The mark of byte 0 is `trusted`; it flips at each position of `flips` (ascending, 0 < flip < n).
 * Text is immutable to its users. What appends to a text that ends where its growable block ends
 * writes behind it in place, so that building up a long text piece by piece stays linear. */
#ifndef BT_JINJA_ORIGIN_H
#define BT_JINJA_ORIGIN_H

#include "base/buf.h"
#include "base/status.h"
#include "text/marked.h"

typedef struct bt_jctx bt_jctx;
typedef struct bt_jblock bt_jblock;

typedef struct bt_jtext {
    const char *p; /* UTF-8 */
    size_t n;
    bool trusted;
    bool markup; /* what "safe" made: "+" escapes the other operand, as markupsafe does */
    const size_t *flips;
    size_t n_flips;
    bt_jblock *block; /* growable memory that starts at p; NULL: none */
} bt_jtext;

BT_INLINE bt_str bt_jtext_bytes(const bt_jtext *t)
{
    return (bt_str){t->p, t->n};
}

/* a := a + b; keeps the markup flag of a. */
bt_status bt_jtext_append(bt_jctx *ctx, bt_jtext *a, const bt_jtext *b) BT_MUST_USE;
/* a := a + bytes with one mark. The bytes are copied. */
bt_status bt_jtext_push(bt_jctx *ctx, bt_jtext *a, bt_str bytes, bool trusted) BT_MUST_USE;
/* Bytes [from, to) of t, sharing its memory. */
bt_status bt_jtext_cut(bt_jctx *ctx, const bt_jtext *t, size_t from, size_t to,
                       bt_jtext *out) BT_MUST_USE;
/* The text itself in the arena, so that values can point to it. */
bt_status bt_jtext_store(bt_jctx *ctx, const bt_jtext *t, const bt_jtext **out) BT_MUST_USE;
/* Run by run: *pos starts at 0; false at the end. */
bool bt_jtext_next_run(const bt_jtext *t, size_t *pos, bt_str *run, bool *trusted);
/* Whether the byte at `pos` came from the template; at the end: the last one. */
bool bt_jtext_trusted_at(const bt_jtext *t, size_t pos);

/* Code points. */
size_t bt_jtext_count(const bt_jtext *t);
/* Byte offset of code point idx (n at or behind the end). */
size_t bt_jtext_offset(const bt_jtext *t, size_t idx);

#endif
