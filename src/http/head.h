/* SPDX-License-Identifier: MIT
 *
 * head.h: the lines of a message head, for parse.c only. */
#ifndef BT_HTTP_HEAD_H
#define BT_HTTP_HEAD_H

#include "http/parse.h"

/* Each takes what the parser's head holds from line_at on; false after filling bad_status. */
bool bt_http_head_first(bt_http_parser *parser, size_t n);
bool bt_http_head_field(bt_http_parser *parser, size_t n);
/* All fields are there: framing, Host, Expect, Connection. */
bool bt_http_head_check(bt_http_parser *parser);

/* Sets bad_status and bad_why, returns false. */
bool bt_http_head_bad(bt_http_parser *parser, int status, const char *why);

/* Letters, digits and the signs that RFC 9110 5.6.2 allows in names and methods. */
bool bt_http_is_token_char(unsigned char c);
/* May stand in a field value: HTAB, blank, visible ASCII, bytes from 0x80 on. */
bool bt_http_is_value_char(unsigned char c);

#endif
