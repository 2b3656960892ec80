/* SPDX-License-Identifier: MIT
 *
 * apierror.h: the one place where a failure becomes an HTTP status and an error body
 * {"error":{"message","type","param","code"}}, in vLLM's types and OpenAI's codes. */
#ifndef BT_API_APIERROR_H
#define BT_API_APIERROR_H

#include "base/buf.h"
#include "base/status.h"

#include <betoken.h>

typedef struct bt_api_error {
    int http;            /* status code */
    const char *message; /* one line, for a person */
    const char *param;   /* field at fault; NULL or "": null */
    const char *code;    /* machine-readable; NULL: null */
} bt_api_error;

/* Of a request that api itself has refused. Borrows err's strings. */
bt_api_error bt_api_error_of(const bt_err *err);
/* Of a request that the engine has refused or given up. Borrows error's strings. */
bt_api_error bt_api_error_of_engine(const betoken_error *error);

/* Appends the JSON body. */
void bt_api_error_body(const bt_api_error *error, bt_buf *out);
/* Appends the body as one server-sent event. */
void bt_api_error_event(const bt_api_error *error, bt_buf *out);

#endif
