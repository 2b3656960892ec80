/* SPDX-License-Identifier: MIT
 *
 * exprparser.c: expressions by recursive descent, one function a group of precedence levels:
 *   inline if < or < and < not < comparisons, in < + - < ~ < * / // % < ** < sign < postfix.
 * A sign binds tighter than a filter: -x|abs is (-x)|abs. */
#include "jinja/parser.h"

#include "jinja/builtin.h"

#include <string.h>

static bt_status new_expr(bt_jparser *ps, bt_jexpr_kind kind, bt_jexpr **out)
{
    BT_TRY(bt_jparser_new(ps, sizeof **out, out));
    (*out)->kind = kind;
    (*out)->line = ps->tok->line;
    return BT_OK;
}

static bt_status set_items(bt_jparser *ps, bt_jexpr *e, size_t n)
{
    BT_TRY(bt_jparser_new(ps, n * sizeof(bt_jexpr *), &e->items));
    e->n_items = n;
    return BT_OK;
}

/* A growing list while a bracket is read. */
typedef struct exprs {
    bt_jexpr **items;
    size_t n, cap;
} exprs;

static bt_status exprs_add(bt_jparser *ps, exprs *list, bt_jexpr *e)
{
    if (list->n == list->cap) {
        size_t cap = list->cap == 0 ? 4 : list->cap * 2;
        bt_jexpr **items;
        BT_TRY(bt_jparser_new(ps, cap * sizeof *items, &items));
        if (list->n > 0) {
            memcpy(items, list->items, list->n * sizeof *items);
        }
        list->items = items;
        list->cap = cap;
    }
    list->items[list->n++] = e;
    return BT_OK;
}

static bt_status add_expr(bt_jparser *ps, exprs *list)
{
    bt_jexpr *e;
    BT_TRY(bt_jparser_expr(ps, true, &e));
    return exprs_add(ps, list, e);
}

/* The appending end of a chain: makes `*e` a chain of that kind when it is none yet. */
static bt_status chain_link(bt_jparser *ps, bt_jexpr **e, bt_jexpr_kind kind, bt_jlink ***tail,
                            bt_jlink **link)
{
    if (*tail == NULL) {
        bt_jexpr *chain;
        BT_TRY(new_expr(ps, kind, &chain));
        BT_TRY(set_items(ps, chain, 1));
        chain->items[0] = *e;
        *e = chain;
        *tail = &chain->links;
    }
    BT_TRY(bt_jparser_new(ps, sizeof **link, link));
    (*link)->line = ps->tok->line;
    **tail = *link;
    *tail = &(*link)->next;
    return BT_OK;
}

static bt_status parse_list(bt_jparser *ps, bt_jexpr **out)
{
    exprs list = {0};
    BT_TRY(new_expr(ps, BT_JEXPR_LIST, out));
    BT_TRY(bt_jparser_expect_op(ps, "["));
    while (!bt_jparser_is_op(ps, "]")) {
        if (list.n > 0) {
            BT_TRY(bt_jparser_expect_op(ps, ","));
            if (bt_jparser_is_op(ps, "]")) {
                break;
            }
        }
        BT_TRY(add_expr(ps, &list));
    }
    (*out)->items = list.items;
    (*out)->n_items = list.n;
    return bt_jparser_expect_op(ps, "]");
}

static bt_status parse_dict(bt_jparser *ps, bt_jexpr **out)
{
    exprs list = {0};
    BT_TRY(new_expr(ps, BT_JEXPR_DICT, out));
    BT_TRY(bt_jparser_expect_op(ps, "{"));
    while (!bt_jparser_is_op(ps, "}")) {
        if (list.n > 0) {
            BT_TRY(bt_jparser_expect_op(ps, ","));
            if (bt_jparser_is_op(ps, "}")) {
                break;
            }
        }
        BT_TRY(add_expr(ps, &list));
        BT_TRY(bt_jparser_expect_op(ps, ":"));
        BT_TRY(add_expr(ps, &list));
    }
    (*out)->items = list.items;
    (*out)->n_items = list.n;
    return bt_jparser_expect_op(ps, "}");
}

