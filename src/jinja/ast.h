/* SPDX-License-Identifier: MIT
 *
 * ast.h: a compiled template as a tree. Immutable once parsed; all of it lives in one arena.
 *
 * Operators of one precedence level form one chain (first, then links), and so do the postfix
 * operations of an operand, so that the depth of a tree is the nesting of its source, which the
 * parser bounds: long sums do not make deep recursion. */
#ifndef BT_JINJA_AST_H
#define BT_JINJA_AST_H

#include "jinja/value.h"

enum { BT_JINJA_NESTING_MAX = 64 };

typedef struct bt_jexpr bt_jexpr;
typedef struct bt_jstmt bt_jstmt;
typedef struct bt_jlink bt_jlink;

/* Arguments of a call: positional first, then named. */
typedef struct bt_jargs {
    bt_jexpr **exprs; /* [n_pos + n_named] */
    bt_str *names;    /* [n_named] */
    int n_pos, n_named;
} bt_jargs;

typedef enum bt_jexpr_kind {
    BT_JEXPR_CONST,
    BT_JEXPR_NAME,
    BT_JEXPR_LIST,
    BT_JEXPR_TUPLE,
    BT_JEXPR_DICT, /* items: key, value, key, value … */
    BT_JEXPR_COND, /* items: condition, then, else (may be NULL) */
    BT_JEXPR_NOT,  /* items[0] */
    BT_JEXPR_NEG,
    BT_JEXPR_POS,
    BT_JEXPR_OR, /* chains: items[0], then links */
    BT_JEXPR_AND,
    BT_JEXPR_COMPARE,
    BT_JEXPR_MATH,
    BT_JEXPR_CONCAT,
    BT_JEXPR_POSTFIX
} bt_jexpr_kind;

struct bt_jexpr {
    bt_jexpr_kind kind;
    int line;
    bt_jvalue value; /* CONST */
    bt_str name;     /* NAME */
    bt_jexpr **items;
    size_t n_items;
    bt_jlink *links;
};

typedef enum bt_jop {
    BT_JOP_NONE = 0, /* OR, AND, CONCAT: the chain's kind says it */
    BT_JOP_EQ,
    BT_JOP_NE,
    BT_JOP_LT,
    BT_JOP_LE,
    BT_JOP_GT,
    BT_JOP_GE,
    BT_JOP_IN,
    BT_JOP_NOT_IN,
    BT_JOP_ADD,
    BT_JOP_SUB,
    BT_JOP_MUL,
    BT_JOP_DIV,
    BT_JOP_FLOORDIV,
    BT_JOP_MOD,
    BT_JOP_POW,
    BT_JOP_ATTR,   /* .name */
    BT_JOP_ITEM,   /* [operand[0]] */
    BT_JOP_SLICE,  /* [operand[0] : operand[1] : operand[2]], each may be NULL */
    BT_JOP_CALL,   /* (args) */
    BT_JOP_FILTER, /* | builtin(args) */
    BT_JOP_TEST,   /* is builtin(args) */
    BT_JOP_TEST_NOT
} bt_jop;

struct bt_jlink {
    bt_jop op;
    int line;
    bt_jlink *next;
    bt_jexpr *operand[3];
    bt_str name; /* ATTR, FILTER, TEST */
    const bt_jbuiltin *builtin;
    bt_jargs args;
};

typedef enum bt_jstmt_kind {
    BT_JSTMT_DATA,
    BT_JSTMT_PRINT,    /* expr */
    BT_JSTMT_IF,       /* branches: condition and body, the last condition may be NULL (else) */
    BT_JSTMT_FOR,      /* target, expr, condition (may be NULL), body, otherwise */
    BT_JSTMT_SET,      /* target, expr */
    BT_JSTMT_SETBLOCK, /* target, body, expr: filters over a const that stands for the text, or NULL */
    BT_JSTMT_MACRO,    /* macro */
    BT_JSTMT_GROUP,    /* body in a scope of its own (generation: in the same one) */
    BT_JSTMT_WITH,     /* targets in `names`, values in `args`, body */
    BT_JSTMT_FILTER, /* expr as in SETBLOCK, body */
    BT_JSTMT_CALL,   /* expr: a call; macro: the caller's body */
    BT_JSTMT_BREAK,
    BT_JSTMT_CONTINUE
} bt_jstmt_kind;

/* What is assigned to: a name, an attribute of a namespace, or a tuple of names. */
typedef struct bt_jtarget {
    bt_str name;
    bt_str attr; /* p NULL: none */
    struct bt_jtarget *parts;
    size_t n_parts; /* 0: a single name */
} bt_jtarget;

typedef struct bt_jbranch {
    bt_jexpr *condition;
    bt_jstmt *body;
    struct bt_jbranch *next;
} bt_jbranch;

struct bt_jmacro {
    bt_str name;
    bt_str *params;
    bt_jexpr **defaults; /* [n_params], NULL where there is none */
    int n_params;
    bool takes_varargs; /* its body uses `varargs`, `kwargs`: it takes any arguments */
    bool takes_kwargs;
    bt_jstmt *body;
    int line;
};

struct bt_jstmt {
    bt_jstmt_kind kind;
    int line;
    bt_jstmt *next; /* in its block */
    bt_str data;
    bt_jexpr *expr;
    bt_jexpr *condition;
    bt_jtarget target;
    bt_jbranch *branches;
    bt_jstmt *body, *otherwise;
    bt_jmacro *macro;
    bt_jargs args;
};

#endif
