/* SPDX-License-Identifier: MIT
 *
 * eval.c: expressions. */
#include "jinja/eval.h"

#include "jinja/format.h"
#include "jinja/ops.h"

static bt_status eval_name(bt_jctx *ctx, const bt_jexpr *e, bt_jvalue *out)
{
    if (bt_jscope_get(ctx, e->name, out)) {
        return BT_OK;
    }
    const bt_jbuiltin *func = bt_jbuiltin_function(e->name);
    if (func != NULL) {
        *out = (bt_jvalue){.kind = BT_JVAL_FUNC, .as.func = func};
        return BT_OK;
    }
    return bt_jvalue_undef(ctx, "", e->name, out);
}

static bt_status eval_list(bt_jctx *ctx, const bt_jexpr *e, bt_jvalue *out)
{
    bt_jlist *list;
    bt_jlist_kind kind = e->kind == BT_JEXPR_LIST ? BT_JLIST_LIST : BT_JLIST_TUPLE;
    BT_TRY(bt_jvalue_new_list(ctx, kind, e->n_items, &list));
    for (size_t i = 0; i < e->n_items; i++) {
        BT_TRY(bt_jeval(ctx, e->items[i], &list->items[i]));
    }
    *out = bt_jvalue_list(list);
    return BT_OK;
}

static bt_status eval_dict(bt_jctx *ctx, const bt_jexpr *e, bt_jvalue *out)
{
    bt_jdict *dict;
    BT_TRY(bt_jctx_new(ctx, 1, sizeof *dict, &dict));
    for (size_t i = 0; i + 1 < e->n_items; i += 2) {
        bt_jvalue key;
        bt_jvalue value;
        BT_TRY(bt_jeval(ctx, e->items[i], &key));
        BT_TRY(bt_jeval(ctx, e->items[i + 1], &value));
        BT_TRY(bt_jdict_set(ctx, dict, key, value));
    }
    *out = (bt_jvalue){.kind = BT_JVAL_DICT, .as.dict = dict};
    return BT_OK;
}

static bt_status eval_cond(bt_jctx *ctx, const bt_jexpr *e, bt_jvalue *out)
{
    bt_jvalue condition;
    BT_TRY(bt_jeval(ctx, e->items[0], &condition));
    const bt_jexpr *branch = bt_jvalue_truth(condition) ? e->items[1] : e->items[2];
    if (branch == NULL) {
        return bt_jvalue_undef(ctx, "", BT_STR("the inline if without else"), out);
    }
    return bt_jeval(ctx, branch, out);
}

/* "and" and "or" give the operand that decided. */
static bt_status eval_logic(bt_jctx *ctx, const bt_jexpr *e, bt_jvalue *out)
{
    bool is_or = e->kind == BT_JEXPR_OR;
    BT_TRY(bt_jeval(ctx, e->items[0], out));
    for (const bt_jlink *link = e->links; link != NULL; link = link->next) {
        if (bt_jvalue_truth(*out) == is_or) {
            return BT_OK;
        }
        BT_TRY(bt_jeval(ctx, link->operand[0], out));
    }
    return BT_OK;
}

/* a < b < c holds when both hold; b is evaluated once. */
static bt_status eval_compare(bt_jctx *ctx, const bt_jexpr *e, bt_jvalue *out)
{
    bt_jvalue left;
    bool holds = true;
    BT_TRY(bt_jeval(ctx, e->items[0], &left));
    for (const bt_jlink *link = e->links; link != NULL && holds; link = link->next) {
        bt_jvalue right;
        BT_TRY(bt_jeval(ctx, link->operand[0], &right));
        ctx->line = link->line;
        BT_TRY(bt_jop_compare(ctx, link->op, left, right, &holds));
        left = right;
    }
    *out = bt_jvalue_bool(holds);
    return BT_OK;
}

static bt_status eval_math(bt_jctx *ctx, const bt_jexpr *e, bt_jvalue *out)
{
    bt_jvalue left;
    BT_TRY(bt_jeval(ctx, e->items[0], &left));
    for (const bt_jlink *link = e->links; link != NULL; link = link->next) {
        bt_jvalue right;
        BT_TRY(bt_jeval(ctx, link->operand[0], &right));
        ctx->line = link->line;
        BT_TRY(bt_jop_math(ctx, link->op, left, right, &left));
    }
    *out = left;
    return BT_OK;
}

static bt_status eval_concat(bt_jctx *ctx, const bt_jexpr *e, bt_jvalue *out)
{
    bt_jtext text = {.p = ""};
    const bt_jexpr *operand = e->items[0];
    const bt_jlink *link = e->links;
    for (;;) {
        bt_jvalue v;
        bt_jtext piece;
        BT_TRY(bt_jeval(ctx, operand, &v));
        BT_TRY(bt_jformat_str(ctx, v, &piece));
        BT_TRY(bt_jtext_append(ctx, &text, &piece));
        if (link == NULL) {
            break;
        }
        operand = link->operand[0];
        link = link->next;
    }
    out->kind = BT_JVAL_STR;
    return bt_jtext_store(ctx, &text, &out->as.text);
}

