/* SPDX-License-Identifier: MIT
 *
 * exec.c: statements. Loops, macros and blocks with a body of their own open a scope; if does not. */
#include "jinja/eval.h"

#include "jinja/format.h"

typedef enum flow { FLOW_NEXT = 0, FLOW_BREAK, FLOW_CONTINUE } flow;

static bt_status exec_body(bt_jctx *ctx, const bt_jstmt *body, bt_jtext *out, flow *jump);

static bt_status print(bt_jctx *ctx, const bt_jtext *piece, bt_jtext *out)
{
    if (piece->n > ctx->output_max - BT_MIN(out->n, ctx->output_max)) {
        return bt_jctx_fail(ctx, BT_E_LIMIT, "the text is longer than %zu bytes", ctx->output_max);
    }
    return bt_jtext_append(ctx, out, piece);
}

static bt_status exec_print(bt_jctx *ctx, const bt_jstmt *s, bt_jtext *out)
{
    bt_jvalue v;
    bt_jtext piece;
    BT_TRY(bt_jeval(ctx, s->expr, &v));
    BT_TRY(bt_jformat_str(ctx, v, &piece));
    return print(ctx, &piece, out);
}

static bt_status exec_data(bt_jctx *ctx, const bt_jstmt *s, bt_jtext *out)
{
    const bt_jtext piece = {.p = s->data.p, .n = s->data.n, .trusted = true};
    return print(ctx, &piece, out);
}

/* Runs a body in a scope of its own. */
static bt_status exec_scoped(bt_jctx *ctx, const bt_jstmt *body, bt_jtext *out, flow *jump)
{
    bt_jscope *outer = ctx->scope;
    BT_TRY(bt_jscope_push(ctx, outer));
    BT_TRY(exec_body(ctx, body, out, jump));
    ctx->scope = outer;
    return BT_OK;
}

static bt_status assign(bt_jctx *ctx, const bt_jtarget *target, bt_jvalue v)
{
    if (target->n_parts == 0 && target->attr.p == NULL) {
        return bt_jscope_set(ctx, target->name, v);
    }
    if (target->n_parts == 0) {
        bt_jvalue ns;
        bool found = bt_jscope_get(ctx, target->name, &ns);
        if (!found || ns.kind != BT_JVAL_NS) {
            return bt_jctx_fail(ctx, BT_E_FORMAT, "'%.*s' is no namespace",
                                (int)BT_MIN(target->name.n, (size_t)100), target->name.p);
        }
        bt_jvalue key;
        BT_TRY(bt_jvalue_str(ctx, target->attr, true, &key));
        return bt_jdict_set(ctx, ns.as.dict, key, v);
    }
    const bt_jlist *items;
    BT_TRY(bt_jvalue_items(ctx, v, &items));
    if (items->n != target->n_parts) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "%zu values to unpack into %zu names", items->n,
                            target->n_parts);
    }
    for (size_t i = 0; i < items->n; i++) {
        BT_TRY(bt_jscope_set(ctx, target->parts[i].name, items->items[i]));
    }
    return BT_OK;
}

static bt_status exec_if(bt_jctx *ctx, const bt_jstmt *s, bt_jtext *out, flow *jump)
{
    for (const bt_jbranch *b = s->branches; b != NULL; b = b->next) {
        bt_jvalue v = bt_jvalue_bool(true);
        if (b->condition != NULL) {
            BT_TRY(bt_jeval(ctx, b->condition, &v));
        }
        if (bt_jvalue_truth(v)) {
            return exec_body(ctx, b->body, out, jump);
        }
    }
    return BT_OK;
}