static bt_status parse_string(bt_jparser *ps, bt_jexpr *e)
{
    bt_str text = ps->tok->text;
    ps->tok++;
    while (ps->tok->kind == BT_JTOK_STRING) {
        char *joined;
        bt_str more = ps->tok->text;
        BT_TRY(bt_jparser_new(ps, text.n + more.n + 1, &joined));
        memcpy(joined, text.p, text.n);
        memcpy(joined + text.n, more.p, more.n);
        text = (bt_str){joined, text.n + more.n};
        ps->tok++;
    }
    bt_jtext *t;
    BT_TRY(bt_jparser_new(ps, sizeof *t, &t));
    *t = (bt_jtext){.p = text.p, .n = text.n, .trusted = true};
    e->value = (bt_jvalue){.kind = BT_JVAL_STR, .as.text = t};
    return BT_OK;
}

static bt_status parse_name(bt_jparser *ps, bt_jexpr *e)
{
    bt_str name = ps->tok->text;
    ps->tok++;
    bool is_true = bt_str_eqz(name, "true") || bt_str_eqz(name, "True");
    if (is_true || bt_str_eqz(name, "false") || bt_str_eqz(name, "False")) {
        e->value = (bt_jvalue){.kind = BT_JVAL_BOOL, .as.b = is_true};
    } else if (bt_str_eqz(name, "none") || bt_str_eqz(name, "None")) {
        e->value = (bt_jvalue){.kind = BT_JVAL_NONE};
    } else {
        e->kind = BT_JEXPR_NAME;
        e->name = name;
        if (ps->macro != NULL) {
            ps->macro->takes_varargs |= bt_str_eqz(name, "varargs");
            ps->macro->takes_kwargs |= bt_str_eqz(name, "kwargs");
        }
    }
    return BT_OK;
}

static bt_status parse_parenthesis(bt_jparser *ps, bt_jexpr **out)
{
    BT_TRY(bt_jparser_expect_op(ps, "("));
    if (bt_jparser_is_op(ps, ")")) {
        BT_TRY(new_expr(ps, BT_JEXPR_TUPLE, out));
    } else {
        BT_TRY(bt_jparser_tuple(ps, true, out));
    }
    return bt_jparser_expect_op(ps, ")");
}

static bt_status parse_primary(bt_jparser *ps, bt_jexpr **out)
{
    if (bt_jparser_is_op(ps, "(")) {
        return parse_parenthesis(ps, out);
    }
    if (bt_jparser_is_op(ps, "[")) {
        return parse_list(ps, out);
    }
    if (bt_jparser_is_op(ps, "{")) {
        return parse_dict(ps, out);
    }
    BT_TRY(new_expr(ps, BT_JEXPR_CONST, out));
    const bt_jtok *tok = ps->tok;
    switch (tok->kind) {
    case BT_JTOK_NAME:
        return parse_name(ps, *out);
    case BT_JTOK_STRING:
        return parse_string(ps, *out);
    case BT_JTOK_INT:
        (*out)->value = (bt_jvalue){.kind = BT_JVAL_INT, .as.i = tok->i};
        break;
    case BT_JTOK_REAL:
        (*out)->value = (bt_jvalue){.kind = BT_JVAL_REAL, .as.r = tok->r};
        break;
    default:
        return bt_jparser_fail(ps, BT_E_FORMAT, "an expression is expected here");
    }
    ps->tok++;
    return BT_OK;
}

