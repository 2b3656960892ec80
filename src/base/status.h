/* SPDX-License-Identifier: MIT
 *
 * status.h: how a function says that it failed, and how a user learns what and where.
 *
 * A function that can fail returns bt_status and leaves its out-parameters untouched on failure.
 * Where a person must know more (load, configuration, request) it also takes a `bt_err *`, which
 * may be NULL, and fills it by bt_fail. */
#ifndef BT_BASE_STATUS_H
#define BT_BASE_STATUS_H

#include "base/base.h"

typedef enum bt_status {
    BT_OK = 0,
    BT_E_INVALID,     /* the caller's input is wrong: a request, an option, a value */
    BT_E_FORMAT,      /* a file or message breaks its format */
    BT_E_UNSUPPORTED, /* well-formed, but betoken does not do it */
    BT_E_NOT_FOUND,   /* a file, model, tensor or name is absent */
    BT_E_NO_MEMORY,
    BT_E_IO,       /* the operating system refused; the message holds its words */
    BT_E_LIMIT,    /* a stated limit would be exceeded */
    BT_E_BUSY,     /* a queue is full; try again */
    BT_E_TOO_LONG, /* a prompt does not fit the context */
    BT_E_STOPPING, /* the engine is closing */
    BT_E_INTERNAL, /* betoken's own fault */
    BT_STATUS_COUNT
} bt_status;

enum { BT_ERR_MESSAGE_MAX = 512, BT_ERR_PARAM_MAX = 64 };

/* What went wrong, in words for a person. `position` is a byte offset, line or index as the
 * message says, -1 where there is none. `param` names the request field, "" where there is none. */
typedef struct bt_err {
    bt_status code;
    int64_t position;
    char param[BT_ERR_PARAM_MAX];
    char message[BT_ERR_MESSAGE_MAX];
} bt_err;

/* Short lower-case name of a status ("invalid", "format", …). */
const char *bt_status_name(bt_status status);

/* Fills *err (NULL is allowed) and returns `status`, so that `return bt_fail(err, …)` reads well.
 * A message that is too long is cut at a UTF-8 character border. position = -1, param = "". */
bt_status bt_fail(bt_err *err, bt_status status, const char *format, ...) BT_PRINTF(3, 4);

/* The same with a position. */
bt_status bt_fail_at(bt_err *err, bt_status status, int64_t position, const char *format, ...)
    BT_PRINTF(4, 5);

/* The same with the name of the request field at fault. */
bt_status bt_fail_param(bt_err *err, bt_status status, const char *param, const char *format, ...)
    BT_PRINTF(4, 5);

/* Puts "prefix: " before the message of a failed call; keeps code, position and param. */
void bt_err_prefix(bt_err *err, const char *format, ...) BT_PRINTF(2, 3);

#define BT_TRY(expr)                                                                               \
    do {                                                                                           \
        bt_status bt_try_status_ = (expr);                                                         \
        if (BT_UNLIKELY(bt_try_status_ != BT_OK)) {                                                \
            return bt_try_status_;                                                                 \
        }                                                                                          \
    } while (0)

/* As BT_TRY, jumping to the function's `fail:` label with `status` set. */
#define BT_TRY_GOTO(status, expr)                                                                  \
    do {                                                                                           \
        (status) = (expr);                                                                         \
        if (BT_UNLIKELY((status) != BT_OK)) {                                                      \
            goto fail;                                                                             \
        }                                                                                          \
    } while (0)

#endif
