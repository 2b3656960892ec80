/* SPDX-License-Identifier: MIT
 *
 * casemap.c: over utf8proc's tables. */
#include "text/casemap.h"

#include "text/utf8.h"

#include <utf8proc.h>

bool bt_case_is_space(uint32_t code_point)
{
    uint32_t c = code_point;
    if (c < 0x80) {
        return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
    }
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

static utf8proc_category_t category_of(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

bool bt_case_is_alpha(uint32_t code_point)
{
    utf8proc_category_t k = category_of(code_point);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool bt_case_is_alnum(uint32_t code_point)
{
    utf8proc_category_t k = category_of(code_point);
    return bt_case_is_alpha(code_point) || (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
}

bool bt_case_is_upper(uint32_t code_point)
{
    return category_of(code_point) == UTF8PROC_CATEGORY_LU;
}

bool bt_case_is_lower(uint32_t code_point)
{
    return category_of(code_point) == UTF8PROC_CATEGORY_LL;
}

bool bt_case_is_printable(uint32_t code_point)
{
    utf8proc_category_t k = category_of(code_point);
    return code_point == ' ' || (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_SO);
}

int bt_case_map(bt_case_kind kind, uint32_t code_point, uint32_t out[BT_CASE_MAP_MAX])
{
    const uint32_t sharp_s = 0xDF;
    utf8proc_int32_t c = (utf8proc_int32_t)code_point;
    if (code_point == sharp_s && kind != BT_CASE_LOWER) {
        out[0] = 'S';
        out[1] = kind == BT_CASE_UPPER ? 'S' : 's';
        return 2;
    }
    utf8proc_int32_t mapped = kind == BT_CASE_LOWER   ? utf8proc_tolower(c)
                              : kind == BT_CASE_UPPER ? utf8proc_toupper(c)
                                                      : utf8proc_totitle(c);
    out[0] = (uint32_t)mapped;
    return 1;
}

size_t bt_case_strip_start(bt_str text)
{
    size_t i = 0;
    uint32_t c;
    while (i < text.n) {
        int n = bt_utf8_decode(text.p + i, text.n - i, &c);
        if (n == 0 || !bt_case_is_space(c)) {
            break;
        }
        i += (size_t)n;
    }
    return i;
}

size_t bt_case_strip_end(bt_str text)
{
    size_t end = text.n;
    uint32_t c;
    while (end > 0) {
        size_t start = end - 1;
        while (start > 0 && end - start < 4 && ((unsigned char)text.p[start] & 0xC0) == 0x80) {
            start--;
        }
        if (bt_utf8_decode(text.p + start, end - start, &c) == 0 || !bt_case_is_space(c)) {
            break;
        }
        end = start;
    }
    return end;
}