static bt_status parse_args(bt_jparser *ps, bt_jargs *args)
{
    exprs list = {0};
    bt_jname *names = NULL;
    bt_jname **tail = &names;
    BT_TRY(bt_jparser_expect_op(ps, "("));
    while (!bt_jparser_is_op(ps, ")")) {
        if (list.n > 0) {
            BT_TRY(bt_jparser_expect_op(ps, ","));
            if (bt_jparser_is_op(ps, ")")) {
                break;
            }
        }
        if (bt_jparser_is_op(ps, "*") || bt_jparser_is_op(ps, "**")) {
            return bt_jparser_fail(ps, BT_E_UNSUPPORTED, "unpacked arguments are not supported");
        }
        bool named = ps->tok->kind == BT_JTOK_NAME && ps->tok[1].kind == BT_JTOK_OP &&
                     bt_str_eqz(ps->tok[1].text, "=");
        if (named) {
            BT_TRY(bt_jparser_note(ps, tail, ps->tok->text));
            tail = &(*tail)->next;
            ps->tok += 2;
            args->n_named++;
        } else if (args->n_named > 0) {
            return bt_jparser_fail(ps, BT_E_FORMAT, "a positional argument after a named one");
        } else {
            args->n_pos++;
        }
        BT_TRY(add_expr(ps, &list));
    }
    args->exprs = list.items;
    BT_TRY(bt_jparser_new(ps, (size_t)args->n_named * sizeof(bt_str), &args->names));
    for (int i = 0; names != NULL; names = names->next) {
        args->names[i++] = names->name;
    }
    return bt_jparser_expect_op(ps, ")");
}

/* After "[": an index, a tuple of them, or a slice. */
static bt_status parse_subscript(bt_jparser *ps, bt_jlink *link)
{
    link->op = BT_JOP_ITEM;
    if (!bt_jparser_is_op(ps, ":")) {
        BT_TRY(bt_jparser_tuple(ps, true, &link->operand[0]));
    }
    for (int part = 1; part < 3 && bt_jparser_skip_op(ps, ":"); part++) {
        link->op = BT_JOP_SLICE;
        if (!bt_jparser_is_op(ps, ":") && !bt_jparser_is_op(ps, "]")) {
            BT_TRY(bt_jparser_expr(ps, true, &link->operand[part]));
        }
    }
    return bt_jparser_expect_op(ps, "]");
}

/* A call needs a callee that may exist: a method of some type, a function, a macro, a variable. */
static bt_status check_callee(bt_jparser *ps, const bt_jexpr *base, const bt_jlink *last)
{
    if (last != NULL && last->op == BT_JOP_ATTR && !bt_jbuiltin_is_method(last->name)) {
        return bt_jparser_fail(ps, BT_E_UNSUPPORTED, "unknown method \"%.*s\"",
                               (int)BT_MIN(last->name.n, (size_t)100), last->name.p);
    }
    if (last == NULL && base->kind == BT_JEXPR_NAME && bt_jbuiltin_function(base->name) == NULL) {
        return bt_jparser_note(ps, &ps->called, base->name);
    }
    return BT_OK;
}

static bt_status parse_attribute(bt_jparser *ps, bt_jlink *link)
{
    if (ps->tok->kind == BT_JTOK_INT) {
        link->op = BT_JOP_ITEM;
        return parse_primary(ps, &link->operand[0]);
    }
    link->op = BT_JOP_ATTR;
    return bt_jparser_expect_name(ps, &link->name);
}

/* The names of filters and tests that are given as strings are checked like the others. */
static bt_status check_indirect(bt_jparser *ps, const bt_jlink *link)
{
    static const struct {
        const char *filter;
        int arg;
        bool test;
    } rows[] = {{"map", 0, false},
                {"select", 0, true},
                {"reject", 0, true},
                {"selectattr", 1, true},
                {"rejectattr", 1, true}};
    for (size_t i = 0; i < BT_COUNT(rows); i++) {
        if (!bt_str_eqz(link->name, rows[i].filter) || link->args.n_pos <= rows[i].arg) {
            continue;
        }
        const bt_jexpr *e = link->args.exprs[rows[i].arg];
        if (e->kind != BT_JEXPR_CONST || e->value.kind != BT_JVAL_STR) {
            continue;
        }
        bt_str name = {e->value.as.text->p, e->value.as.text->n};
        bool known =
            rows[i].test ? bt_jbuiltin_test(name) != NULL : bt_jbuiltin_filter(name) != NULL;
        if (!known) {
            return bt_jparser_fail(ps, BT_E_UNSUPPORTED, "unknown %s \"%.*s\"",
                                   rows[i].test ? "test" : "filter",
                                   (int)BT_MIN(name.n, (size_t)100), name.p);
        }
    }
    return BT_OK;
}

