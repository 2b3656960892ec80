/* SPDX-License-Identifier: MIT
 *
 * utf8proc 2.8 loses U+11A7 after a Hangul LV syllable (it is the "no trailing consonant" of the
 * composition formula). The character neither composes nor reorders, so the text is normalised in
 * parts around it. */
#include "text/unicode.h"

#include "base/mem.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <utf8proc.h>

static bt_status push_part(bt_str part, bt_buf *out)
{
    utf8proc_uint8_t *text = NULL;
    if (part.n == 0) {
        return BT_OK;
    }
    utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)part.p, (utf8proc_ssize_t)part.n,
                                      &text, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (n < 0) {
        return n == UTF8PROC_ERROR_NOMEM ? BT_E_NO_MEMORY : BT_E_INVALID;
    }
    bt_buf_push(out, text, (size_t)n);
    free(text); /* utf8proc's own, from malloc */
    return bt_buf_ok(out);
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
