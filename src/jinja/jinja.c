/* SPDX-License-Identifier: MIT
 *
 * jinja.c: compiling and rendering as a whole. */
#include "jinja/jinja.h"

#include "jinja/eval.h"
#include "jinja/parser.h"
#include "text/utf8.h"

#include <string.h>

enum { SOURCE_MAX = 1 << 20, CHUNK = 64 * 1024 };
#define COMPILE_MEMORY_MAX ((size_t)256 << 20)

struct bt_jinja {
    bt_arena arena; /* source, tokens, tree */
    bt_jstmt *root;
};

bt_status bt_jinja_open(bt_str source, bt_jinja **out, bt_err *err)
{
    bt_jtokens tokens;
    bt_status status;
    if (source.n > SOURCE_MAX) {
        return bt_fail(err, BT_E_LIMIT, "a chat template of %zu bytes; the most is %d", source.n,
                       SOURCE_MAX);
    }
    bt_jinja *tmpl = bt_mem_calloc(BT_MEM_TEXT, 1, sizeof *tmpl);
    if (tmpl == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "out of memory while compiling a chat template");
    }
    bt_arena_init(&tmpl->arena, BT_MEM_TEXT, CHUNK, COMPILE_MEMORY_MAX);
    BT_TRY_GOTO(status, bt_jlexer_run(source, &tmpl->arena, &tokens, err));
    BT_TRY_GOTO(status, bt_jparser_run(tokens, &tmpl->arena, &tmpl->root, err));
    *out = tmpl;
    return BT_OK;
fail:
    bt_jinja_close(tmpl);
    return status;
}

void bt_jinja_close(bt_jinja *tmpl)
{
    if (tmpl != NULL) {
        bt_arena_deinit(&tmpl->arena);
        bt_mem_free(tmpl);
    }
}

static bt_status set_vars(bt_jctx *ctx, const bt_jinja_args *args)
{
    for (size_t i = 0; i < args->n_vars; i++) {
        const bt_jinja_var *var = &args->vars[i];
        bt_jvalue v;
        if (var->json != NULL) {
            BT_TRY(bt_jvalue_from_json(ctx, var->json, var->trusted, &v));
        } else if (bt_utf8_valid(var->text) != var->text.n) {
            return bt_fail_param(ctx->err, BT_E_INVALID, var->name,
                                 "the template variable %s is not UTF-8", var->name);
        } else {
            BT_TRY(bt_jvalue_str(ctx, var->text, var->trusted, &v));
        }
        BT_TRY(bt_jscope_set(ctx, bt_str_of(var->name), v));
    }
    return BT_OK;
}

/* Copies text and marks out of the arena. */
static bt_status hand_out(bt_jctx *ctx, const bt_jtext *text, bt_jinja_output *out)
{
    bt_jinja_output result = {.n = text->n};
    size_t pos = 0;
    bt_str run;
    bool trusted;
    result.text = bt_mem_dup(BT_MEM_TEXT, text->p, text->n);
    result.runs = bt_mem_calloc(BT_MEM_TEXT, text->n_flips + 1, sizeof(bt_run));
    if (result.text == NULL || result.runs == NULL) {
        bt_jinja_output_deinit(&result);
        return bt_jctx_fail(ctx, BT_E_NO_MEMORY, "out of memory");
    }
    while (bt_jtext_next_run(text, &pos, &run, &trusted)) {
        result.runs[result.n_runs++] = (bt_run){.end = pos, .trusted = trusted};
    }
    *out = result;
    return BT_OK;
}

bt_status bt_jinja_render(const bt_jinja *tmpl, const bt_jinja_args *args, bt_jinja_output *out,
                          bt_err *err)
{
    bt_jtext text = {.p = "", .trusted = true};
    bt_status status;
    bt_jctx ctx = {.err = err,
                   .steps_left = BT_JINJA_STEPS_MAX,
                   .line = 1,
                   .now_unix_s = args->now_unix_s,
                   .output_max = args->output_max};
    bt_arena_init(&ctx.arena, BT_MEM_TEXT, CHUNK, BT_JINJA_MEMORY_MAX);
    /* Two scopes: the variables that are passed in, and what the template sets itself. */
    BT_TRY_GOTO(status, bt_jscope_push(&ctx, NULL));
    BT_TRY_GOTO(status, set_vars(&ctx, args));
    BT_TRY_GOTO(status, bt_jscope_push(&ctx, ctx.scope));
    BT_TRY_GOTO(status, bt_jexec(&ctx, tmpl->root, &text));
    BT_TRY_GOTO(status, hand_out(&ctx, &text, out));
fail:
    bt_arena_deinit(&ctx.arena);
    return status;
}

void bt_jinja_output_deinit(bt_jinja_output *out)
{
    bt_mem_free(out->text);
    bt_mem_free(out->runs);
    *out = (bt_jinja_output){0};
}