static bt_status parse_filter(bt_jparser *ps, bt_jlink *link)
{
    link->op = BT_JOP_FILTER;
    if (ps->tok->kind == BT_JTOK_NAME) {
        link->builtin = bt_jbuiltin_filter(ps->tok->text);
        if (link->builtin == NULL) {
            return bt_jparser_fail(ps, BT_E_UNSUPPORTED, "unknown filter \"%.*s\"",
                                   (int)BT_MIN(ps->tok->text.n, (size_t)100), ps->tok->text.p);
        }
    }
    BT_TRY(bt_jparser_expect_name(ps, &link->name));
    if (bt_jparser_is_op(ps, "(")) {
        BT_TRY(parse_args(ps, &link->args));
    }
    return check_indirect(ps, link);
}

static bt_status parse_operand(bt_jparser *ps, bool with_filters, bt_jexpr **out);

/* After "is". */
static bt_status parse_test(bt_jparser *ps, bt_jlink *link)
{
    link->op = bt_jparser_skip_name(ps, "not") ? BT_JOP_TEST_NOT : BT_JOP_TEST;
    if (ps->tok->kind == BT_JTOK_NAME) {
        link->builtin = bt_jbuiltin_test(ps->tok->text);
        if (link->builtin == NULL) {
            return bt_jparser_fail(ps, BT_E_UNSUPPORTED, "unknown test \"%.*s\"",
                                   (int)BT_MIN(ps->tok->text.n, (size_t)100), ps->tok->text.p);
        }
    }
    BT_TRY(bt_jparser_expect_name(ps, &link->name));
    if (bt_jparser_is_op(ps, "(")) {
        return parse_args(ps, &link->args);
    }
    bt_jtok_kind kind = ps->tok->kind;
    bool arg_follows = kind == BT_JTOK_STRING || kind == BT_JTOK_INT || kind == BT_JTOK_REAL ||
                       bt_jparser_is_op(ps, "[") || bt_jparser_is_op(ps, "{");
    if (kind == BT_JTOK_NAME) {
        static const char *const ends[] = {"else", "or", "and", "if", "not", "in", "is"};
        arg_follows = true;
        for (size_t i = 0; i < BT_COUNT(ends); i++) {
            arg_follows = arg_follows && !bt_jparser_is_name(ps, ends[i]);
        }
    }
    if (!arg_follows) {
        return BT_OK;
    }
    BT_TRY(bt_jparser_new(ps, sizeof(bt_jexpr *), &link->args.exprs));
    link->args.n_pos = 1;
    return parse_operand(ps, false, &link->args.exprs[0]);
}

/* The operations after an operand: .a [i] (…), and with filters also |f and is t. */
static bt_status parse_postfix(bt_jparser *ps, bool with_filters, bt_jexpr **e)
{
    bt_jexpr *base = *e;
    bt_jlink **tail = NULL;
    bt_jlink *link = NULL;
    for (bool filtered = false;;) {
        bt_jlink *last = link;
        bool dot = !filtered && bt_jparser_is_op(ps, ".");
        bool item = !filtered && bt_jparser_is_op(ps, "[");
        bool call = bt_jparser_is_op(ps, "(");
        bool filter = with_filters && bt_jparser_is_op(ps, "|");
        bool test = with_filters && bt_jparser_is_name(ps, "is");
        if (!dot && !item && !call && !filter && !test) {
            return BT_OK;
        }
        if (call) {
            BT_TRY(check_callee(ps, base, last));
        }
        BT_TRY(chain_link(ps, e, BT_JEXPR_POSTFIX, &tail, &link));
        filtered = filtered || filter || test;
        if (call) {
            link->op = BT_JOP_CALL;
            BT_TRY(parse_args(ps, &link->args));
            continue;
        }
        ps->tok++;
        BT_TRY(dot      ? parse_attribute(ps, link)
               : item   ? parse_subscript(ps, link)
               : filter ? parse_filter(ps, link)
                        : parse_test(ps, link));
    }
}

