/* SPDX-License-Identifier: MIT */
#include "jinja/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct bt_jbinding {
    bt_jbinding *next;
    bt_str name;
    bt_jvalue value;
};

bt_status bt_jctx_fail(bt_jctx *ctx, bt_status status, const char *format, ...)
{
    char what[BT_ERR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return bt_fail_at(ctx->err, status, ctx->line, "chat template, line %d: %s", ctx->line, what);
}

bt_status bt_jctx_charge(bt_jctx *ctx, size_t work)
{
    size_t steps = 1 + work / 64;
    if (steps > (size_t)ctx->steps_left) {
        ctx->steps_left = 0;
        return bt_jctx_fail(ctx, BT_E_LIMIT, "the template takes more than %d steps",
                            BT_JINJA_STEPS_MAX);
    }
    ctx->steps_left -= (int64_t)steps;
    return BT_OK;
}

bt_status bt_jctx_charge_product(bt_jctx *ctx, size_t n, size_t m)
{
    size_t work;
    return bt_jctx_charge(ctx, bt_mul_ok(n, m, &work) ? work : SIZE_MAX);
}

bt_status bt_jctx_new(bt_jctx *ctx, size_t n, size_t size, void *out)
{
    size_t bytes;
    if (!bt_mul_ok(n, size, &bytes) || bytes > ctx->arena.limit - ctx->arena.used) {
        return bt_jctx_fail(ctx, BT_E_LIMIT, "the template takes more than %zu MiB of memory",
                            BT_JINJA_MEMORY_MAX >> 20);
    }
    BT_TRY(bt_jctx_charge(ctx, bytes));
    void *p = bt_arena_calloc(&ctx->arena, 1, bytes);
    if (p == NULL) {
        return bt_jctx_fail(ctx, BT_E_NO_MEMORY, "out of memory");
    }
    memcpy(out, &p, sizeof p); /* out points to a pointer of another type */
    return BT_OK;
}

bt_status bt_jctx_enter(bt_jctx *ctx)
{
    if (ctx->depth >= BT_JINJA_DEPTH_MAX) {
        return bt_jctx_fail(ctx, BT_E_LIMIT, "nested deeper than %d evaluations (endless macro?)",
                            BT_JINJA_DEPTH_MAX);
    }
    ctx->depth++;
    return BT_OK;
}

void bt_jctx_leave(bt_jctx *ctx)
{
    BT_DEBUG_ASSERT(ctx->depth > 0);
    ctx->depth--;
}

bt_status bt_jscope_push(bt_jctx *ctx, bt_jscope *outer)
{
    bt_jscope *scope = NULL;
    BT_TRY(bt_jctx_new(ctx, 1, sizeof *scope, &scope));
    scope->outer = outer;
    ctx->scope = scope;
    return BT_OK;
}

static bt_jbinding *find(const bt_jscope *scope, bt_str name)
{
    for (bt_jbinding *b = scope->bindings; b != NULL; b = b->next) {
        if (bt_str_eq(b->name, name)) {
            return b;
        }
    }
    return NULL;
}

bt_status bt_jscope_set(bt_jctx *ctx, bt_str name, bt_jvalue value)
{
    bt_jbinding *b = find(ctx->scope, name);
    if (b == NULL) {
        BT_TRY(bt_jctx_new(ctx, 1, sizeof *b, &b));
        b->name = name;
        b->next = ctx->scope->bindings;
        ctx->scope->bindings = b;
    }
    b->value = value;
    return BT_OK;
}

bool bt_jscope_get(const bt_jctx *ctx, bt_str name, bt_jvalue *out)
{
    for (const bt_jscope *scope = ctx->scope; scope != NULL; scope = scope->outer) {
        const bt_jbinding *b = find(scope, name);
        if (b != NULL) {
            *out = b->value;
            return true;
        }
    }
    return false;
}
