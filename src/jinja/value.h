/* SPDX-License-Identifier: MIT
 *
 * value.h: the values of a template, with Python's semantics. Values are immutable (as in Jinja2's
 * immutable sandbox) except namespaces and the position of an iterator; they live in the arena of a
 * rendering, constants in that of the template. Integers have 64 bits; overflow is an error. */
#ifndef BT_JINJA_VALUE_H
#define BT_JINJA_VALUE_H

#include "jinja/origin.h"
#include "text/json.h"

typedef enum bt_jval_kind {
    BT_JVAL_UNSET = 0, /* an argument that was not given; never seen by a template */
    BT_JVAL_UNDEF,
    BT_JVAL_NONE,
    BT_JVAL_BOOL,
    BT_JVAL_INT,
    BT_JVAL_REAL,
    BT_JVAL_STR,
    BT_JVAL_LIST,
    BT_JVAL_DICT,
    BT_JVAL_NS,   /* namespace() */
    BT_JVAL_ITER, /* what lazy filters return: gives its items once */
    BT_JVAL_LOOP, /* the variable `loop` */
    BT_JVAL_MACRO,
    BT_JVAL_FUNC,  /* a built-in function */
    BT_JVAL_METHOD /* a method with its owner */
} bt_jval_kind;

typedef struct bt_jvalue bt_jvalue;
typedef struct bt_jlist bt_jlist;
typedef struct bt_jdict bt_jdict;
typedef struct bt_jiter bt_jiter;
typedef struct bt_jloop bt_jloop;
typedef struct bt_jmacro bt_jmacro;
typedef struct bt_jclosure bt_jclosure;
typedef struct bt_jmethod bt_jmethod;
typedef struct bt_jundef bt_jundef;
typedef struct bt_jbuiltin bt_jbuiltin;

struct bt_jvalue {
    bt_jval_kind kind;
    union {
        bool b;
        int64_t i;
        double r;
        const bt_jtext *text;
        const bt_jlist *list;
        bt_jdict *dict; /* also NS */
        bt_jiter *iter;
        bt_jloop *loop;
        const bt_jclosure *macro;
        const bt_jbuiltin *func;
        const bt_jmethod *method;
        const bt_jundef *undef; /* may be NULL */
    } as;
};

typedef enum bt_jlist_kind {
    BT_JLIST_LIST = 0,
    BT_JLIST_TUPLE,
    BT_JLIST_RANGE,
    BT_JLIST_KEYS, /* dict views: not subscriptable */
    BT_JLIST_VALUES,
    BT_JLIST_ITEMS
} bt_jlist_kind;

struct bt_jlist {
    bt_jlist_kind kind;
    bt_jvalue *items;
    size_t n;
};

typedef struct bt_jpair {
    bt_jvalue key, value;
} bt_jpair;

/* In order of insertion. */
struct bt_jdict {
    bt_jpair *pairs;
    size_t n, cap;
};

struct bt_jiter {
    const bt_jlist *list;
    size_t pos;
};

struct bt_jloop {
    const bt_jlist *list;
    size_t idx;
    int depth;         /* 1: the outermost loop */
    bt_jvalue changed; /* the last argument of loop.changed() */
};

struct bt_jclosure {
    const bt_jmacro *macro;
    struct bt_jscope *scope; /* where it was defined */
};

struct bt_jmethod {
    bt_jvalue self;
    const bt_jbuiltin *builtin;
};

/* Where an undefined value came from: `name` of `owner` ("" where it is a variable). */
struct bt_jundef {
    const char *owner;
    bt_str name;
};

