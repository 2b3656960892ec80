/* SPDX-License-Identifier: MIT
 *
 * ops.c: arithmetic and comparison. */
#include "jinja/ops.h"

#include "jinja/format.h"
#include "jinja/textops.h"

#include <math.h>
#include <string.h>

static const char *symbol(bt_jop op)
{
    static const char *const names[] = {
        [BT_JOP_EQ] = "==", [BT_JOP_NE] = "!=",         [BT_JOP_LT] = "<",
        [BT_JOP_LE] = "<=", [BT_JOP_GT] = ">",          [BT_JOP_GE] = ">=",
        [BT_JOP_IN] = "in", [BT_JOP_NOT_IN] = "not in", [BT_JOP_ADD] = "+",
        [BT_JOP_SUB] = "-", [BT_JOP_MUL] = "*",         [BT_JOP_DIV] = "/",
        [BT_JOP_MOD] = "%", [BT_JOP_FLOORDIV] = "//",   [BT_JOP_POW] = "**",
    };
    return names[op];
}

static bt_status unsupported(bt_jctx *ctx, bt_jop op, bt_jvalue a, bt_jvalue b)
{
    if (a.kind == BT_JVAL_UNDEF || b.kind == BT_JVAL_UNDEF) {
        return bt_jvalue_fail_undef(ctx, a.kind == BT_JVAL_UNDEF ? a : b);
    }
    return bt_jctx_fail(ctx, BT_E_FORMAT, "unsupported operand types for %s: '%s' and '%s'",
                        symbol(op), bt_jvalue_type(a), bt_jvalue_type(b));
}

static bt_status overflow(bt_jctx *ctx)
{
    return bt_jctx_fail(ctx, BT_E_FORMAT, "an integer result does not fit 64 bits");
}

static bt_status division_by_zero(bt_jctx *ctx)
{
    return bt_jctx_fail(ctx, BT_E_FORMAT, "division by zero");
}

/* Python rounds the quotient down and gives the remainder the divisor's sign. */
static bt_status divide_ints(bt_jctx *ctx, bt_jop op, int64_t a, int64_t b, int64_t *out)
{
    if (b == 0) {
        return division_by_zero(ctx);
    }
    if (b == -1) {
        if (op == BT_JOP_MOD) {
            *out = 0;
            return BT_OK;
        }
        return __builtin_sub_overflow((int64_t)0, a, out) ? overflow(ctx) : BT_OK;
    }
    int64_t q = a / b;
    int64_t r = a % b;
    bool adjust = r != 0 && (r < 0) != (b < 0);
    *out = op == BT_JOP_MOD ? r + (adjust ? b : 0) : q - adjust;
    return BT_OK;
}

static bt_status power_ints(bt_jctx *ctx, int64_t base, int64_t exponent, int64_t *out)
{
    int64_t result = 1;
    while (exponent > 0) {
        if (exponent % 2 != 0 && __builtin_mul_overflow(result, base, &result)) {
            return overflow(ctx);
        }
        exponent /= 2;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) {
            return overflow(ctx);
        }
    }
    *out = result;
    return BT_OK;
}

static bt_status math_ints(bt_jctx *ctx, bt_jop op, int64_t a, int64_t b, int64_t *out)
{
    bool bad = false;
    switch (op) {
    case BT_JOP_ADD:
        bad = __builtin_add_overflow(a, b, out);
        break;
    case BT_JOP_SUB:
        bad = __builtin_sub_overflow(a, b, out);
        break;
    case BT_JOP_MUL:
        bad = __builtin_mul_overflow(a, b, out);
        break;
    case BT_JOP_POW:
        return power_ints(ctx, a, b, out);
    default:
        return divide_ints(ctx, op, a, b, out);
    }
    return bad ? overflow(ctx) : BT_OK;
}

static double mod_reals(double a, double b)
{
    double r = fmod(a, b);
    if (r != 0) {
        return (r < 0) != (b < 0) ? r + b : r;
    }
    return copysign(0.0, b);
}

