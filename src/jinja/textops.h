/* SPDX-License-Identifier: MIT
 *
 * textops.h: what filters and methods do to text. All keep the marks of the bytes they keep; bytes
 * that are changed keep the mark of what they were made from. */
#ifndef BT_JINJA_TEXTOPS_H
#define BT_JINJA_TEXTOPS_H

#include "jinja/context.h"

/* Stores a text as a string value. */
bt_status bt_jtextop_value(bt_jctx *ctx, const bt_jtext *t, bt_jvalue *out) BT_MUST_USE;

/* Removes white space (chars NULL) or characters of a set at either end. */
bt_status bt_jtextop_strip(bt_jctx *ctx, const bt_jtext *t, const bt_jtext *chars, bool start,
                           bool end, bt_jtext *out) BT_MUST_USE;

typedef struct bt_jsplit {
    const bt_jtext *separator; /* NULL: runs of white space */
    int64_t max;               /* splits at most; < 0: all */
    bool from_end;
} bt_jsplit;

bt_status bt_jtextop_split(bt_jctx *ctx, const bt_jtext *t, const bt_jsplit *how,
                           bt_jlist **out) BT_MUST_USE;
/* At line borders as str.splitlines(). */
bt_status bt_jtextop_lines(bt_jctx *ctx, const bt_jtext *t, bool keep_ends,
                           bt_jlist **out) BT_MUST_USE;
/* At most `max` replacements; < 0: all. */
bt_status bt_jtextop_replace(bt_jctx *ctx, const bt_jtext *t, const bt_jtext *old,
                             const bt_jtext *fresh, int64_t max, bt_jtext *out) BT_MUST_USE;

/* The five characters of HTML as entities; the result counts as markup. */
bt_status bt_jtextop_escape(bt_jctx *ctx, const bt_jtext *t, bt_jtext *out) BT_MUST_USE;

typedef enum bt_jcase {
    BT_JCASE_LOWER,
    BT_JCASE_UPPER,
    BT_JCASE_CAPITALIZE,   /* first character title case, the rest lower */
    BT_JCASE_TITLE,        /* str.title(): after every character that is no letter */
    BT_JCASE_TITLE_FILTER, /* the filter: after white space and one of -({[< */
    BT_JCASE_SWAP
} bt_jcase;

bt_status bt_jtextop_case(bt_jctx *ctx, const bt_jtext *t, bt_jcase how, bt_jtext *out) BT_MUST_USE;

#endif
