/* SPDX-License-Identifier: MIT
 *
 * builtin.h: filters, tests, methods and functions: tables of C functions with named parameters. */
#ifndef BT_JINJA_BUILTIN_H
#define BT_JINJA_BUILTIN_H

#include "jinja/context.h"

enum { BT_JBUILTIN_ARGS_MAX = 6 };

/* An evaluated argument list. */
typedef struct bt_jcall {
    const bt_jvalue *pos;
    int n_pos;
    const bt_str *names;
    const bt_jvalue *named;
    int n_named;
} bt_jcall;

/* `self`: the filtered, tested or owning value. args[i] belongs to the i-th parameter and is of kind
 * BT_JVAL_UNSET where it was not given. */
typedef bt_status bt_jbuiltin_fn(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args,
                                 bt_jvalue *out);
/* For what takes any arguments (namespace, map, selectattr …). */
typedef bt_status bt_jbuiltin_any_fn(bt_jctx *ctx, bt_jvalue self, const bt_jcall *call,
                                     bt_jvalue *out);

struct bt_jbuiltin {
    const char *name;
    bt_jbuiltin_fn *fn; /* NULL: any */
    const char *params; /* names with commas between them */
    int n_required;     /* of the parameters */
    bt_jbuiltin_any_fn *any;
};

/* NULL when there is none of that name. */
const bt_jbuiltin *bt_jbuiltin_filter(bt_str name);
const bt_jbuiltin *bt_jbuiltin_seqfilter(bt_str name);
const bt_jbuiltin *bt_jbuiltin_test(bt_str name);
const bt_jbuiltin *bt_jbuiltin_function(bt_str name);
/* A method of values of that kind. */
const bt_jbuiltin *bt_jbuiltin_method(bt_jval_kind kind, bt_str name);
/* Whether values of any kind have a method of that name (for the check when compiling). */
bool bt_jbuiltin_is_method(bt_str name);

/* Binds the arguments to the parameters and calls. `kind` ("filter", "test", …) is for messages. */
bt_status bt_jbuiltin_call(bt_jctx *ctx, const bt_jbuiltin *builtin, bt_jvalue self,
                           const bt_jcall *call, bt_jvalue *out) BT_MUST_USE;

/* Searches a table of n entries. */
const bt_jbuiltin *bt_jbuiltin_find(const bt_jbuiltin *table, size_t n, bt_str name);

#endif
