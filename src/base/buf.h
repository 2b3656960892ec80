/* SPDX-License-Identifier: MIT
 *
 * buf.h: a growable byte buffer with a maximum, and string views.
 *
 * Once an append fails (memory, maximum) the buffer is marked failed, later appends do nothing,
 * and the owner checks once at the end with bt_buf_ok. One thread at a time. */
#ifndef BT_BASE_BUF_H
#define BT_BASE_BUF_H

#include "base/mem.h"
#include "base/status.h"

/* Borrowed bytes, not NUL-terminated, may hold NUL. p may be NULL when n is 0. */
typedef struct bt_str {
    const char *p;
    size_t n;
} bt_str;

#define BT_STR(literal) ((bt_str){.p = (literal), .n = sizeof(literal) - 1})
bt_str bt_str_of(const char *text); /* NULL gives the empty string */
bool bt_str_eq(bt_str a, bt_str b);
bool bt_str_eqz(bt_str a, const char *b);
bool bt_str_starts(bt_str a, bt_str prefix);
bool bt_str_ends(bt_str a, bt_str suffix);
/* Index of the first occurrence of needle at or after `from`, -1 when there is none. */
int64_t bt_str_find(bt_str a, bt_str needle, size_t from);

typedef struct bt_buf {
    char *p; /* always NUL-terminated once allocated; NULL while empty */
    size_t n, cap, max;
    bt_mem_tag tag;
    bool failed;
    bt_status why; /* of the failure */
} bt_buf;

/* An empty buffer of at most `max` bytes; allocates nothing. */
void bt_buf_init(bt_buf *buf, bt_mem_tag tag, size_t max);
void bt_buf_deinit(bt_buf *buf);
/* Empties the buffer, keeps its memory, clears the failed mark. */
void bt_buf_clear(bt_buf *buf);
/* Makes room for n more bytes ahead of time; BT_E_NO_MEMORY or BT_E_LIMIT. */
bt_status bt_buf_reserve(bt_buf *buf, size_t n);

void bt_buf_push(bt_buf *buf, const void *bytes, size_t n);
void bt_buf_push_str(bt_buf *buf, bt_str s);
void bt_buf_pushz(bt_buf *buf, const char *text);
void bt_buf_push_char(bt_buf *buf, char c);
void bt_buf_printf(bt_buf *buf, const char *format, ...) BT_PRINTF(2, 3);

/* BT_OK, or why an append failed since the last clear. */
bt_status bt_buf_ok(const bt_buf *buf);
/* The contents; valid until the next append. */
bt_str bt_buf_str(const bt_buf *buf);
/* Hands the bytes over (NUL-terminated, free with bt_mem_free), leaves the buffer empty. NULL when
 * the buffer has failed. */
char *bt_buf_take(bt_buf *buf);

#endif