bt_status bt_jparser_filter_chain(bt_jparser *ps, bt_jexpr *base, bt_jexpr **out)
{
    bt_jexpr *e = base;
    bt_jlink **tail = NULL;
    do {
        bt_jlink *link;
        BT_TRY(chain_link(ps, &e, BT_JEXPR_POSTFIX, &tail, &link));
        BT_TRY(parse_filter(ps, link));
    } while (bt_jparser_skip_op(ps, "|"));
    *out = e;
    return BT_OK;
}

bt_status bt_jparser_filters(bt_jparser *ps, bt_jexpr *base, bt_jexpr **out)
{
    *out = base;
    return bt_jparser_skip_op(ps, "|") ? bt_jparser_filter_chain(ps, base, out) : BT_OK;
}

/* A sign, or a primary expression, with what follows it. */
static bt_status parse_operand(bt_jparser *ps, bool with_filters, bt_jexpr **out)
{
    bool minus = bt_jparser_is_op(ps, "-");
    BT_TRY(bt_jparser_enter(ps));
    if (minus || bt_jparser_is_op(ps, "+")) {
        BT_TRY(new_expr(ps, minus ? BT_JEXPR_NEG : BT_JEXPR_POS, out));
        BT_TRY(set_items(ps, *out, 1));
        ps->tok++;
        BT_TRY(parse_operand(ps, false, &(*out)->items[0]));
    } else {
        BT_TRY(parse_primary(ps, out));
    }
    BT_TRY(parse_postfix(ps, with_filters, out));
    bt_jparser_leave(ps);
    return BT_OK;
}

typedef struct op_name {
    const char *text;
    bt_jop op;
} op_name;

static bt_jop op_here(const bt_jparser *ps, const op_name *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bt_jparser_is_op(ps, names[i].text)) {
            return names[i].op;
        }
    }
    return BT_JOP_NONE;
}

/* Levels of left-associative operators, from the loosest. */
enum { LEVEL_SUM, LEVEL_CONCAT, LEVEL_PRODUCT, LEVEL_POWER, LEVEL_COUNT };

static bt_status parse_math(bt_jparser *ps, int level, bt_jexpr **out)
{
    static const op_name sums[] = {{"+", BT_JOP_ADD}, {"-", BT_JOP_SUB}};
    static const op_name products[] = {
        {"*", BT_JOP_MUL}, {"/", BT_JOP_DIV}, {"//", BT_JOP_FLOORDIV}, {"%", BT_JOP_MOD}};
    static const op_name powers[] = {{"**", BT_JOP_POW}};
    static const op_name tildes[] = {{"~", BT_JOP_ADD}};
    static const struct {
        const op_name *names;
        size_t n;
    } levels[LEVEL_COUNT] = {{sums, 2}, {tildes, 1}, {products, 4}, {powers, 1}};
    if (level == LEVEL_COUNT) {
        return parse_operand(ps, true, out);
    }
    BT_TRY(parse_math(ps, level + 1, out));
    bt_jlink **tail = NULL;
    bt_jop op;
    while ((op = op_here(ps, levels[level].names, levels[level].n)) != BT_JOP_NONE) {
        bt_jlink *link;
        bt_jexpr_kind kind = level == LEVEL_CONCAT ? BT_JEXPR_CONCAT : BT_JEXPR_MATH;
        BT_TRY(chain_link(ps, out, kind, &tail, &link));
        link->op = op;
        ps->tok++;
        BT_TRY(parse_math(ps, level + 1, &link->operand[0]));
    }
    return BT_OK;
}

static bt_jop compare_op(bt_jparser *ps)
{
    static const op_name names[] = {{"==", BT_JOP_EQ}, {"!=", BT_JOP_NE}, {"<", BT_JOP_LT},
                                    {"<=", BT_JOP_LE}, {">", BT_JOP_GT},  {">=", BT_JOP_GE}};
    bt_jop op = op_here(ps, names, BT_COUNT(names));
    if (op != BT_JOP_NONE) {
        ps->tok++;
        return op;
    }
    if (bt_jparser_skip_name(ps, "in")) {
        return BT_JOP_IN;
    }
    bool not_in = bt_jparser_is_name(ps, "not") && ps->tok[1].kind == BT_JTOK_NAME &&
                  bt_str_eqz(ps->tok[1].text, "in");
    if (not_in) {
        ps->tok += 2;
    }
    return not_in ? BT_JOP_NOT_IN : BT_JOP_NONE;
}

