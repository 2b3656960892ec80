/* SPDX-License-Identifier: MIT
 *
 * jinjatests.c: what may stand after "is". */
#include "jinja/builtin.h"

#include "jinja/format.h"
#include "jinja/ops.h"
#include "text/casemap.h"
#include "text/utf8.h"

typedef enum what {
    IS_DEFINED,
    IS_UNDEFINED,
    IS_NONE,
    IS_STRING,
    IS_MAPPING,
    IS_ITERABLE,
    IS_SEQUENCE,
    IS_BOOLEAN,
    IS_TRUE,
    IS_FALSE,
    IS_NUMBER,
    IS_INTEGER,
    IS_FLOAT,
    IS_CALLABLE
} what;

static bool is_sequence(bt_jvalue v)
{
    bool view = v.kind == BT_JVAL_LIST && v.as.list->kind > BT_JLIST_RANGE;
    return !view && (v.kind == BT_JVAL_LIST || v.kind == BT_JVAL_STR || v.kind == BT_JVAL_DICT ||
                     v.kind == BT_JVAL_UNDEF);
}

static bt_jvalue type_test(bt_jvalue v, what asked)
{
    bt_jval_kind k = v.kind;
    const bool answers[] = {
        [IS_DEFINED] = k != BT_JVAL_UNDEF,
        [IS_UNDEFINED] = k == BT_JVAL_UNDEF,
        [IS_NONE] = k == BT_JVAL_NONE,
        [IS_STRING] = k == BT_JVAL_STR,
        [IS_MAPPING] = k == BT_JVAL_DICT,
        [IS_ITERABLE] = bt_jvalue_is_iterable(v),
        [IS_SEQUENCE] = is_sequence(v),
        [IS_BOOLEAN] = k == BT_JVAL_BOOL,
        [IS_TRUE] = k == BT_JVAL_BOOL && v.as.b,
        [IS_FALSE] = k == BT_JVAL_BOOL && !v.as.b,
        [IS_NUMBER] = k == BT_JVAL_BOOL || k == BT_JVAL_INT || k == BT_JVAL_REAL,
        [IS_INTEGER] = k == BT_JVAL_INT,
        [IS_FLOAT] = k == BT_JVAL_REAL,
        [IS_CALLABLE] =
            k == BT_JVAL_MACRO || k == BT_JVAL_FUNC || k == BT_JVAL_METHOD || k == BT_JVAL_UNDEF,
    };
    return bt_jvalue_bool(answers[asked]);
}

/* One function a type test: the table needs distinct functions. */
#define TYPE_TEST(name, asked)                                                                     \
    static bt_status name(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)     \
    {                                                                                              \
        (void)args;                                                                                \
        *out = type_test(self, asked);                                                             \
        return bt_jctx_charge(ctx, 0);                                                             \
    }
TYPE_TEST(test_defined, IS_DEFINED)
TYPE_TEST(test_undefined, IS_UNDEFINED)
TYPE_TEST(test_none, IS_NONE)
TYPE_TEST(test_string, IS_STRING)
TYPE_TEST(test_mapping, IS_MAPPING)
TYPE_TEST(test_iterable, IS_ITERABLE)
TYPE_TEST(test_sequence, IS_SEQUENCE)
TYPE_TEST(test_boolean, IS_BOOLEAN)
TYPE_TEST(test_true, IS_TRUE)
TYPE_TEST(test_false, IS_FALSE)
TYPE_TEST(test_number, IS_NUMBER)
TYPE_TEST(test_integer, IS_INTEGER)
TYPE_TEST(test_float, IS_FLOAT)
TYPE_TEST(test_callable, IS_CALLABLE)

#define COMPARE_TEST(name, op)                                                                     \
    static bt_status name(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)     \
    {                                                                                              \
        out->kind = BT_JVAL_BOOL;                                                                  \
        return bt_jop_compare(ctx, op, self, args[0], &out->as.b);                                 \
    }
COMPARE_TEST(test_eq, BT_JOP_EQ)
COMPARE_TEST(test_ne, BT_JOP_NE)
COMPARE_TEST(test_lt, BT_JOP_LT)
COMPARE_TEST(test_le, BT_JOP_LE)
COMPARE_TEST(test_gt, BT_JOP_GT)
COMPARE_TEST(test_ge, BT_JOP_GE)
COMPARE_TEST(test_in, BT_JOP_IN)

