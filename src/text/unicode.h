/* SPDX-License-Identifier: MIT
 *
 * unicode.h: Unicode normalisation over utf8proc (Unicode 15.0). */
#ifndef BT_TEXT_UNICODE_H
#define BT_TEXT_UNICODE_H

#include "base/buf.h"
#include "base/status.h"

/* Appends the canonical composition (NFC, UAX #15) of valid UTF-8. Text whose characters all lie
 * below U+0300 is copied as it is. */
bt_status bt_unicode_nfc(bt_str text, bt_buf *out) BT_MUST_USE;

/* White space as Python's str.strip and Rust's trim see it (White_Space property). */
bool bt_unicode_is_space(uint32_t code_point);
/* Letters, digits and underscore: what \w matches. */
bool bt_unicode_is_word(uint32_t code_point);

#endif