static bt_status math_reals(bt_jctx *ctx, bt_jop op, double a, double b, double *out)
{
    switch (op) {
    case BT_JOP_ADD:
        *out = a + b;
        return BT_OK;
    case BT_JOP_SUB:
        *out = a - b;
        return BT_OK;
    case BT_JOP_MUL:
        *out = a * b;
        return BT_OK;
    case BT_JOP_POW:
        if (a == 0 && b < 0) {
            return division_by_zero(ctx);
        }
        *out = pow(a, b);
        return BT_OK;
    default:
        break;
    }
    if (b == 0) {
        return division_by_zero(ctx);
    }
    double mod = mod_reals(a, b);
    *out = op == BT_JOP_DIV ? a / b : op == BT_JOP_MOD ? mod : round((a - mod) / b);
    return BT_OK;
}

static bt_status repeat(bt_jctx *ctx, bt_jvalue v, int64_t times, bt_jvalue *out)
{
    times = BT_MAX(times, 0);
    size_t unit = v.kind == BT_JVAL_STR ? v.as.text->n : v.as.list->n;
    size_t total;
    if (unit == 0) {
        times = 0;
    }
    if (!bt_mul_ok(unit, (size_t)times, &total) || total > BT_JINJA_MEMORY_MAX / 16) {
        return bt_jctx_fail(ctx, BT_E_LIMIT, "a repetition that is too long");
    }
    if (v.kind == BT_JVAL_STR) {
        bt_jtext t = {.p = ""};
        for (int64_t i = 0; i < times; i++) {
            BT_TRY(bt_jtext_append(ctx, &t, v.as.text));
        }
        out->kind = BT_JVAL_STR;
        return bt_jtext_store(ctx, &t, &out->as.text);
    }
    bt_jlist *list;
    BT_TRY(bt_jvalue_new_list(ctx, v.as.list->kind, total, &list));
    for (size_t i = 0; i < total; i++) {
        list->items[i] = v.as.list->items[i % unit];
    }
    *out = bt_jvalue_list(list);
    return BT_OK;
}

static bool is_plain_list(bt_jvalue v)
{
    return v.kind == BT_JVAL_LIST && v.as.list->kind <= BT_JLIST_TUPLE;
}

static bt_status add_sequences(bt_jctx *ctx, bt_jvalue a, bt_jvalue b, bt_jvalue *out)
{
    bool strings = a.kind == BT_JVAL_STR && b.kind == BT_JVAL_STR;
    bool lists = is_plain_list(a) && is_plain_list(b) && a.as.list->kind == b.as.list->kind;
    if (strings) {
        bt_jtext t = *a.as.text;
        bt_jtext tail = *b.as.text;
        if (t.markup != tail.markup) {
            BT_TRY(bt_jtextop_escape(ctx, t.markup ? &tail : &t, t.markup ? &tail : &t));
        }
        BT_TRY(bt_jtext_append(ctx, &t, &tail));
        out->kind = BT_JVAL_STR;
        return bt_jtext_store(ctx, &t, &out->as.text);
    }
    if (!lists) {
        if ((a.kind == BT_JVAL_STR || is_plain_list(a)) && b.kind != BT_JVAL_UNDEF) {
            return bt_jctx_fail(ctx, BT_E_FORMAT, "can only concatenate %s (not \"%s\") to %s",
                                bt_jvalue_type(a), bt_jvalue_type(b), bt_jvalue_type(a));
        }
        return unsupported(ctx, BT_JOP_ADD, a, b);
    }
    bt_jlist *list;
    size_t n = a.as.list->n;
    BT_TRY(bt_jvalue_new_list(ctx, a.as.list->kind, n + b.as.list->n, &list));
    for (size_t i = 0; i < list->n; i++) {
        list->items[i] = i < n ? a.as.list->items[i] : b.as.list->items[i - n];
    }
    *out = bt_jvalue_list(list);
    return BT_OK;
}

static bt_status format_percent(bt_jctx *ctx, bt_jvalue a, bt_jvalue b, bt_jvalue *out)
{
    bool tuple = b.kind == BT_JVAL_LIST && b.as.list->kind == BT_JLIST_TUPLE;
    bt_jtext t;
    BT_TRY(bt_jformat_percent(ctx, a.as.text, tuple ? b.as.list->items : &b,
                              tuple ? b.as.list->n : 1, &t));
    out->kind = BT_JVAL_STR;
    return bt_jtext_store(ctx, &t, &out->as.text);
}

