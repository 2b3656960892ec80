/* SPDX-License-Identifier: MIT
 *
 * ops.h: operators, attributes, subscripts and slices, with Python's semantics. */
#ifndef BT_JINJA_OPS_H
#define BT_JINJA_OPS_H

#include "jinja/ast.h"
#include "jinja/context.h"

/* + - * / // % **. */
bt_status bt_jop_math(bt_jctx *ctx, bt_jop op, bt_jvalue a, bt_jvalue b,
                      bt_jvalue *out) BT_MUST_USE;
bt_status bt_jop_sign(bt_jctx *ctx, bool minus, bt_jvalue v, bt_jvalue *out) BT_MUST_USE;
/* == != < <= > >= in not-in. */
bt_status bt_jop_compare(bt_jctx *ctx, bt_jop op, bt_jvalue a, bt_jvalue b, bool *out) BT_MUST_USE;
/* v.name: a method or attribute, else an item; undefined when there is neither. */
bt_status bt_jop_attr(bt_jctx *ctx, bt_jvalue v, bt_str name, bt_jvalue *out) BT_MUST_USE;
/* v[key]: an item, else (for strings) an attribute; undefined when there is neither. */
bt_status bt_jop_item(bt_jctx *ctx, bt_jvalue v, bt_jvalue key, bt_jvalue *out) BT_MUST_USE;
/* v[a:b:c]; an absent bound is of kind NONE. */
bt_status bt_jop_slice(bt_jctx *ctx, bt_jvalue v, const bt_jvalue bounds[3],
                       bt_jvalue *out) BT_MUST_USE;

#endif
