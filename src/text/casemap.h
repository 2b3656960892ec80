/* SPDX-License-Identifier: MIT
 *
 * casemap.h: classes and case of characters as Python's str methods see them. */
#ifndef BT_TEXT_CASEMAP_H
#define BT_TEXT_CASEMAP_H

#include "base/buf.h"

enum { BT_CASE_MAP_MAX = 3 };

/* str.isspace() of one character. */
bool bt_case_is_space(uint32_t code_point);
/* str.isalnum() of one character, nearly: letters and numbers of any script. */
bool bt_case_is_alnum(uint32_t code_point);
bool bt_case_is_alpha(uint32_t code_point);
bool bt_case_is_upper(uint32_t code_point);
bool bt_case_is_lower(uint32_t code_point);

/* str.isprintable() of one character. */
bool bt_case_is_printable(uint32_t code_point);

typedef enum bt_case_kind { BT_CASE_LOWER = 0, BT_CASE_UPPER, BT_CASE_TITLE } bt_case_kind;

/* The mapped character: 1–3 code points into out, returns how many. Simple mappings, and the sharp s
 * (whose upper case is two letters); other special casings of Unicode are not done. */
int bt_case_map(bt_case_kind kind, uint32_t code_point, uint32_t out[BT_CASE_MAP_MAX]);

/* Bytes of white space at the start; bytes that are left without the white space at the end. The
 * text is valid UTF-8. */
size_t bt_case_strip_start(bt_str text);
size_t bt_case_strip_end(bt_str text);

#endif