bt_status bt_jeval_args(bt_jctx *ctx, const bt_jargs *args, const bt_jvalue *extra, bt_jcall *out)
{
    int n_named = args->n_named + (extra != NULL);
    bt_jvalue *values;
    bt_str *names;
    BT_TRY(bt_jctx_new(ctx, (size_t)(args->n_pos + n_named), sizeof *values, &values));
    BT_TRY(bt_jctx_new(ctx, (size_t)n_named, sizeof *names, &names));
    for (int i = 0; i < args->n_pos + args->n_named; i++) {
        BT_TRY(bt_jeval(ctx, args->exprs[i], &values[i]));
    }
    for (int i = 0; i < args->n_named; i++) {
        names[i] = args->names[i];
    }
    if (extra != NULL) {
        names[n_named - 1] = BT_STR("caller");
        values[args->n_pos + n_named - 1] = *extra;
    }
    *out = (bt_jcall){.pos = values,
                      .n_pos = args->n_pos,
                      .names = names,
                      .named = values + args->n_pos,
                      .n_named = n_named};
    return BT_OK;
}

bt_status bt_jeval_call(bt_jctx *ctx, bt_jvalue callee, const bt_jcall *call, bt_jvalue *out)
{
    switch (callee.kind) {
    case BT_JVAL_MACRO:
        return bt_jexec_macro(ctx, callee.as.macro, call, out);
    case BT_JVAL_FUNC:
        return bt_jbuiltin_call(ctx, callee.as.func, bt_jvalue_none(), call, out);
    case BT_JVAL_METHOD:
        return bt_jbuiltin_call(ctx, callee.as.method->builtin, callee.as.method->self, call, out);
    case BT_JVAL_UNDEF:
        return bt_jvalue_fail_undef(ctx, callee);
    default:
        return bt_jctx_fail(ctx, BT_E_FORMAT, "'%s' object is not callable",
                            bt_jvalue_type(callee));
    }
}

static bt_status eval_slice(bt_jctx *ctx, const bt_jlink *link, bt_jvalue v, bt_jvalue *out)
{
    bt_jvalue bounds[3];
    for (int i = 0; i < 3; i++) {
        bounds[i] = bt_jvalue_none();
        if (link->operand[i] != NULL) {
            BT_TRY(bt_jeval(ctx, link->operand[i], &bounds[i]));
        }
    }
    return bt_jop_slice(ctx, v, bounds, out);
}

static bt_status apply_link(bt_jctx *ctx, const bt_jlink *link, bt_jvalue v, bt_jvalue *out)
{
    bt_jvalue key;
    bt_jcall call;
    switch (link->op) {
    case BT_JOP_ATTR:
        return bt_jop_attr(ctx, v, link->name, out);
    case BT_JOP_ITEM:
        BT_TRY(bt_jeval(ctx, link->operand[0], &key));
        return bt_jop_item(ctx, v, key, out);
    case BT_JOP_SLICE:
        return eval_slice(ctx, link, v, out);
    case BT_JOP_CALL:
        BT_TRY(bt_jeval_args(ctx, &link->args, NULL, &call));
        return bt_jeval_call(ctx, v, &call, out);
    default:
        break;
    }
    BT_ASSERT(link->op >= BT_JOP_FILTER);
    BT_TRY(bt_jeval_args(ctx, &link->args, NULL, &call));
    ctx->line = link->line;
    BT_TRY(bt_jbuiltin_call(ctx, link->builtin, v, &call, out));
    if (link->op == BT_JOP_TEST_NOT) {
        *out = bt_jvalue_bool(!bt_jvalue_truth(*out));
    }
    return BT_OK;
}

bt_status bt_jeval_links(bt_jctx *ctx, const bt_jlink *links, bt_jvalue *value)
{
    for (const bt_jlink *link = links; link != NULL; link = link->next) {
        bt_jvalue next;
        BT_TRY(bt_jctx_charge(ctx, 0));
        ctx->line = link->line;
        BT_TRY(apply_link(ctx, link, *value, &next));
        *value = next;
    }
    return BT_OK;
}

static bt_status eval_kind(bt_jctx *ctx, const bt_jexpr *e, bt_jvalue *out)
{
    bt_jvalue v;
    switch (e->kind) {
    case BT_JEXPR_CONST:
        *out = e->value;
        return BT_OK;
    case BT_JEXPR_NAME:
        return eval_name(ctx, e, out);
    case BT_JEXPR_LIST:
    case BT_JEXPR_TUPLE:
        return eval_list(ctx, e, out);
    case BT_JEXPR_DICT:
        return eval_dict(ctx, e, out);
    case BT_JEXPR_COND:
        return eval_cond(ctx, e, out);
    case BT_JEXPR_NOT:
        BT_TRY(bt_jeval(ctx, e->items[0], &v));
        *out = bt_jvalue_bool(!bt_jvalue_truth(v));
        return BT_OK;
    case BT_JEXPR_NEG:
    case BT_JEXPR_POS:
        BT_TRY(bt_jeval(ctx, e->items[0], &v));
        return bt_jop_sign(ctx, e->kind == BT_JEXPR_NEG, v, out);
    case BT_JEXPR_OR:
    case BT_JEXPR_AND:
        return eval_logic(ctx, e, out);
    case BT_JEXPR_COMPARE:
        return eval_compare(ctx, e, out);
    case BT_JEXPR_MATH:
        return eval_math(ctx, e, out);
    case BT_JEXPR_CONCAT:
        return eval_concat(ctx, e, out);
    case BT_JEXPR_POSTFIX:
        break;
    }
    BT_TRY(bt_jeval(ctx, e->items[0], &v));
    BT_TRY(bt_jeval_links(ctx, e->links, &v));
    *out = v;
    return BT_OK;
}

bt_status bt_jeval(bt_jctx *ctx, const bt_jexpr *e, bt_jvalue *out)
{
    BT_TRY(bt_jctx_charge(ctx, 0));
    BT_TRY(bt_jctx_enter(ctx));
    ctx->line = e->line;
    BT_TRY(eval_kind(ctx, e, out));
    bt_jctx_leave(ctx);
    return BT_OK;
}
