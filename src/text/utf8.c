/* SPDX-License-Identifier: MIT
 *
 * utf8.c: decoding after table 3-7 of the Unicode standard ("Well-formed UTF-8 byte sequences"):
 * the lead byte fixes the length and the range of the second byte, all later bytes are 80–BF. */
#include "text/utf8.h"

#include <string.h>

typedef enum utf8_state {
    UTF8_WHOLE,  /* a valid character */
    UTF8_BROKEN, /* no continuation can make it valid */
    UTF8_SHORT   /* valid so far, the bytes ran out */
} utf8_state;

/* Length of the character by its lead byte (0: no lead byte) and the range of its second byte. */
static int lead_of(unsigned char lead, unsigned char *low, unsigned char *high)
{
    *low = 0x80;
    *high = 0xBF;
    if (lead < 0xC2) {
        return 0;
    }
    if (lead < 0xE0) {
        return 2;
    }
    if (lead < 0xF0) {
        if (lead == 0xE0) {
            *low = 0xA0;
        } else if (lead == 0xED) {
            *high = 0x9F;
        }
        return 3;
    }
    if (lead < 0xF5) {
        if (lead == 0xF0) {
            *low = 0x90;
        } else if (lead == 0xF4) {
            *high = 0x8F;
        }
        return 4;
    }
    return 0;
}

/* *len: bytes of the character, or of the maximal subpart (>= 1) when it is broken or short. */
static utf8_state scan(const char *text, size_t n, int *len, uint32_t *code_point)
{
    const unsigned char *p = (const unsigned char *)text;
    *len = 1;
    if (p[0] < 0x80) {
        *code_point = p[0];
        return UTF8_WHOLE;
    }
    unsigned char low;
    unsigned char high;
    int want = lead_of(p[0], &low, &high);
    if (want == 0) {
        return UTF8_BROKEN;
    }
    uint32_t c = p[0] & (0x7Fu >> want);
    for (int i = 1; i < want; i++) {
        *len = i;
        if ((size_t)i >= n) {
            return UTF8_SHORT;
        }
        if (p[i] < low || p[i] > high) {
            return UTF8_BROKEN;
        }
        c = c << 6 | (p[i] & 0x3Fu);
        low = 0x80;
        high = 0xBF;
    }
    *len = want;
    *code_point = c;
    return UTF8_WHOLE;
}

/* Bytes of the leading ASCII run, whole words at a time. */
static size_t ascii_run(const char *p, size_t n)
{
    size_t i = 0;
    uint64_t word;
    for (; i + sizeof word <= n; i += sizeof word) {
        memcpy(&word, p + i, sizeof word);
        if ((word & 0x8080808080808080u) != 0) {
            break;
        }
    }
    while (i < n && (unsigned char)p[i] < 0x80) {
        i++;
    }
    return i;
}

size_t bt_utf8_valid(bt_str text)
{
    size_t i = 0;
    while (i < text.n) {
        i += ascii_run(text.p + i, text.n - i);
        if (i == text.n) {
            break;
        }
        int len;
        uint32_t c;
        if (scan(text.p + i, text.n - i, &len, &c) != UTF8_WHOLE) {
            break;
        }
        i += (size_t)len;
    }
    return i;
}

int bt_utf8_decode(const char *p, size_t n, uint32_t *code_point)
{
    BT_DEBUG_ASSERT(n > 0);
    int len;
    uint32_t c;
    if (scan(p, n, &len, &c) != UTF8_WHOLE) {
        return 0;
    }
    *code_point = c;
    return len;
}

int bt_utf8_encode(uint32_t code_point, char out[4])
{
    uint32_t c = code_point;
    BT_ASSERT(c < 0x110000u);
    BT_ASSERT(c < 0xD800u || c > 0xDFFFu);
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    int len = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = len - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (c & 0x3F));
        c >>= 6;
    }
    /* The lead byte: as many ones as there are bytes, a zero, the remaining bits. */
    out[0] = (char)((0xF00u >> len & 0xFFu) | c);
    return len;
}

size_t bt_utf8_incomplete_tail(const char *p, size_t n)
{
    for (size_t k = 1; k <= 3 && k <= n; k++) {
        unsigned char c = (unsigned char)p[n - k];
        if (c >= 0x80 && c <= 0xBF) {
            continue;
        }
        int len;
        uint32_t code_point;
        bool is_short = scan(p + (n - k), k, &len, &code_point) == UTF8_SHORT;
        return is_short ? k : 0;
    }
    return 0;
}

void bt_utf8_push_lossy(bt_buf *out, bt_str text)
{
    while (text.n > 0) {
        size_t good = bt_utf8_valid(text);
        bt_buf_push(out, text.p, good);
        text.p += good;
        text.n -= good;
        if (text.n > 0) {
            int len;
            uint32_t c;
            (void)scan(text.p, text.n, &len, &c);
            bt_buf_pushz(out, "\xEF\xBF\xBD");
            text.p += len;
            text.n -= (size_t)len;
        }
    }
}