BT_INLINE bt_jvalue bt_jvalue_none(void)
{
    return (bt_jvalue){.kind = BT_JVAL_NONE};
}
BT_INLINE bt_jvalue bt_jvalue_bool(bool b)
{
    return (bt_jvalue){.kind = BT_JVAL_BOOL, .as.b = b};
}
BT_INLINE bt_jvalue bt_jvalue_int(int64_t i)
{
    return (bt_jvalue){.kind = BT_JVAL_INT, .as.i = i};
}
BT_INLINE bt_jvalue bt_jvalue_real(double r)
{
    return (bt_jvalue){.kind = BT_JVAL_REAL, .as.r = r};
}
BT_INLINE bt_jvalue bt_jvalue_text(const bt_jtext *text)
{
    return (bt_jvalue){.kind = BT_JVAL_STR, .as.text = text};
}
BT_INLINE bt_jvalue bt_jvalue_list(const bt_jlist *list)
{
    return (bt_jvalue){.kind = BT_JVAL_LIST, .as.list = list};
}

/* A string over borrowed bytes that outlive the rendering. */
bt_status bt_jvalue_str(bt_jctx *ctx, bt_str bytes, bool trusted, bt_jvalue *out) BT_MUST_USE;
/* A list with room for n items; *list stays writable until the value is handed on. */
bt_status bt_jvalue_new_list(bt_jctx *ctx, bt_jlist_kind kind, size_t n,
                             bt_jlist **out) BT_MUST_USE;
bt_status bt_jvalue_undef(bt_jctx *ctx, const char *owner, bt_str name, bt_jvalue *out) BT_MUST_USE;
/* The error that an operation on an undefined value gives. */
bt_status bt_jvalue_fail_undef(bt_jctx *ctx, bt_jvalue undef);
/* A tree as values; its strings are borrowed from it. */
bt_status bt_jvalue_from_json(bt_jctx *ctx, const bt_json *json, bool trusted,
                              bt_jvalue *out) BT_MUST_USE;
/* An iterator over a list. */
bt_status bt_jvalue_iter(bt_jctx *ctx, const bt_jlist *list, bt_jvalue *out) BT_MUST_USE;

/* Python's name of the type: "str", "list", "NoneType" … */
const char *bt_jvalue_type(bt_jvalue v);
bool bt_jvalue_truth(bt_jvalue v);
/* INT or BOOL as an integer. */
bool bt_jvalue_as_int(bt_jvalue v, int64_t *out);
/* INT, BOOL or REAL. */
bool bt_jvalue_as_real(bt_jvalue v, double *out);
bt_str bt_jvalue_bytes(bt_jvalue str);

bt_status bt_jvalue_equal(bt_jctx *ctx, bt_jvalue a, bt_jvalue b, bool *out) BT_MUST_USE;
/* <0, 0, >0; BT_E_FORMAT when the types have no order. */
bt_status bt_jvalue_order(bt_jctx *ctx, bt_jvalue a, bt_jvalue b, const char *op,
                          int *out) BT_MUST_USE;
/* `item in container`. */
bt_status bt_jvalue_contains(bt_jctx *ctx, bt_jvalue container, bt_jvalue item,
                             bool *out) BT_MUST_USE;
/* len(); BT_E_FORMAT when the type has none. */
bt_status bt_jvalue_length(bt_jctx *ctx, bt_jvalue v, int64_t *out) BT_MUST_USE;
/* The items of anything iterable; uses up an iterator. BT_E_FORMAT when it is not iterable. */
bt_status bt_jvalue_items(bt_jctx *ctx, bt_jvalue v, const bt_jlist **out) BT_MUST_USE;
bool bt_jvalue_is_iterable(bt_jvalue v);

/* UNSET kind in *out when the key is absent. */
bt_status bt_jdict_get(bt_jctx *ctx, const bt_jdict *dict, bt_jvalue key,
                       bt_jvalue *out) BT_MUST_USE;
bt_status bt_jdict_get_str(bt_jctx *ctx, const bt_jdict *dict, bt_str key,
                           bt_jvalue *out) BT_MUST_USE;
/* Sets or replaces; BT_E_FORMAT when the key is not hashable. */
bt_status bt_jdict_set(bt_jctx *ctx, bt_jdict *dict, bt_jvalue key, bt_jvalue value) BT_MUST_USE;
/* The pairs as (key, value) tuples, or the keys, or the values. */
bt_status bt_jdict_view(bt_jctx *ctx, const bt_jdict *dict, bt_jlist_kind kind,
                        bt_jlist **out) BT_MUST_USE;

#endif
