/* SPDX-License-Identifier: MIT
 *
 * jinja.h: chat templates. An interpreter of the part of Jinja2 that chat templates use, in the
 * environment that the transformers library gives them (trim_blocks, lstrip_blocks, tojson like
 * json.dumps, raise_exception, strftime_now, loop controls, generation blocks).
 *
 * What it does not know is an error when the template is compiled, never a default when it runs.
 * A template is hostile: steps, output, memory and nesting are bounded. */
#ifndef BT_JINJA_JINJA_H
#define BT_JINJA_JINJA_H

#include "text/json.h"
#include "text/marked.h"

typedef struct bt_jinja bt_jinja;

/* Compiles a template. Errors: BT_E_UNSUPPORTED (names the feature) or BT_E_FORMAT, with line number
 * in the message and byte offset in err->position. Immutable, may be rendered by several threads.
 * Returns owned. */
bt_status bt_jinja_open(bt_str source, bt_jinja **out, bt_err *err) BT_MUST_USE;
void bt_jinja_close(bt_jinja *tmpl); /* NULL is allowed */

/* A variable of the template. Exactly one of `json` and `text` is used. */
typedef struct bt_jinja_var {
    const char *name;
    const bt_json *json; /* NULL: text is used */
    bt_str text;
    bool trusted; /* its strings count as written by the template (bos_token, eos_token) */
} bt_jinja_var;

typedef struct bt_jinja_args {
    const bt_jinja_var *vars;
    size_t n_vars;
    int64_t now_unix_s; /* the clock of strftime_now (UTC) */
    size_t output_max;  /* bytes; beyond: BT_E_LIMIT */
} bt_jinja_args;

typedef struct bt_jinja_output {
    char *text; /* free with bt_mem_free */
    size_t n;
    bt_run *runs; /* free with bt_mem_free */
    size_t n_runs;
} bt_jinja_output;

/* Renders. BT_E_INVALID: the template called raise_exception; the message is its text and
 * err->param is "messages". BT_E_FORMAT: a type or name error inside the template (with line).
 * BT_E_LIMIT: bounds. Thread-safe. */
bt_status bt_jinja_render(const bt_jinja *tmpl, const bt_jinja_args *args, bt_jinja_output *out,
                          bt_err *err) BT_MUST_USE;
void bt_jinja_output_deinit(bt_jinja_output *out);

#endif