static bt_status math_others(bt_jctx *ctx, bt_jop op, bt_jvalue a, bt_jvalue b, bt_jvalue *out)
{
    int64_t times;
    if (op == BT_JOP_ADD) {
        return add_sequences(ctx, a, b, out);
    }
    if (op == BT_JOP_MUL) {
        bool left = (a.kind == BT_JVAL_STR || is_plain_list(a)) && bt_jvalue_as_int(b, &times);
        if (left) {
            return repeat(ctx, a, times, out);
        }
        bool right = (b.kind == BT_JVAL_STR || is_plain_list(b)) && bt_jvalue_as_int(a, &times);
        if (right) {
            return repeat(ctx, b, times, out);
        }
    }
    if (op == BT_JOP_MOD && a.kind == BT_JVAL_STR) {
        return format_percent(ctx, a, b, out);
    }
    return unsupported(ctx, op, a, b);
}

bt_status bt_jop_math(bt_jctx *ctx, bt_jop op, bt_jvalue a, bt_jvalue b, bt_jvalue *out)
{
    int64_t ia;
    int64_t ib;
    double ra;
    double rb;
    bool ints = bt_jvalue_as_int(a, &ia) && bt_jvalue_as_int(b, &ib);
    if (ints && op != BT_JOP_DIV && !(op == BT_JOP_POW && ib < 0)) {
        int64_t result = 0;
        BT_TRY(math_ints(ctx, op, ia, ib, &result));
        *out = bt_jvalue_int(result);
        return BT_OK;
    }
    if (bt_jvalue_as_real(a, &ra) && bt_jvalue_as_real(b, &rb)) {
        double result = 0;
        BT_TRY(math_reals(ctx, op, ra, rb, &result));
        *out = bt_jvalue_real(result);
        return BT_OK;
    }
    return math_others(ctx, op, a, b, out);
}

bt_status bt_jop_sign(bt_jctx *ctx, bool minus, bt_jvalue v, bt_jvalue *out)
{
    int64_t i;
    if (bt_jvalue_as_int(v, &i)) {
        if (minus && __builtin_sub_overflow((int64_t)0, i, &i)) {
            return overflow(ctx);
        }
        *out = bt_jvalue_int(i);
        return BT_OK;
    }
    if (v.kind == BT_JVAL_REAL) {
        *out = bt_jvalue_real(minus ? -v.as.r : v.as.r);
        return BT_OK;
    }
    if (v.kind == BT_JVAL_UNDEF) {
        return bt_jvalue_fail_undef(ctx, v);
    }
    return bt_jctx_fail(ctx, BT_E_FORMAT, "bad operand type for a sign: '%s'", bt_jvalue_type(v));
}

bt_status bt_jop_compare(bt_jctx *ctx, bt_jop op, bt_jvalue a, bt_jvalue b, bool *out)
{
    int c;
    switch (op) {
    case BT_JOP_EQ:
        return bt_jvalue_equal(ctx, a, b, out);
    case BT_JOP_NE:
        BT_TRY(bt_jvalue_equal(ctx, a, b, out));
        *out = !*out;
        return BT_OK;
    case BT_JOP_IN:
        return bt_jvalue_contains(ctx, b, a, out);
    case BT_JOP_NOT_IN:
        BT_TRY(bt_jvalue_contains(ctx, b, a, out));
        *out = !*out;
        return BT_OK;
    default:
        break;
    }
    double ra;
    double rb;
    bool reals = (a.kind == BT_JVAL_REAL || b.kind == BT_JVAL_REAL) && bt_jvalue_as_real(a, &ra) &&
                 bt_jvalue_as_real(b, &rb);
    if (reals && (isnan(ra) || isnan(rb))) {
        *out = false;
        return BT_OK;
    }
    BT_TRY(bt_jvalue_order(ctx, a, b, symbol(op), &c));
    *out = op == BT_JOP_LT ? c < 0 : op == BT_JOP_LE ? c <= 0 : op == BT_JOP_GT ? c > 0 : c >= 0;
    return BT_OK;
}