/* The items for which the loop's condition holds. */
static bt_status filter_items(bt_jctx *ctx, const bt_jstmt *s, const bt_jlist **items)
{
    bt_jlist *kept;
    bt_jscope *outer = ctx->scope;
    size_t n = 0;
    BT_TRY(bt_jvalue_new_list(ctx, BT_JLIST_LIST, (*items)->n, &kept));
    for (size_t i = 0; i < (*items)->n; i++) {
        bt_jvalue keep;
        BT_TRY(bt_jscope_push(ctx, outer));
        BT_TRY(assign(ctx, &s->target, (*items)->items[i]));
        BT_TRY(bt_jeval(ctx, s->condition, &keep));
        if (bt_jvalue_truth(keep)) {
            kept->items[n++] = (*items)->items[i];
        }
        ctx->scope = outer;
    }
    kept->n = n;
    *items = kept;
    return BT_OK;
}

static bt_status exec_for(bt_jctx *ctx, const bt_jstmt *s, bt_jtext *out, flow *jump)
{
    bt_jvalue v;
    const bt_jlist *items;
    bt_jscope *outer = ctx->scope;
    bt_jloop *loop;
    BT_TRY(bt_jeval(ctx, s->expr, &v));
    BT_TRY(bt_jvalue_items(ctx, v, &items));
    if (s->condition != NULL) {
        BT_TRY(filter_items(ctx, s, &items));
    }
    if (items->n == 0 && s->otherwise != NULL) {
        return exec_scoped(ctx, s->otherwise, out, jump);
    }
    BT_TRY(bt_jctx_new(ctx, 1, sizeof *loop, &loop));
    loop->list = items;
    for (size_t i = 0; i < items->n; i++) {
        flow inner = FLOW_NEXT;
        loop->idx = i;
        BT_TRY(bt_jctx_charge(ctx, 0));
        BT_TRY(bt_jscope_push(ctx, outer));
        BT_TRY(
            bt_jscope_set(ctx, BT_STR("loop"), (bt_jvalue){.kind = BT_JVAL_LOOP, .as.loop = loop}));
        BT_TRY(assign(ctx, &s->target, items->items[i]));
        BT_TRY(exec_body(ctx, s->body, out, &inner));
        ctx->scope = outer;
        if (inner == FLOW_BREAK) {
            break;
        }
    }
    return BT_OK;
}

/* Captures what a body prints, sent through the filters of `expr` (NULL: none). */
static bt_status capture(bt_jctx *ctx, const bt_jstmt *s, bt_jvalue *out)
{
    bt_jtext text = {.p = "", .trusted = true};
    flow jump = FLOW_NEXT;
    BT_TRY(exec_scoped(ctx, s->body, &text, &jump));
    bt_jvalue v = {.kind = BT_JVAL_STR};
    BT_TRY(bt_jtext_store(ctx, &text, &v.as.text));
    if (s->expr != NULL) {
        BT_TRY(bt_jeval_links(ctx, s->expr->links, &v));
    }
    *out = v;
    return BT_OK;
}

static bt_status exec_filter(bt_jctx *ctx, const bt_jstmt *s, bt_jtext *out)
{
    bt_jvalue v;
    bt_jtext piece;
    BT_TRY(capture(ctx, s, &v));
    BT_TRY(bt_jformat_str(ctx, v, &piece));
    return print(ctx, &piece, out);
}

static bt_status exec_with(bt_jctx *ctx, const bt_jstmt *s, bt_jtext *out, flow *jump)
{
    bt_jscope *outer = ctx->scope;
    bt_jcall call;
    BT_TRY(bt_jeval_args(ctx, &s->args, NULL, &call));
    BT_TRY(bt_jscope_push(ctx, outer));
    for (int i = 0; i < call.n_named; i++) {
        BT_TRY(bt_jscope_set(ctx, call.names[i], call.named[i]));
    }
    BT_TRY(exec_body(ctx, s->body, out, jump));
    ctx->scope = outer;
    return BT_OK;
}

static bt_status make_macro(bt_jctx *ctx, const bt_jmacro *macro, bt_jvalue *out)
{
    bt_jclosure *closure;
    BT_TRY(bt_jctx_new(ctx, 1, sizeof *closure, &closure));
    *closure = (bt_jclosure){macro, ctx->scope};
    *out = (bt_jvalue){.kind = BT_JVAL_MACRO, .as.macro = closure};
    return BT_OK;
}

