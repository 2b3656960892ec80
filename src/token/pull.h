/* SPDX-License-Identifier: MIT
 *
 * pull.h: reads JSON (RFC 8259) from front to back without building a tree.
 *
 * For tokenizer.json, whose vocabulary and merges are hundreds of thousands of short strings: four
 * times faster than a tree, and keys may hold NUL, which jansson refuses. The caller has checked that
 * the text is UTF-8. Every error is BT_E_FORMAT with the byte offset. */
#ifndef BT_TOKEN_PULL_H
#define BT_TOKEN_PULL_H

#include "base/buf.h"
#include "base/status.h"

enum { BT_PULL_DEPTH_MAX = 64 };

typedef struct bt_pull {
    bt_str text;
    size_t at;
    bt_err *err;
    bt_buf *plain; /* strings with escapes are unescaped here */
} bt_pull;

/* plain: an empty buffer of the caller's. */
void bt_pull_init(bt_pull *p, bt_str text, bt_buf *plain, bt_err *err);

/* The first character of the next value, '\0' at the end. */
char bt_pull_peek(bt_pull *p);
/* Enters an object ('{') or array ('['). */
bt_status bt_pull_open(bt_pull *p, char bracket) BT_MUST_USE;
/* Steps to the next member or element, or out of the object or array: *more says which. Start with
 * *first = true. */
bt_status bt_pull_next(bt_pull *p, char close, bool *first, bool *more) BT_MUST_USE;
/* A string; borrowed from the text or from `plain`, until the next string is read. */
bt_status bt_pull_string(bt_pull *p, bt_str *out) BT_MUST_USE;
/* A string and the colon behind it. */
bt_status bt_pull_key(bt_pull *p, bt_str *out) BT_MUST_USE;
/* A whole number that fits 64 bits. */
bt_status bt_pull_int(bt_pull *p, int64_t *out) BT_MUST_USE;
/* Any value, checked; *span (may be NULL) is its text. */
bt_status bt_pull_skip(bt_pull *p, bt_str *span) BT_MUST_USE;
/* Nothing but white space may follow. */
bt_status bt_pull_end(bt_pull *p) BT_MUST_USE;

bt_status bt_pull_fail(bt_pull *p, const char *wanted);

#endif
