/* SPDX-License-Identifier: MIT
 *
 * context.h: what one rendering owns: memory, budgets, the error, the clock, the variables. */
#ifndef BT_JINJA_CONTEXT_H
#define BT_JINJA_CONTEXT_H

#include "base/arena.h"
#include "jinja/value.h"

/* Bounds of one rendering. A real chat of a few thousand messages stays far below them. */
enum {
    BT_JINJA_STEPS_MAX = 10000000,  /* evaluated nodes, list items, and 64-byte pieces of text */
    BT_JINJA_DEPTH_MAX = 500,       /* nested evaluations: expressions, bodies, macro calls */
    BT_JINJA_VALUE_DEPTH_MAX = 100, /* of lists and dicts while they are printed or compared */
    BT_JINJA_RANGE_MAX = 100000     /* items of range(), as in Jinja2's sandbox */
};
#define BT_JINJA_MEMORY_MAX ((size_t)128 << 20)

/* A block of variables; they are looked up from the innermost scope outwards. */
typedef struct bt_jbinding bt_jbinding;

typedef struct bt_jscope {
    struct bt_jscope *outer;
    bt_jbinding *bindings;
} bt_jscope;

struct bt_jctx {
    bt_arena arena; /* everything that the rendering makes, freed at its end */
    bt_err *err;
    int64_t steps_left;
    int depth;
    int line; /* of the statement or expression at work, for messages */
    int64_t now_unix_s;
    size_t output_max; /* bytes of the whole output */
    bt_jscope *scope;  /* the innermost */
};

/* "chat template, line N: …". */
bt_status bt_jctx_fail(bt_jctx *ctx, bt_status status, const char *format, ...) BT_PRINTF(3, 4);
/* Takes 1 + work / 64 steps from the budget. BT_E_LIMIT. */
bt_status bt_jctx_charge(bt_jctx *ctx, size_t work) BT_MUST_USE;
/* The same for n * m bytes of work. */
bt_status bt_jctx_charge_product(bt_jctx *ctx, size_t n, size_t m) BT_MUST_USE;
/* n * size zeroed bytes; `out` points to the pointer that gets them. BT_E_NO_MEMORY, BT_E_LIMIT. */
bt_status bt_jctx_new(bt_jctx *ctx, size_t n, size_t size, void *out) BT_MUST_USE;
bt_status bt_jctx_enter(bt_jctx *ctx) BT_MUST_USE;
void bt_jctx_leave(bt_jctx *ctx);

bt_status bt_jscope_push(bt_jctx *ctx, bt_jscope *outer) BT_MUST_USE;
/* Sets a variable in the innermost scope. */
bt_status bt_jscope_set(bt_jctx *ctx, bt_str name, bt_jvalue value) BT_MUST_USE;
/* False when no scope has the name. */
bool bt_jscope_get(const bt_jctx *ctx, bt_str name, bt_jvalue *out);

#endif
