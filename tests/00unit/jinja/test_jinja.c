/* SPDX-License-Identifier: MIT
 *
 * Goal: templates render as Python's jinja2 renders them. Method: goldens.jsonl beside this file (see
 * make_goldens.py): SmolLM2's and ChatML's templates, and each feature in small templates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mapfile.h"
#include "jinja/jinja.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOW_2025_07_10_NOON = 1752148800, VARS_MAX = 32 };

static size_t vars_of(const bt_json *object, bt_jinja_var *vars)
{
    size_t n = 0;
    void *iter = NULL;
    bt_str key;
    const bt_json *value;
    while (bt_json_next(object, &iter, &key, &value)) {
        assert_true(n < VARS_MAX);
        vars[n++] = (bt_jinja_var){.name = key.p, .json = value};
    }
    return n;
}

/* NULL when the result is as it should be, else what is wrong. */
static const char *check(const bt_json *row, bt_status status, const bt_jinja_output *out,
                         const bt_err *err)
{
    const bt_json *error = bt_json_get(row, "error");
    if (error == NULL) {
        bt_str want = bt_json_str(bt_json_get(row, "output"));
        return status != BT_OK                                ? err->message
               : bt_str_eq(want, (bt_str){out->text, out->n}) ? NULL
                                                              : "another text";
    }
    if (bt_str_eqz(bt_json_str(error), "runtime")) {
        return status == BT_E_FORMAT || status == BT_E_LIMIT ? NULL : "no error";
    }
    bt_str want = bt_json_str(bt_json_get(row, "message"));
    bool same = status == BT_E_INVALID && bt_str_eqz(want, err->message);
    return same && strcmp(err->param, "messages") == 0 ? NULL : "no such message";
}

static bool run_row(const bt_json *row, const bt_json *data)
{
    bt_jinja_var vars[VARS_MAX];
    const bt_json *given = bt_json_get(row, "vars");
    const bt_jinja_args args = {.vars = vars,
                                .n_vars = vars_of(given == NULL ? data : given, vars),
                                .now_unix_s = NOW_2025_07_10_NOON,
                                .output_max = 1 << 20};
    bt_jinja *tmpl = NULL;
    bt_jinja_output out = {0};
    bt_err err = {0};
    bt_str source = bt_json_str(bt_json_get(row, "template"));
    const char *wrong = NULL;
    if (bt_jinja_open(source, &tmpl, &err) != BT_OK) {
        wrong = err.message;
    } else {
        wrong = check(row, bt_jinja_render(tmpl, &args, &out, &err), &out, &err);
    }
    if (wrong != NULL) {
        print_message("%.*s\n    %s\n    got  %s\n", (int)source.n, source.p, wrong,
                      out.text == NULL ? "" : out.text);
        const bt_json *want = bt_json_get(row, "output");
        print_message("    want %s\n", want == NULL ? "an error" : bt_json_str(want).p);
    }
    bt_jinja_output_deinit(&out);
    bt_jinja_close(tmpl);
    return wrong == NULL;
}

static bt_json *parse_line(bt_str *rest)
{
    int64_t end = bt_str_find(*rest, BT_STR("\n"), 0);
    assert_true(end >= 0);
    bt_json *row;
    bt_err err;
    if (bt_json_parse((bt_str){rest->p, (size_t)end}, &row, &err) != BT_OK) {
        fail_msg("%s", err.message);
    }
    rest->p += end + 1;
    rest->n -= (size_t)end + 1;
    return row;
}

static void goldens_render_as_python_does(void **state)
{
    (void)state;
    char path[600];
    char *text;
    size_t n;
    const char *root = getenv("BT_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s/tests/00unit/jinja/goldens.jsonl", root == NULL ? "." : root);
    bt_err err;
    if (bt_mapfile_read(path, 1 << 24, &text, &n, &err) != BT_OK) {
        fail_msg("%s", err.message);
    }
    bt_str rest = {text, n};
    bt_json *first = parse_line(&rest);
    size_t failures = 0;
    size_t rows = 0;
    while (rest.n > 0) {
        bt_json *row = parse_line(&rest);
        failures += !run_row(row, bt_json_get(first, "data"));
        rows++;
        bt_json_close(row);
    }
    bt_json_close(first);
    bt_mem_free(text);
    print_message("%zu goldens, %zu failures\n", rows, failures);
    assert_true(rows > 200);
    assert_int_equal(failures, 0);
    assert_int_equal(bt_mem_used(BT_MEM_TEXT), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goldens_render_as_python_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
