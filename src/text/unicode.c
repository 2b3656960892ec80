/* SPDX-License-Identifier: MIT
 *
 * Two things of utf8proc 2.8 are worked around. It loses U+11A7 after a Hangul LV syllable (it is the
 * "no trailing consonant" of the composition formula); the character neither composes nor reorders,
 * so the text is normalised in parts around it. And it orders combining marks by exchanging
 * neighbours, quadratic in a long run of them: here the characters are decomposed one by one and each
 * run is sorted by merging; utf8proc then only composes. */
#include "text/unicode.h"

#include "base/mem.h"
#include "text/utf8.h"

#include <string.h>
#include <utf8proc.h>

enum { DECOMPOSED_MAX = 32, SHORT_RUN = 8 };

static int mark_class(utf8proc_int32_t c)
{
    return utf8proc_get_property(c)->combining_class;
}

/* Canonical ordering of a run of marks (all of class > 0): a stable sort. */
static void sort_marks(utf8proc_int32_t *c, size_t n, utf8proc_int32_t *scratch)
{
    for (size_t at = 0; at < n; at += SHORT_RUN) {
        size_t end = BT_MIN(n, at + SHORT_RUN);
        for (size_t i = at + 1; i < end; i++) {
            utf8proc_int32_t mark = c[i];
            size_t k = i;
            for (; k > at && mark_class(c[k - 1]) > mark_class(mark); k--) {
                c[k] = c[k - 1];
            }
            c[k] = mark;
        }
    }
    for (size_t width = SHORT_RUN; width < n; width *= 2) {
        for (size_t at = 0; at < n; at += 2 * width) {
            size_t mid = BT_MIN(n, at + width), end = BT_MIN(n, at + 2 * width), i = at, k = mid;
            for (size_t to = at; to < end; to++) {
                bool left = k == end || (i < mid && mark_class(c[i]) <= mark_class(c[k]));
                scratch[to] = left ? c[i++] : c[k++];
            }
        }
        memcpy(c, scratch, n * sizeof *c);
    }
}

static void order(utf8proc_int32_t *c, size_t n, utf8proc_int32_t *scratch)
{
    for (size_t at = 0; at < n;) {
        size_t end = at;
        while (end < n && mark_class(c[end]) > 0) {
            end++;
        }
        sort_marks(c + at, end - at, scratch);
        at = end + 1;
    }
}

static size_t decompose(bt_str part, utf8proc_int32_t *c, size_t cap)
{
    size_t n = 0;
    for (size_t at = 0; at < part.n;) {
        uint32_t code_point = 0;
        int len = bt_utf8_decode(part.p + at, part.n - at, &code_point), last_class = 0;
        BT_ASSERT(len > 0 && n + DECOMPOSED_MAX <= cap);
        utf8proc_ssize_t made =
            utf8proc_decompose_char((utf8proc_int32_t)code_point, c + n, DECOMPOSED_MAX,
                                    UTF8PROC_STABLE | UTF8PROC_COMPOSE, &last_class);
        BT_ASSERT(made > 0 && made <= DECOMPOSED_MAX);
        n += (size_t)made;
        at += (size_t)len;
    }
    return n;
}

static bt_status push_part(bt_str part, bt_buf *out)
{
    /* A canonical decomposition is at most four characters long, and at most three for one of two
     * bytes; utf8proc_reencode writes a byte beyond the text. */
    size_t cap = 2 * part.n + DECOMPOSED_MAX + 1;
    if (part.n == 0) {
        return BT_OK;
    }
    utf8proc_int32_t *c = bt_mem_alloc(BT_MEM_TEXT, 2 * cap * sizeof *c);
    if (c == NULL) {
        return BT_E_NO_MEMORY;
    }
    size_t n = decompose(part, c, cap);
    order(c, n, c + cap);
    utf8proc_ssize_t bytes =
        utf8proc_reencode(c, (utf8proc_ssize_t)n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (bytes >= 0) {
        bt_buf_push(out, c, (size_t)bytes);
    }
    bt_mem_free(c);
    return bytes < 0 ? BT_E_INVALID : bt_buf_ok(out);
}

bt_status bt_unicode_nfc(bt_str text, bt_buf *out)
{
    bool low = true; /* lead bytes below 0xCC encode U+0000 … U+02FF: always NFC */
    for (size_t i = 0; i < text.n && low; i++) {
        low = (unsigned char)text.p[i] < 0xCC;
    }
    if (low) {
        bt_buf_push_str(out, text);
        return bt_buf_ok(out);
    }
    static const bt_str barrier = {"\xE1\x86\xA7", 3}; /* U+11A7 */
    for (size_t at = 0;;) {
        int64_t hit = bt_str_find(text, barrier, at);
        size_t end = hit < 0 ? text.n : (size_t)hit;
        BT_TRY(push_part((bt_str){text.p + at, end - at}, out));
        if (hit < 0) {
            return BT_OK;
        }
        bt_buf_push_str(out, barrier);
        BT_TRY(bt_buf_ok(out));
        at = end + barrier.n;
    }
}

bool bt_unicode_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

bool bt_unicode_is_word(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return c == 0x200C || c == 0x200D; /* Join_Control */
    }
}
