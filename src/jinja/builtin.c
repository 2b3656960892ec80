/* SPDX-License-Identifier: MIT
 *
 * builtin.c: binding arguments to the named parameters of a built-in. */
#include "jinja/builtin.h"

#include <string.h>

const bt_jbuiltin *bt_jbuiltin_find(const bt_jbuiltin *table, size_t n, bt_str name)
{
    for (size_t i = 0; i < n; i++) {
        if (bt_str_eqz(name, table[i].name)) {
            return &table[i];
        }
    }
    return NULL;
}

/* Splits the parameter list; returns how many there are. */
static int split_params(const char *params, bt_str out[BT_JBUILTIN_ARGS_MAX])
{
    int n = 0;
    while (*params != '\0') {
        size_t len = strcspn(params, ",");
        BT_ASSERT(n < BT_JBUILTIN_ARGS_MAX);
        out[n++] = (bt_str){params, len};
        params += len + (params[len] == ',');
    }
    return n;
}

static bt_status bind_named(bt_jctx *ctx, const bt_jbuiltin *builtin, const bt_jcall *call,
                            const bt_str *names, int n_params, bt_jvalue *args)
{
    for (int k = 0; k < call->n_named; k++) {
        int i = 0;
        while (i < n_params && !bt_str_eq(names[i], call->names[k])) {
            i++;
        }
        if (i == n_params || args[i].kind != BT_JVAL_UNSET) {
            return bt_jctx_fail(ctx, BT_E_FORMAT, "'%s' does not take the argument '%.*s' here",
                                builtin->name, (int)BT_MIN(call->names[k].n, (size_t)100),
                                call->names[k].p);
        }
        args[i] = call->named[k];
    }
    return BT_OK;
}

bt_status bt_jbuiltin_call(bt_jctx *ctx, const bt_jbuiltin *builtin, bt_jvalue self,
                           const bt_jcall *call, bt_jvalue *out)
{
    bt_jvalue args[BT_JBUILTIN_ARGS_MAX] = {0};
    bt_str names[BT_JBUILTIN_ARGS_MAX];
    if (builtin->any != NULL) {
        return builtin->any(ctx, self, call, out);
    }
    int n_params = split_params(builtin->params, names);
    if (call->n_pos > n_params) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "'%s' takes at most %d arguments", builtin->name,
                            n_params);
    }
    for (int i = 0; i < call->n_pos; i++) {
        args[i] = call->pos[i];
    }
    BT_TRY(bind_named(ctx, builtin, call, names, n_params, args));
    for (int i = 0; i < builtin->n_required; i++) {
        if (args[i].kind == BT_JVAL_UNSET) {
            return bt_jctx_fail(ctx, BT_E_FORMAT, "'%s' needs the argument '%.*s'", builtin->name,
                                (int)names[i].n, names[i].p);
        }
    }
    return builtin->fn(ctx, self, args, out);
}
