/* SPDX-License-Identifier: MIT */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bt_str bt_str_of(const char *text)
{
    return (bt_str){.p = text, .n = text == NULL ? 0 : strlen(text)};
}

bool bt_str_eq(bt_str a, bt_str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool bt_str_eqz(bt_str a, const char *b)
{
    return bt_str_eq(a, bt_str_of(b));
}

bool bt_str_starts(bt_str a, bt_str prefix)
{
    return a.n >= prefix.n && bt_str_eq((bt_str){a.p, prefix.n}, prefix);
}

bool bt_str_ends(bt_str a, bt_str suffix)
{
    return a.n >= suffix.n && bt_str_eq((bt_str){a.p + (a.n - suffix.n), suffix.n}, suffix);
}

int64_t bt_str_find(bt_str a, bt_str needle, size_t from)
{
    if (from > a.n || needle.n > a.n - from) {
        return -1;
    }
    if (needle.n == 0) {
        return (int64_t)from;
    }
    const char *hit = memmem(a.p + from, a.n - from, needle.p, needle.n);
    return hit == NULL ? -1 : (int64_t)(hit - a.p);
}

void bt_buf_init(bt_buf *buf, bt_mem_tag tag, size_t max)
{
    BT_ASSERT(max < SIZE_MAX / 2);
    *buf = (bt_buf){.tag = tag, .max = max};
}

void bt_buf_deinit(bt_buf *buf)
{
    bt_mem_free(buf->p);
    buf->p = NULL;
    buf->n = buf->cap = 0;
    buf->failed = false;
}

void bt_buf_clear(bt_buf *buf)
{
    buf->n = 0;
    buf->failed = false;
    if (buf->p != NULL) {
        buf->p[0] = '\0';
    }
}

bt_status bt_buf_reserve(bt_buf *buf, size_t n)
{
    if (n > buf->max - buf->n) {
        return BT_E_LIMIT;
    }
    size_t need = buf->n + n + 1;
    if (need <= buf->cap) {
        return BT_OK;
    }
    size_t cap = BT_MAX(need, BT_MIN(buf->cap * 2, buf->max + 1));
    cap = BT_MAX(cap, (size_t)64);
    char *p = bt_mem_realloc(buf->tag, buf->p, cap, 1);
    if (p == NULL) {
        return BT_E_NO_MEMORY;
    }
    p[buf->n] = '\0';
    buf->p = p;
    buf->cap = cap;
    return BT_OK;
}

void bt_buf_push(bt_buf *buf, const void *bytes, size_t n)
{
    if (buf->failed || n == 0) {
        return;
    }
    buf->why = bt_buf_reserve(buf, n);
    if (buf->why != BT_OK) {
        buf->failed = true;
        return;
    }
    memcpy(buf->p + buf->n, bytes, n);
    buf->n += n;
    buf->p[buf->n] = '\0';
}

void bt_buf_push_str(bt_buf *buf, bt_str s)
{
    bt_buf_push(buf, s.p, s.n);
}

void bt_buf_pushz(bt_buf *buf, const char *text)
{
    bt_buf_push(buf, text, strlen(text));
}

void bt_buf_push_char(bt_buf *buf, char c)
{
    bt_buf_push(buf, &c, 1);
}

void bt_buf_printf(bt_buf *buf, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    BT_ASSERT(n >= 0);
    if (!buf->failed) {
        buf->why = bt_buf_reserve(buf, (size_t)n);
        if (buf->why != BT_OK) {
            buf->failed = true;
        } else {
            vsnprintf(buf->p + buf->n, (size_t)n + 1, format, again);
            buf->n += (size_t)n;
        }
    }
    va_end(again);
}

bt_status bt_buf_ok(const bt_buf *buf)
{
    return buf->failed ? buf->why : BT_OK;
}

bt_str bt_buf_str(const bt_buf *buf)
{
    return (bt_str){.p = buf->p == NULL ? "" : buf->p, .n = buf->n};
}

char *bt_buf_take(bt_buf *buf)
{
    if (buf->failed) {
        return NULL;
    }
    char *p = buf->p != NULL ? buf->p : bt_mem_dup(buf->tag, "", 0);
    buf->p = NULL;
    buf->n = buf->cap = 0;
    return p;
}