/* {% call %}: the last operation of the expression is the call that gets the caller. */
static bt_status exec_call(bt_jctx *ctx, const bt_jstmt *s, bt_jtext *out)
{
    bt_jvalue caller;
    bt_jvalue v;
    bt_jcall call;
    bt_jtext piece;
    BT_TRY(make_macro(ctx, s->macro, &caller));
    BT_TRY(bt_jeval(ctx, s->expr->items[0], &v));
    const bt_jlink *link = s->expr->links;
    for (; link->next != NULL; link = link->next) {
        bt_jlink one = *link;
        one.next = NULL;
        BT_TRY(bt_jeval_links(ctx, &one, &v));
    }
    BT_TRY(bt_jeval_args(ctx, &link->args, &caller, &call));
    BT_TRY(bt_jeval_call(ctx, v, &call, &v));
    BT_TRY(bt_jformat_str(ctx, v, &piece));
    return print(ctx, &piece, out);
}

static bt_status exec_one(bt_jctx *ctx, const bt_jstmt *s, bt_jtext *out, flow *jump)
{
    bt_jvalue v;
    switch (s->kind) {
    case BT_JSTMT_DATA:
        return exec_data(ctx, s, out);
    case BT_JSTMT_PRINT:
        return exec_print(ctx, s, out);
    case BT_JSTMT_IF:
        return exec_if(ctx, s, out, jump);
    case BT_JSTMT_FOR:
        return exec_for(ctx, s, out, jump);
    case BT_JSTMT_SET:
        BT_TRY(bt_jeval(ctx, s->expr, &v));
        return assign(ctx, &s->target, v);
    case BT_JSTMT_SETBLOCK:
        BT_TRY(capture(ctx, s, &v));
        return assign(ctx, &s->target, v);
    case BT_JSTMT_MACRO:
        BT_TRY(make_macro(ctx, s->macro, &v));
        return bt_jscope_set(ctx, s->macro->name, v);
    case BT_JSTMT_GROUP:
        return exec_scoped(ctx, s->body, out, jump);
    case BT_JSTMT_WITH:
        return exec_with(ctx, s, out, jump);
    case BT_JSTMT_FILTER:
        return exec_filter(ctx, s, out);
    case BT_JSTMT_CALL:
        return exec_call(ctx, s, out);
    case BT_JSTMT_BREAK:
        *jump = FLOW_BREAK;
        return BT_OK;
    case BT_JSTMT_CONTINUE:
        *jump = FLOW_CONTINUE;
        break;
    }
    return BT_OK;
}

static bt_status exec_body(bt_jctx *ctx, const bt_jstmt *body, bt_jtext *out, flow *jump)
{
    BT_TRY(bt_jctx_enter(ctx));
    for (const bt_jstmt *s = body; s != NULL && *jump == FLOW_NEXT; s = s->next) {
        ctx->line = s->line;
        BT_TRY(bt_jctx_charge(ctx, 0));
        BT_TRY(exec_one(ctx, s, out, jump));
    }
    bt_jctx_leave(ctx);
    return BT_OK;
}

bt_status bt_jexec(bt_jctx *ctx, const bt_jstmt *body, bt_jtext *out)
{
    flow jump = FLOW_NEXT;
    return exec_body(ctx, body, out, &jump);
}