static bt_status parse_compare(bt_jparser *ps, bt_jexpr **out)
{
    BT_TRY(parse_math(ps, LEVEL_SUM, out));
    bt_jlink **tail = NULL;
    bt_jop op;
    while ((op = compare_op(ps)) != BT_JOP_NONE) {
        bt_jlink *link;
        BT_TRY(chain_link(ps, out, BT_JEXPR_COMPARE, &tail, &link));
        link->op = op;
        BT_TRY(parse_math(ps, LEVEL_SUM, &link->operand[0]));
    }
    return BT_OK;
}

static bt_status parse_not(bt_jparser *ps, bt_jexpr **out)
{
    if (!bt_jparser_is_name(ps, "not")) {
        return parse_compare(ps, out);
    }
    BT_TRY(bt_jparser_enter(ps));
    BT_TRY(new_expr(ps, BT_JEXPR_NOT, out));
    BT_TRY(set_items(ps, *out, 1));
    ps->tok++;
    BT_TRY(parse_not(ps, &(*out)->items[0]));
    bt_jparser_leave(ps);
    return BT_OK;
}

/* "or" (level 0) over "and" (level 1). */
static bt_status parse_logic(bt_jparser *ps, int level, bt_jexpr **out)
{
    if (level == 2) {
        return parse_not(ps, out);
    }
    BT_TRY(parse_logic(ps, level + 1, out));
    bt_jlink **tail = NULL;
    while (bt_jparser_skip_name(ps, level == 0 ? "or" : "and")) {
        bt_jlink *link;
        BT_TRY(chain_link(ps, out, level == 0 ? BT_JEXPR_OR : BT_JEXPR_AND, &tail, &link));
        BT_TRY(parse_logic(ps, level + 1, &link->operand[0]));
    }
    return BT_OK;
}

bt_status bt_jparser_expr(bt_jparser *ps, bool with_cond, bt_jexpr **out)
{
    BT_TRY(bt_jparser_enter(ps));
    bt_jexpr *e;
    BT_TRY(parse_logic(ps, 0, &e));
    int depth = ps->depth;
    while (with_cond && bt_jparser_is_name(ps, "if")) {
        /* "a if b if c" nests to the left: each counts until the end. */
        bt_jexpr *cond;
        BT_TRY(bt_jparser_enter(ps));
        BT_TRY(new_expr(ps, BT_JEXPR_COND, &cond));
        BT_TRY(set_items(ps, cond, 3));
        ps->tok++;
        cond->items[1] = e;
        BT_TRY(parse_logic(ps, 0, &cond->items[0]));
        if (bt_jparser_skip_name(ps, "else")) {
            BT_TRY(bt_jparser_expr(ps, true, &cond->items[2]));
        }
        e = cond;
    }
    ps->depth = depth;
    bt_jparser_leave(ps);
    *out = e;
    return BT_OK;
}

bt_status bt_jparser_tuple(bt_jparser *ps, bool with_cond, bt_jexpr **out)
{
    bt_jexpr *first;
    BT_TRY(bt_jparser_expr(ps, with_cond, &first));
    if (!bt_jparser_is_op(ps, ",")) {
        *out = first;
        return BT_OK;
    }
    exprs list = {0};
    BT_TRY(new_expr(ps, BT_JEXPR_TUPLE, out));
    BT_TRY(exprs_add(ps, &list, first));
    while (bt_jparser_skip_op(ps, ",")) {
        bool ends = bt_jparser_is_op(ps, ")") || bt_jparser_is_op(ps, "]") ||
                    ps->tok->kind == BT_JTOK_BLOCK_END || ps->tok->kind == BT_JTOK_PRINT_END;
        if (ends) {
            break;
        }
        bt_jexpr *e;
        BT_TRY(bt_jparser_expr(ps, with_cond, &e));
        BT_TRY(exprs_add(ps, &list, e));
    }
    (*out)->items = list.items;
    (*out)->n_items = list.n;
    return BT_OK;
}
