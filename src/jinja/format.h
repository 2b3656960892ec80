/* SPDX-License-Identifier: MIT
 *
 * format.h: values as text: str(), repr(), json.dumps() and the % operator of Python. What is made
 * here counts as data; only str() of a string keeps its marks. */
#ifndef BT_JINJA_FORMAT_H
#define BT_JINJA_FORMAT_H

#include "jinja/context.h"

/* str(v), "" for an undefined value. BT_E_FORMAT for functions and macros. */
bt_status bt_jformat_str(bt_jctx *ctx, bt_jvalue v, bt_jtext *out) BT_MUST_USE;
/* out += repr(v). */
bt_status bt_jformat_repr(bt_jctx *ctx, bt_jvalue v, bt_jtext *out) BT_MUST_USE;

typedef struct bt_jdumps {
    bool ensure_ascii, sort_keys;
    bool indented;
    bt_str indent; /* for one level */
    bt_str item_separator, key_separator;
} bt_jdumps;

/* out += json.dumps(v). */
bt_status bt_jformat_json(bt_jctx *ctx, bt_jvalue v, const bt_jdumps *options,
                          bt_jtext *out) BT_MUST_USE;

/* format % args: %s %r %d %i %x %f %e %g %c %% with flags "-0+ #", width and precision. */
bt_status bt_jformat_percent(bt_jctx *ctx, const bt_jtext *format, const bt_jvalue *args,
                             size_t n_args, bt_jtext *out) BT_MUST_USE;

#endif