/* Arguments beyond the parameters, for the macros that ask for them. */
static bt_status bind_rest(bt_jctx *ctx, const bt_jmacro *m, const bt_jcall *call, bt_jdict *kwargs)
{
    bt_jlist *rest;
    int extra = BT_MAX(call->n_pos - m->n_params, 0);
    if (extra > 0 && !m->takes_varargs) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "macro '%.*s' takes not more than %d arguments",
                            (int)BT_MIN(m->name.n, (size_t)100), m->name.p, m->n_params);
    }
    if (m->takes_varargs) {
        BT_TRY(bt_jvalue_new_list(ctx, BT_JLIST_TUPLE, (size_t)extra, &rest));
        for (int i = 0; i < extra; i++) {
            rest->items[i] = call->pos[m->n_params + i];
        }
        BT_TRY(bt_jscope_set(ctx, BT_STR("varargs"), bt_jvalue_list(rest)));
    }
    if (m->takes_kwargs) {
        bt_jvalue v = {.kind = BT_JVAL_DICT, .as.dict = kwargs};
        return bt_jscope_set(ctx, BT_STR("kwargs"), v);
    }
    if (kwargs->n > 0) {
        bt_str name = bt_jvalue_bytes(kwargs->pairs[0].key);
        return bt_jctx_fail(ctx, BT_E_FORMAT, "macro '%.*s' takes no argument '%.*s'",
                            (int)BT_MIN(m->name.n, (size_t)100), m->name.p,
                            (int)BT_MIN(name.n, (size_t)100), name.p);
    }
    return BT_OK;
}

/* Index of a parameter, -1 when there is none of that name. */
static int param_of(const bt_jmacro *m, bt_str name)
{
    for (int i = 0; i < m->n_params; i++) {
        if (bt_str_eq(m->params[i], name)) {
            return i;
        }
    }
    return -1;
}

/* Binds the arguments in the macro's new scope, which is the current one. */
static bt_status bind_params(bt_jctx *ctx, const bt_jmacro *m, const bt_jcall *call)
{
    bt_jvalue *given;
    bt_jdict *kwargs;
    BT_TRY(bt_jctx_new(ctx, (size_t)m->n_params, sizeof *given, &given));
    BT_TRY(bt_jctx_new(ctx, 1, sizeof *kwargs, &kwargs));
    for (int i = 0; i < BT_MIN(m->n_params, call->n_pos); i++) {
        given[i] = call->pos[i];
    }
    for (int k = 0; k < call->n_named; k++) {
        int i = param_of(m, call->names[k]);
        if (i >= 0 && given[i].kind != BT_JVAL_UNSET) {
            return bt_jctx_fail(ctx, BT_E_FORMAT, "an argument of macro '%.*s' is given twice",
                                (int)BT_MIN(m->name.n, (size_t)100), m->name.p);
        }
        if (i >= 0) {
            given[i] = call->named[k];
        } else if (bt_str_eqz(call->names[k], "caller")) {
            BT_TRY(bt_jscope_set(ctx, BT_STR("caller"), call->named[k]));
        } else {
            bt_jvalue key;
            BT_TRY(bt_jvalue_str(ctx, call->names[k], true, &key));
            BT_TRY(bt_jdict_set(ctx, kwargs, key, call->named[k]));
        }
    }
    for (int i = 0; i < m->n_params; i++) {
        if (given[i].kind == BT_JVAL_UNSET) {
            BT_TRY(m->defaults[i] != NULL ? bt_jeval(ctx, m->defaults[i], &given[i])
                                          : bt_jvalue_undef(ctx, "", m->params[i], &given[i]));
        }
        BT_TRY(bt_jscope_set(ctx, m->params[i], given[i]));
    }
    return bind_rest(ctx, m, call, kwargs);
}

bt_status bt_jexec_macro(bt_jctx *ctx, const bt_jclosure *closure, const bt_jcall *call,
                         bt_jvalue *out)
{
    bt_jscope *back = ctx->scope;
    bt_jtext text = {.p = "", .trusted = true};
    BT_TRY(bt_jscope_push(ctx, closure->scope));
    BT_TRY(bind_params(ctx, closure->macro, call));
    BT_TRY(bt_jexec(ctx, closure->macro->body, &text));
    ctx->scope = back;
    out->kind = BT_JVAL_STR;
    return bt_jtext_store(ctx, &text, &out->as.text);
}
