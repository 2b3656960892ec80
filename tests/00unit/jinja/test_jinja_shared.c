/* SPDX-License-Identifier: MIT
 *
 * Goal: real chat templates render byte for byte as Python's jinja2 renders them in the transformers
 * library's environment. Method: every case of the collection ../shared/data/chat_templates (made
 * with jinja2 3.1, see its README): text, or the kind of the error and the message of
 * raise_exception. Skips where the collection is missing; test_jinja.c covers the features without
 * it. */
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

enum { NOW_2025_07_10_NOON = 1752148800, VARS_MAX = 16, PATH_SIZE = 600 };

static const char *data_dir(void)
{
    static char dir[PATH_SIZE];
    const char *shared = getenv("BT_SHARED");
    const char *root = getenv("BT_SOURCE_ROOT");
    if (shared != NULL) {
        snprintf(dir, sizeof dir, "%s/data/chat_templates", shared);
    } else {
        snprintf(dir, sizeof dir, "%s/../shared/data/chat_templates", root == NULL ? "." : root);
    }
    return dir;
}

/* One compiled template is kept: the cases come sorted by template. */
typedef struct cache {
    char name[100];
    bt_jinja *tmpl;
} cache;

static bt_jinja *template_of(cache *c, bt_str name)
{
    char path[PATH_SIZE + 120];
    char *text;
    size_t n;
    bt_err err;
    if (bt_str_eqz(name, c->name)) {
        return c->tmpl;
    }
    bt_jinja_close(c->tmpl);
    c->tmpl = NULL;
    snprintf(c->name, sizeof c->name, "%.*s", (int)name.n, name.p);
    snprintf(path, sizeof path, "%s/%s.jinja", data_dir(), c->name);
    if (bt_mapfile_read(path, 1 << 20, &text, &n, &err) != BT_OK) {
        fail_msg("%s", err.message);
    }
    if (bt_jinja_open((bt_str){text, n}, &c->tmpl, &err) != BT_OK) {
        print_message("%s does not compile: %s\n", c->name, err.message);
        c->tmpl = NULL;
    }
    bt_mem_free(text);
    return c->tmpl;
}

static size_t vars_of(const bt_json *input, bt_jinja_var *vars)
{
    size_t n = 0;
    void *iter = NULL;
    bt_str key;
    const bt_json *value;
    while (bt_json_next(input, &iter, &key, &value)) {
        bool skipped = bt_str_eqz(key, "now") || bt_str_eqz(key, "continue_final_message");
        if (!skipped) {
            assert_true(n < VARS_MAX);
            bool token = bt_str_ends(key, BT_STR("_token"));
            vars[n++] = (bt_jinja_var){.name = key.p, .json = value, .trusted = token};
        }
    }
    return n;
}

/* NULL when the case is as it should be, else what is wrong. */
static const char *check(const bt_json *expected, bt_status status, const bt_jinja_output *out,
                         const bt_err *err)
{
    const bt_json *kind = bt_json_get(expected, "error_kind");
    if (kind == NULL) {
        bt_str want = bt_json_str(bt_json_get(expected, "output"));
        if (status != BT_OK) {
            return err->message;
        }
        return bt_str_eq(want, (bt_str){out->text, out->n}) ? NULL : "another text";
    }
    if (bt_str_eqz(bt_json_str(kind), "runtime")) {
        return status == BT_E_FORMAT ? NULL : "no BT_E_FORMAT";
    }
    if (status != BT_E_INVALID) {
        return "no BT_E_INVALID";
    }
    bt_str want = bt_json_str(bt_json_get(expected, "error_message"));
    return bt_str_find(want, bt_str_of(err->message), 0) >= 0 && err->message[0] != '\0'
               ? NULL
               : "another message";
}

static bool run_case(cache *c, const bt_json *expected, size_t number)
{
    bt_jinja_var vars[VARS_MAX];
    const bt_json *input = bt_json_get(expected, "input");
    bt_jinja_output out = {0};
    bt_err err = {0};
    if (bt_json_get(input, "continue_final_message") != NULL) {
        return true; /* cut by the caller, not a feature of the template */
    }
    bt_jinja *tmpl = template_of(c, bt_json_str(bt_json_get(expected, "template")));
    if (tmpl == NULL) {
        return false;
    }
    const bt_jinja_args args = {.vars = vars,
                                .n_vars = vars_of(input, vars),
                                .now_unix_s = NOW_2025_07_10_NOON,
                                .output_max = 1 << 20};
    bt_status status = bt_jinja_render(tmpl, &args, &out, &err);
    const char *wrong = check(expected, status, &out, &err);
    if (wrong != NULL) {
        bt_str name = bt_json_str(bt_json_get(expected, "case"));
        print_message("line %zu: %s, %.*s: %s\n", number, c->name, (int)name.n, name.p, wrong);
        const char *show = getenv("BT_SHOW");
        if (show != NULL && (size_t)atol(show) == number) {
            fprintf(stderr, "%s", out.text == NULL ? "" : out.text);
        }
    }
    bt_jinja_output_deinit(&out);
    return wrong == NULL;
}

static void shared_cases_render_as_python_does(void **state)
{
    (void)state;
    char path[PATH_SIZE + 20];
    bt_mapfile file;
    snprintf(path, sizeof path, "%s/cases.jsonl", data_dir());
    if (bt_mapfile_open(path, &file, NULL) != BT_OK) {
        print_message("skipped: there is no %s\n", path);
        skip();
    }
    bt_str rest = {(const char *)file.p, file.n};
    cache c = {0};
    size_t failures = 0;
    size_t number = 0;
    while (rest.n > 0) {
        int64_t end = bt_str_find(rest, BT_STR("\n"), 0);
        size_t n = end < 0 ? rest.n : (size_t)end;
        bt_json *expected;
        bt_err err;
        number++;
        if (bt_json_parse((bt_str){rest.p, n}, &expected, &err) != BT_OK) {
            fail_msg("line %zu: %s", number, err.message);
        }
        failures += !run_case(&c, expected, number);
        bt_json_close(expected);
        n = BT_MIN(n + 1, rest.n);
        rest = (bt_str){rest.p + n, rest.n - n};
    }
    bt_jinja_close(c.tmpl);
    bt_mapfile_close(&file);
    print_message("%zu cases, %zu failures\n", number, failures);
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_cases_render_as_python_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
