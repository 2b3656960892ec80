/* SPDX-License-Identifier: MIT
 *
 * utf8.h: UTF-8 by RFC 3629 (no surrogates, no overlong forms, up to U+10FFFF). */
#ifndef BT_TEXT_UTF8_H
#define BT_TEXT_UTF8_H

#include "base/buf.h"

/* Bytes of the longest valid prefix; equals text.n when all of it is valid. */
size_t bt_utf8_valid(bt_str text);
/* Decodes the character at p (n > 0 bytes there). Returns its length 1–4, or 0 when the bytes are
 * not a whole valid character. */
int bt_utf8_decode(const char *p, size_t n, uint32_t *code_point);
/* Writes 1–4 bytes; code_point must be valid (asserted). Returns how many. */
int bt_utf8_encode(uint32_t code_point, char out[4]);
/* How many of the n bytes at p are an incomplete but so far valid character at the very end (0–3):
 * what a streaming decoder must hold back. */
size_t bt_utf8_incomplete_tail(const char *p, size_t n);
/* Appends text with every invalid sequence replaced by U+FFFD, one for each maximal subpart
 * (Unicode 15, 3.9, practice "U+FFFD substitution of maximal subparts"; what Python and Rust do). */
void bt_utf8_push_lossy(bt_buf *out, bt_str text);

#endif
