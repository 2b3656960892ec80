/* SPDX-License-Identifier: MIT
 *
 * parser.c: statements. */
#include "jinja/parser.h"

#include "base/map.h"
#include "jinja/builtin.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bt_status bt_jparser_fail(bt_jparser *ps, bt_status status, const char *format, ...)
{
    char what[BT_ERR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return bt_fail_at(ps->err, status, (int64_t)ps->tok->offset, "chat template, line %d: %s",
                      ps->tok->line, what);
}

bt_status bt_jparser_new(bt_jparser *ps, size_t size, void *out)
{
    void *p = bt_arena_calloc(ps->arena, 1, size);
    if (p == NULL) {
        (void)bt_fail(ps->err, BT_E_NO_MEMORY, "out of memory while compiling a chat template");
        return BT_E_NO_MEMORY;
    }
    memcpy(out, &p, sizeof p); /* out points to a pointer of another type */
    return BT_OK;
}

bool bt_jparser_is_op(const bt_jparser *ps, const char *op)
{
    return ps->tok->kind == BT_JTOK_OP && bt_str_eqz(ps->tok->text, op);
}

bool bt_jparser_is_name(const bt_jparser *ps, const char *name)
{
    return ps->tok->kind == BT_JTOK_NAME && bt_str_eqz(ps->tok->text, name);
}

bool bt_jparser_skip_op(bt_jparser *ps, const char *op)
{
    bool here = bt_jparser_is_op(ps, op);
    ps->tok += here;
    return here;
}

bool bt_jparser_skip_name(bt_jparser *ps, const char *name)
{
    bool here = bt_jparser_is_name(ps, name);
    ps->tok += here;
    return here;
}

bt_status bt_jparser_expect_op(bt_jparser *ps, const char *op)
{
    return bt_jparser_skip_op(ps, op) ? BT_OK
                                      : bt_jparser_fail(ps, BT_E_FORMAT, "\"%s\" is expected", op);
}

bt_status bt_jparser_expect_name(bt_jparser *ps, bt_str *out)
{
    if (ps->tok->kind != BT_JTOK_NAME) {
        return bt_jparser_fail(ps, BT_E_FORMAT, "a name is expected");
    }
    *out = ps->tok->text;
    ps->tok++;
    return BT_OK;
}

static bt_status expect_kind(bt_jparser *ps, bt_jtok_kind kind, const char *what)
{
    if (ps->tok->kind != kind) {
        return bt_jparser_fail(ps, BT_E_FORMAT, "%s is expected", what);
    }
    ps->tok++;
    return BT_OK;
}

static bt_status block_end(bt_jparser *ps)
{
    return expect_kind(ps, BT_JTOK_BLOCK_END, "the end of the tag");
}

bt_status bt_jparser_note(bt_jparser *ps, bt_jname **list, bt_str name)
{
    bt_jname *entry;
    BT_TRY(bt_jparser_new(ps, sizeof *entry, &entry));
    *entry = (bt_jname){name, ps->tok->line, ps->tok->offset, *list};
    *list = entry;
    return BT_OK;
}

bt_status bt_jparser_enter(bt_jparser *ps)
{
    if (++ps->depth > BT_JINJA_NESTING_MAX) {
        return bt_jparser_fail(ps, BT_E_LIMIT, "nested deeper than %d levels",
                               BT_JINJA_NESTING_MAX);
    }
    return BT_OK;
}

void bt_jparser_leave(bt_jparser *ps)
{
    BT_ASSERT(ps->depth > 0);
    ps->depth--;
}

/* Whether the current tag is one of the (at most three) that end a body. */
static bool at_end_tag(const bt_jparser *ps, const char *const ends[3])
{
    if (ps->tok->kind != BT_JTOK_BLOCK || ps->tok[1].kind != BT_JTOK_NAME) {
        return false;
    }
    for (int i = 0; i < 3 && ends[i] != NULL; i++) {
        if (bt_str_eqz(ps->tok[1].text, ends[i])) {
            return true;
        }
    }
    return false;
}

static bt_status parse_tag(bt_jparser *ps, bt_jstmt *s);

/* Statements up to one of the end tags, whose "{%" is skipped; ends NULL: to the source's end. */
static bt_status parse_body(bt_jparser *ps, const char *const ends[3], bt_jstmt **out)
{
    bt_jstmt **tail = out;
    int line = ps->tok->line;
    *out = NULL;
    BT_TRY(bt_jparser_enter(ps));
    while (ps->tok->kind != BT_JTOK_END) {
        if (ends != NULL && at_end_tag(ps, ends)) {
            ps->tok++;
            bt_jparser_leave(ps);
            return BT_OK;
        }
        bt_jstmt *s;
        BT_TRY(bt_jparser_new(ps, sizeof *s, &s));
        s->line = ps->tok->line;
        if (ps->tok->kind == BT_JTOK_DATA) {
            s->kind = BT_JSTMT_DATA;
            s->data = ps->tok->text;
            ps->tok++;
        } else if (ps->tok->kind == BT_JTOK_PRINT) {
            s->kind = BT_JSTMT_PRINT;
            ps->tok++;
            BT_TRY(bt_jparser_tuple(ps, true, &s->expr));
            BT_TRY(expect_kind(ps, BT_JTOK_PRINT_END, "\"}}\""));
        } else {
            BT_TRY(expect_kind(ps, BT_JTOK_BLOCK, "a tag"));
            BT_TRY(parse_tag(ps, s));
        }
        *tail = s;
        tail = &s->next;
    }
    bt_jparser_leave(ps);
    if (ends != NULL) {
        return bt_jparser_fail(ps, BT_E_FORMAT, "\"%s\" is missing for the tag of line %d", ends[0],
                               line);
    }
    return BT_OK;
}

static bt_status parse_if(bt_jparser *ps, bt_jstmt *s)
{
    static const char *const ends[3] = {"endif", "elif", "else"};
    static const char *const last_end[3] = {"endif"};
    bt_jbranch **tail = &s->branches;
    s->kind = BT_JSTMT_IF;
    for (;;) {
        bt_jbranch *branch;
        BT_TRY(bt_jparser_new(ps, sizeof *branch, &branch));
        *tail = branch;
        tail = &branch->next;
        BT_TRY(bt_jparser_tuple(ps, false, &branch->condition));
        BT_TRY(block_end(ps));
        BT_TRY(parse_body(ps, ends, &branch->body));
        if (bt_jparser_skip_name(ps, "elif")) {
            continue;
        }
        if (bt_jparser_skip_name(ps, "else")) {
            BT_TRY(bt_jparser_new(ps, sizeof *branch, &branch));
            *tail = branch;
            BT_TRY(block_end(ps));
            BT_TRY(parse_body(ps, last_end, &branch->body));
        }
        ps->tok++;
        return block_end(ps);
    }
}

/* A name that is assigned to. `loop` and the constants are not assignable. */
static bt_status target_name(bt_jparser *ps, bt_str *out)
{
    static const char *const fixed[] = {"true", "false", "none", "True", "False", "None"};
    for (size_t i = 0; i < BT_COUNT(fixed); i++) {
        if (bt_jparser_is_name(ps, fixed[i])) {
            return bt_jparser_fail(ps, BT_E_FORMAT, "\"%s\" cannot be assigned to", fixed[i]);
        }
    }
    BT_TRY(bt_jparser_expect_name(ps, out));
    return bt_jparser_note(ps, &ps->stored, *out);
}

static bt_status parse_target(bt_jparser *ps, bool with_attr, bt_jtarget *out)
{
    bool bracket = bt_jparser_skip_op(ps, "(");
    bt_jname *names = NULL;
    size_t n = 0;
    BT_TRY(target_name(ps, &out->name));
    if (with_attr && !bracket && bt_jparser_skip_op(ps, ".")) {
        return bt_jparser_expect_name(ps, &out->attr);
    }
    if (bt_jparser_is_op(ps, ",")) {
        BT_TRY(bt_jparser_note(ps, &names, out->name));
        n = 1;
        while (bt_jparser_skip_op(ps, ",")) {
            if (ps->tok->kind != BT_JTOK_NAME || bt_jparser_is_name(ps, "in")) {
                break;
            }
            bt_str name;
            BT_TRY(target_name(ps, &name));
            BT_TRY(bt_jparser_note(ps, &names, name));
            n++;
        }
        BT_TRY(bt_jparser_new(ps, n * sizeof(bt_jtarget), &out->parts));
        out->n_parts = n;
        for (; names != NULL; names = names->next) {
            out->parts[--n].name = names->name;
        }
    }
    return bracket ? bt_jparser_expect_op(ps, ")") : BT_OK;
}

static bt_status parse_for(bt_jparser *ps, bt_jstmt *s)
{
    static const char *const ends[3] = {"endfor", "else"};
    static const char *const last_end[3] = {"endfor"};
    s->kind = BT_JSTMT_FOR;
    BT_TRY(parse_target(ps, false, &s->target));
    if (!bt_jparser_skip_name(ps, "in")) {
        return bt_jparser_fail(ps, BT_E_FORMAT, "\"in\" is expected");
    }
    BT_TRY(bt_jparser_tuple(ps, false, &s->expr));
    if (bt_jparser_skip_name(ps, "if")) {
        BT_TRY(bt_jparser_expr(ps, true, &s->condition));
    }
    if (bt_jparser_is_name(ps, "recursive")) {
        return bt_jparser_fail(ps, BT_E_UNSUPPORTED, "recursive loops are not supported");
    }
    BT_TRY(block_end(ps));
    ps->loops++;
    BT_TRY(parse_body(ps, ends, &s->body));
    ps->loops--;
    if (bt_jparser_skip_name(ps, "else")) {
        BT_TRY(block_end(ps));
        BT_TRY(parse_body(ps, last_end, &s->otherwise));
    }
    ps->tok++;
    return block_end(ps);
}

/* "a, b = …" without brackets on the right makes a tuple, as in Python. */
static bt_status parse_set(bt_jparser *ps, bt_jstmt *s)
{
    static const char *const ends[3] = {"endset"};
    BT_TRY(parse_target(ps, true, &s->target));
    if (bt_jparser_skip_op(ps, "=")) {
        s->kind = BT_JSTMT_SET;
        BT_TRY(bt_jparser_tuple(ps, true, &s->expr));
        return block_end(ps);
    }
    s->kind = BT_JSTMT_SETBLOCK;
    BT_TRY(bt_jparser_filters(ps, NULL, &s->expr));
    BT_TRY(block_end(ps));
    BT_TRY(parse_body(ps, ends, &s->body));
    ps->tok++;
    return block_end(ps);
}

/* "(a, b=1)"; nothing for a call tag without parameters. */
static bt_status parse_params(bt_jparser *ps, bt_jmacro *m)
{
    enum { PARAMS_MAX = 32 };
    BT_TRY(bt_jparser_new(ps, PARAMS_MAX * sizeof(bt_str), &m->params));
    BT_TRY(bt_jparser_new(ps, PARAMS_MAX * sizeof(bt_jexpr *), &m->defaults));
    BT_TRY(bt_jparser_expect_op(ps, "("));
    while (!bt_jparser_is_op(ps, ")")) {
        if (m->n_params > 0) {
            BT_TRY(bt_jparser_expect_op(ps, ","));
        }
        if (m->n_params == PARAMS_MAX) {
            return bt_jparser_fail(ps, BT_E_LIMIT, "a macro with more than %d parameters",
                                   PARAMS_MAX);
        }
        int i = m->n_params++;
        BT_TRY(target_name(ps, &m->params[i]));
        if (bt_jparser_skip_op(ps, "=")) {
            BT_TRY(bt_jparser_expr(ps, true, &m->defaults[i]));
        } else if (i > 0 && m->defaults[i - 1] != NULL) {
            return bt_jparser_fail(ps, BT_E_FORMAT,
                                   "a parameter without default after one with a default");
        }
    }
    return bt_jparser_expect_op(ps, ")");
}

static bt_status parse_macro_body(bt_jparser *ps, bt_jmacro *m, const char *const ends[3])
{
    int loops = ps->loops;
    bt_jmacro *outer = ps->macro;
    ps->loops = 0;
    ps->macro = m;
    BT_TRY(block_end(ps));
    BT_TRY(parse_body(ps, ends, &m->body));
    ps->loops = loops;
    ps->macro = outer;
    ps->tok++;
    return block_end(ps);
}

static bt_status parse_macro(bt_jparser *ps, bt_jstmt *s)
{
    static const char *const ends[3] = {"endmacro"};
    s->kind = BT_JSTMT_MACRO;
    BT_TRY(bt_jparser_new(ps, sizeof *s->macro, &s->macro));
    s->macro->line = s->line;
    BT_TRY(target_name(ps, &s->macro->name));
    BT_TRY(parse_params(ps, s->macro));
    return parse_macro_body(ps, s->macro, ends);
}

/* {% call(params) macro(args) %}body{% endcall %} */
static bt_status parse_call(bt_jparser *ps, bt_jstmt *s)
{
    static const char *const ends[3] = {"endcall"};
    s->kind = BT_JSTMT_CALL;
    BT_TRY(bt_jparser_new(ps, sizeof *s->macro, &s->macro));
    s->macro->name = BT_STR("caller");
    s->macro->line = s->line;
    if (bt_jparser_is_op(ps, "(")) {
        BT_TRY(parse_params(ps, s->macro));
    }
    BT_TRY(bt_jparser_expr(ps, true, &s->expr));
    const bt_jlink *last = s->expr->links;
    while (last != NULL && last->next != NULL) {
        last = last->next;
    }
    if (s->expr->kind != BT_JEXPR_POSTFIX || last == NULL || last->op != BT_JOP_CALL) {
        return bt_jparser_fail(ps, BT_E_FORMAT, "a call is expected");
    }
    return parse_macro_body(ps, s->macro, ends);
}

static bt_status parse_group(bt_jparser *ps, bt_jstmt *s)
{
    static const char *const ends[3] = {"endgeneration"};
    s->kind = BT_JSTMT_GROUP;
    BT_TRY(block_end(ps));
    BT_TRY(parse_body(ps, ends, &s->body));
    ps->tok++;
    return block_end(ps);
}

static bt_status parse_filter_block(bt_jparser *ps, bt_jstmt *s)
{
    static const char *const ends[3] = {"endfilter"};
    s->kind = BT_JSTMT_FILTER;
    BT_TRY(bt_jparser_filter_chain(ps, NULL, &s->expr));
    BT_TRY(block_end(ps));
    BT_TRY(parse_body(ps, ends, &s->body));
    ps->tok++;
    return block_end(ps);
}

static bt_status parse_with(bt_jparser *ps, bt_jstmt *s)
{
    enum { WITH_MAX = 32 };
    static const char *const ends[3] = {"endwith"};
    s->kind = BT_JSTMT_WITH;
    BT_TRY(bt_jparser_new(ps, WITH_MAX * sizeof(bt_str), &s->args.names));
    BT_TRY(bt_jparser_new(ps, WITH_MAX * sizeof(bt_jexpr *), &s->args.exprs));
    while (ps->tok->kind != BT_JTOK_BLOCK_END) {
        int i = s->args.n_named++;
        if (i > 0) {
            BT_TRY(bt_jparser_expect_op(ps, ","));
        }
        if (i == WITH_MAX) {
            return bt_jparser_fail(ps, BT_E_LIMIT, "more than %d variables in one with", WITH_MAX);
        }
        BT_TRY(target_name(ps, &s->args.names[i]));
        BT_TRY(bt_jparser_expect_op(ps, "="));
        BT_TRY(bt_jparser_expr(ps, true, &s->args.exprs[i]));
    }
    BT_TRY(block_end(ps));
    BT_TRY(parse_body(ps, ends, &s->body));
    ps->tok++;
    return block_end(ps);
}

static bt_status parse_jump(bt_jparser *ps, bt_jstmt *s)
{
    s->kind = bt_str_eqz(ps->tok[-1].text, "break") ? BT_JSTMT_BREAK : BT_JSTMT_CONTINUE;
    if (ps->loops == 0) {
        return bt_jparser_fail(ps, BT_E_FORMAT, "break or continue outside a loop");
    }
    return block_end(ps);
}

static bt_status parse_tag(bt_jparser *ps, bt_jstmt *s)
{
    static const struct {
        const char *name;
        bt_status (*parse)(bt_jparser *ps, bt_jstmt *s);
    } tags[] = {
        {"if", parse_if},      {"for", parse_for},
        {"set", parse_set},    {"macro", parse_macro},
        {"call", parse_call},  {"generation", parse_group},
        {"with", parse_with},  {"filter", parse_filter_block},
        {"break", parse_jump}, {"continue", parse_jump},
    };
    for (size_t i = 0; i < BT_COUNT(tags); i++) {
        if (bt_jparser_skip_name(ps, tags[i].name)) {
            return tags[i].parse(ps, s);
        }
    }
    if (ps->tok->kind != BT_JTOK_NAME) {
        return bt_jparser_fail(ps, BT_E_FORMAT, "the name of a tag is expected");
    }
    return bt_jparser_fail(ps, BT_E_UNSUPPORTED, "unknown tag \"%.*s\"",
                           (int)BT_MIN(ps->tok->text.n, (size_t)100), ps->tok->text.p);
}

/* A called name must be a function or something that the template itself defines: no variable that
 * is passed in can be called. */
static bt_status check_called(const bt_jparser *ps)
{
    bt_map stored;
    bt_status status = BT_OK;
    bool added;
    bt_map_init(&stored, BT_MEM_TEXT);
    bool room = bt_map_add(&stored, BT_STR("caller"), 0, &added);
    for (const bt_jname *s = ps->stored; s != NULL && room; s = s->next) {
        room = bt_map_add(&stored, s->name, 0, &added);
    }
    if (!room) {
        status = bt_fail(ps->err, BT_E_NO_MEMORY, "out of memory while compiling a chat template");
    }
    for (const bt_jname *c = ps->called; c != NULL && status == BT_OK; c = c->next) {
        if (bt_map_find(&stored, c->name) == NULL) {
            status = bt_fail_at(ps->err, BT_E_UNSUPPORTED, (int64_t)c->offset,
                                "chat template, line %d: unknown function \"%.*s\"", c->line,
                                (int)BT_MIN(c->name.n, (size_t)100), c->name.p);
        }
    }
    bt_map_deinit(&stored);
    return status;
}

bt_status bt_jparser_run(bt_jtokens tokens, bt_arena *arena, bt_jstmt **out, bt_err *err)
{
    BT_ASSERT(tokens.n > 0);
    bt_jparser ps = {.tok = tokens.items, .arena = arena, .err = err};
    bt_jstmt *root;
    BT_TRY(parse_body(&ps, NULL, &root));
    BT_TRY(check_called(&ps));
    *out = root;
    return BT_OK;
}
