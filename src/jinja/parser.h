/* SPDX-License-Identifier: MIT
 *
 * parser.h: tokens to tree, after the grammar of Jinja2's documentation ("Template Designer
 * Documentation"). Names of tags, filters, tests, methods and functions are resolved here, so that
 * an unknown one is an error before anything is rendered. */
#ifndef BT_JINJA_PARSER_H
#define BT_JINJA_PARSER_H

#include "jinja/ast.h"
#include "jinja/lexer.h"

typedef struct bt_jname bt_jname;

/* State of one parse; one thread. */
typedef struct bt_jparser {
    bt_jtok *tok; /* the current one; the last one is BT_JTOK_END */
    bt_arena *arena;
    bt_err *err;
    int depth;        /* nesting now, of statements and expressions together */
    int loops;        /* for loops around the current statement */
    bt_jmacro *macro; /* around the current statement; NULL: none */
    bt_jname *stored; /* every name that the template assigns somewhere */
    bt_jname *called; /* every name that it calls */
} bt_jparser;

struct bt_jname {
    bt_str name;
    int line;
    size_t offset;
    bt_jname *next;
};

/* Parses a whole template. Errors as bt_jinja_open. */
bt_status bt_jparser_run(bt_jtokens tokens, bt_arena *arena, bt_jstmt **out,
                         bt_err *err) BT_MUST_USE;

/* --- shared between parser.c and exprparser.c --- */

/* An error at the current token. */
bt_status bt_jparser_fail(bt_jparser *ps, bt_status status, const char *format, ...)
    BT_PRINTF(3, 4);
/* Zeroed memory of the tree; BT_E_NO_MEMORY. */
bt_status bt_jparser_new(bt_jparser *ps, size_t size, void *out) BT_MUST_USE;
bool bt_jparser_is_op(const bt_jparser *ps, const char *op);
bool bt_jparser_is_name(const bt_jparser *ps, const char *name);
bool bt_jparser_skip_op(bt_jparser *ps, const char *op);
bool bt_jparser_skip_name(bt_jparser *ps, const char *name);
bt_status bt_jparser_expect_op(bt_jparser *ps, const char *op) BT_MUST_USE;
bt_status bt_jparser_expect_name(bt_jparser *ps, bt_str *out) BT_MUST_USE;
bt_status bt_jparser_note(bt_jparser *ps, bt_jname **list, bt_str name) BT_MUST_USE;
/* Depth bookkeeping around everything that nests. */
bt_status bt_jparser_enter(bt_jparser *ps) BT_MUST_USE;
void bt_jparser_leave(bt_jparser *ps);

/* With inline if; without: `for x in e if …` ends before the if. Several expressions with commas
 * between them make a tuple. */
bt_status bt_jparser_tuple(bt_jparser *ps, bool with_cond, bt_jexpr **out) BT_MUST_USE;
bt_status bt_jparser_expr(bt_jparser *ps, bool with_cond, bt_jexpr **out) BT_MUST_USE;
/* "| filter | filter …" applied to `base`. */
bt_status bt_jparser_filters(bt_jparser *ps, bt_jexpr *base, bt_jexpr **out) BT_MUST_USE;
/* "filter | filter …" without the first bar. */
bt_status bt_jparser_filter_chain(bt_jparser *ps, bt_jexpr *base, bt_jexpr **out) BT_MUST_USE;

#endif
