/* SPDX-License-Identifier: MIT
 *
 * eval.h: evaluates expressions and executes statements of a parsed template. Recursion is bounded
 * by BT_JINJA_DEPTH_MAX levels of bt_jctx_enter. */
#ifndef BT_JINJA_EVAL_H
#define BT_JINJA_EVAL_H

#include "jinja/ast.h"
#include "jinja/builtin.h"

bt_status bt_jeval(bt_jctx *ctx, const bt_jexpr *e, bt_jvalue *out) BT_MUST_USE;
/* Applies the operations of a postfix chain to a value. */
bt_status bt_jeval_links(bt_jctx *ctx, const bt_jlink *links, bt_jvalue *value) BT_MUST_USE;
/* Calls a function, method or macro. */
bt_status bt_jeval_call(bt_jctx *ctx, bt_jvalue callee, const bt_jcall *call,
                        bt_jvalue *out) BT_MUST_USE;
/* Evaluates an argument list into the arena. `extra` (NULL: none) is added as the named argument
 * "caller". */
bt_status bt_jeval_args(bt_jctx *ctx, const bt_jargs *args, const bt_jvalue *extra,
                        bt_jcall *out) BT_MUST_USE;

/* Runs statements; what they print is appended to *out. */
bt_status bt_jexec(bt_jctx *ctx, const bt_jstmt *body, bt_jtext *out) BT_MUST_USE;
bt_status bt_jexec_macro(bt_jctx *ctx, const bt_jclosure *closure, const bt_jcall *call,
                         bt_jvalue *out) BT_MUST_USE;

#endif