static bt_status remainder_is(bt_jctx *ctx, bt_jvalue self, bt_jvalue divisor, int64_t wanted,
                              bt_jvalue *out)
{
    bt_jvalue rest;
    bool same;
    BT_TRY(bt_jop_math(ctx, BT_JOP_MOD, self, divisor, &rest));
    BT_TRY(bt_jvalue_equal(ctx, rest, bt_jvalue_int(wanted), &same));
    *out = bt_jvalue_bool(same);
    return BT_OK;
}

static bt_status test_odd(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    return remainder_is(ctx, self, bt_jvalue_int(2), 1, out);
}

static bt_status test_even(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    return remainder_is(ctx, self, bt_jvalue_int(2), 0, out);
}

static bt_status test_divisibleby(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args,
                                  bt_jvalue *out)
{
    return remainder_is(ctx, self, args[0], 0, out);
}

/* Python's `is`: one object; equal numbers of one type count as one. */
static bt_status test_sameas(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    bool same = self.kind == args[0].kind;
    if (same && self.kind >= BT_JVAL_LIST) {
        same = self.as.list == args[0].as.list;
    } else if (same) {
        BT_TRY(bt_jvalue_equal(ctx, self, args[0], &same));
    }
    *out = bt_jvalue_bool(same);
    return BT_OK;
}

/* islower() and isupper(): at least one cased character, and none of the other case. */
static bt_status cased(bt_jctx *ctx, bt_jvalue self, bool upper, bt_jvalue *out)
{
    bt_jtext t;
    bool any = false;
    bool other = false;
    BT_TRY(bt_jformat_str(ctx, self, &t));
    BT_TRY(bt_jctx_charge(ctx, t.n));
    for (size_t i = 0; i < t.n;) {
        uint32_t c = 0;
        i += (size_t)bt_utf8_decode(t.p + i, t.n - i, &c);
        any |= upper ? bt_case_is_upper(c) : bt_case_is_lower(c);
        other |= upper ? bt_case_is_lower(c) : bt_case_is_upper(c);
    }
    *out = bt_jvalue_bool(any && !other);
    return BT_OK;
}

static bt_status test_lower(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    return cased(ctx, self, false, out);
}

static bt_status test_upper(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    return cased(ctx, self, true, out);
}

static const bt_jbuiltin tests[] = {
    {"defined", test_defined, "", 0, NULL},
    {"undefined", test_undefined, "", 0, NULL},
    {"none", test_none, "", 0, NULL},
    {"string", test_string, "", 0, NULL},
    {"mapping", test_mapping, "", 0, NULL},
    {"iterable", test_iterable, "", 0, NULL},
    {"sequence", test_sequence, "", 0, NULL},
    {"boolean", test_boolean, "", 0, NULL},
    {"true", test_true, "", 0, NULL},
    {"false", test_false, "", 0, NULL},
    {"number", test_number, "", 0, NULL},
    {"integer", test_integer, "", 0, NULL},
    {"float", test_float, "", 0, NULL},
    {"callable", test_callable, "", 0, NULL},
    {"eq", test_eq, "other", 1, NULL},
    {"==", test_eq, "other", 1, NULL},
    {"equalto", test_eq, "other", 1, NULL},
    {"ne", test_ne, "other", 1, NULL},
    {"!=", test_ne, "other", 1, NULL},
    {"lt", test_lt, "other", 1, NULL},
    {"<", test_lt, "other", 1, NULL},
    {"lessthan", test_lt, "other", 1, NULL},
    {"le", test_le, "other", 1, NULL},
    {"<=", test_le, "other", 1, NULL},
    {"gt", test_gt, "other", 1, NULL},
    {">", test_gt, "other", 1, NULL},
    {"greaterthan", test_gt, "other", 1, NULL},
    {"ge", test_ge, "other", 1, NULL},
    {">=", test_ge, "other", 1, NULL},
    {"in", test_in, "seq", 1, NULL},
    {"odd", test_odd, "", 0, NULL},
    {"even", test_even, "", 0, NULL},
    {"divisibleby", test_divisibleby, "num", 1, NULL},
    {"sameas", test_sameas, "other", 1, NULL},
    {"lower", test_lower, "", 0, NULL},
    {"upper", test_upper, "", 0, NULL},
};

const bt_jbuiltin *bt_jbuiltin_test(bt_str name)
{
    return bt_jbuiltin_find(tests, BT_COUNT(tests), name);
}
