/* SPDX-License-Identifier: MIT
 *
 * json.c: reading JSON through jansson 2.14. A bt_json is a json_t.
 *
 * What is added: the nesting is measured before parsing, because jansson recurses up to 2048 levels;
 * its blocks come from bt_mem, so that they are counted and can be made to fail in tests. jansson
 * itself refuses with position what RFC 8259 forbids, lone surrogates, numbers out of range and, by
 * flag, duplicate keys. NUL bytes are refused beforehand: it would drop one that follows a number. */
#include "text/json.h"

#include "text/utf8.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_once_t alloc_once = PTHREAD_ONCE_INIT;

/* jansson reports some failed allocations as a syntax error; this tells them apart. */
static _Thread_local bool alloc_failed;

static void *alloc_text(size_t size)
{
    void *block = bt_mem_alloc(BT_MEM_TEXT, size);
    if (block == NULL) {
        alloc_failed = true;
    }
    return block;
}

static void set_alloc(void)
{
    json_set_alloc_funcs(alloc_text, bt_mem_free);
}

static json_t *node(const bt_json *value)
{
    /* jansson takes mutable pointers for what only reads. */
    return (json_t *)(uintptr_t)value;
}

static const bt_json *view(const json_t *value)
{
    return (const bt_json *)value;
}

/* Line and column (both from 1, the column in bytes) of a byte offset. */
static void line_of(bt_str text, size_t offset, size_t *line, size_t *column)
{
    *line = 1;
    *column = 1;
    for (size_t i = 0; i < offset && i < text.n; i++) {
        if (text.p[i] == '\n') {
            *line += 1;
            *column = 1;
        } else {
            *column += 1;
        }
    }
}

static bt_status fail_at(bt_str text, size_t offset, const char *why, bt_err *err)
{
    size_t line;
    size_t column;
    line_of(text, offset, &line, &column);
    return bt_fail_at(err, BT_E_FORMAT, (int64_t)offset,
                      "invalid JSON at line %zu, column %zu (byte %zu): %s", line, column, offset,
                      why);
}

/* Index after a string's closing quote (or text.n); p[i] follows the opening one. */
static size_t skip_string(bt_str text, size_t i)
{
    while (i < text.n && text.p[i] != '"') {
        i += text.p[i] == '\\' ? 2 : 1;
    }
    return BT_MIN(i + 1, text.n);
}

/* Finds what jansson must not see: deep nesting, and NUL bytes, which it drops after a number. */
static bt_status check_bytes(bt_str text, bt_err *err)
{
    const char *nul = memchr(text.p, '\0', text.n);
    if (nul != NULL) {
        return fail_at(text, (size_t)(nul - text.p), "a NUL byte", err);
    }
    int depth = 0;
    for (size_t i = 0; i < text.n;) {
        char c = text.p[i++];
        if (c == '"') {
            i = skip_string(text, i);
        } else if (c == '[' || c == '{') {
            if (++depth > BT_JSON_DEPTH_MAX) {
                return fail_at(text, i - 1, "nested deeper than 64 levels", err);
            }
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return BT_OK;
}

static bt_status fail_parse(bt_str text, const json_error_t *error, bt_err *err)
{
    if (alloc_failed) {
        return bt_fail(err, BT_E_NO_MEMORY, "out of memory while reading %zu bytes of JSON",
                       text.n);
    }
    /* The message quotes the input and may end inside a character. */
    size_t offset = error->position < 0 ? 0 : (size_t)error->position;
    bt_str words = bt_str_of(error->text);
    char why[JSON_ERROR_TEXT_LENGTH];
    int n = (int)bt_utf8_valid(words);
    (void)snprintf(why, sizeof why, "%.*s", n, words.p);
    return fail_at(text, BT_MIN(offset, text.n), why, err);
}

bt_status bt_json_parse(bt_str text, bt_json **out, bt_err *err)
{
    (void)pthread_once(&alloc_once, set_alloc);
    if (text.n == 0) {
        return bt_fail_at(err, BT_E_FORMAT, 0, "invalid JSON: the text is empty");
    }
    BT_TRY(check_bytes(text, err));
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_error_t error = {0};
    alloc_failed = false;
    json_t *root = json_loadb(text.p, text.n, flags, &error);
    if (root == NULL) {
        return fail_parse(text, &error, err);
    }
    *out = (bt_json *)root;
    return BT_OK;
}

/* Copies JSON and writes ".0" after every whole number of more than 18 digits. */
static void widen_integers(bt_str text, bt_buf *out)
{
    bool in_string = false;
    for (size_t i = 0; i < text.n;) {
        size_t begin = i;
        char c = text.p[i++];
        if (in_string && c == '\\' && i < text.n) {
            i++;
        } else if (c == '"') {
            in_string = !in_string;
        } else if (!in_string && c >= '0' && c <= '9') {
            while (i < text.n && text.p[i] >= '0' && text.p[i] <= '9') {
                i++;
            }
        }
        bt_buf_push(out, text.p + begin, i - begin);
        bool real = i < text.n && (text.p[i] == '.' || text.p[i] == 'e' || text.p[i] == 'E');
        if (i - begin > 18 && !real) {
            bt_buf_pushz(out, ".0");
        }
    }
}

bt_status bt_json_parse_config(bt_str text, bt_json **out, bt_err *err)
{
    bt_err first = {0};
    bt_status status = bt_json_parse(text, out, &first);
    if (status != BT_E_FORMAT || strstr(first.message, "too big integer") == NULL) {
        if (status != BT_OK && err != NULL) {
            *err = first;
        }
        return status;
    }
    bt_buf widened;
    bt_buf_init(&widened, BT_MEM_TEXT, 2 * text.n + 16);
    widen_integers(text, &widened);
    status = bt_buf_ok(&widened);
    status = status == BT_OK ? bt_json_parse(bt_buf_str(&widened), out, err)
                             : bt_fail(err, status, "no memory for %zu bytes of JSON", text.n);
    bt_buf_deinit(&widened);
    return status;
}

void bt_json_close(bt_json *root)
{
    json_decref((json_t *)root);
}

bt_json_kind bt_json_kind_of(const bt_json *value)
{
    switch (json_typeof(node(value))) {
    case JSON_OBJECT:
        return BT_JSON_OBJECT;
    case JSON_ARRAY:
        return BT_JSON_ARRAY;
    case JSON_STRING:
        return BT_JSON_STRING;
    case JSON_INTEGER:
        return BT_JSON_INT;
    case JSON_REAL:
        return BT_JSON_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return BT_JSON_BOOL;
    case JSON_NULL:
        break;
    }
    return BT_JSON_NULL;
}

const char *bt_json_kind_text(bt_json_kind kind)
{
    static const char *const names[] = {"null",     "a boolean", "an integer", "a number",
                                        "a string", "an array",  "an object"};
    BT_ASSERT((size_t)kind < BT_COUNT(names));
    return names[kind];
}

bool bt_json_bool(const bt_json *value)
{
    BT_ASSERT(json_is_boolean(node(value)));
    return json_is_true(node(value));
}

int64_t bt_json_int(const bt_json *value)
{
    BT_ASSERT(json_is_integer(node(value)));
    return json_integer_value(node(value));
}

double bt_json_real(const bt_json *value)
{
    BT_ASSERT(json_is_number(node(value)));
    return json_number_value(node(value));
}

bt_str bt_json_str(const bt_json *value)
{
    BT_ASSERT(json_is_string(node(value)));
    return (bt_str){json_string_value(node(value)), json_string_length(node(value))};
}

size_t bt_json_count(const bt_json *value)
{
    if (json_is_array(node(value))) {
        return json_array_size(node(value));
    }
    BT_ASSERT(json_is_object(node(value)));
    return json_object_size(node(value));
}

const bt_json *bt_json_at(const bt_json *array, size_t idx)
{
    BT_ASSERT(json_is_array(node(array)));
    BT_ASSERT(idx < json_array_size(node(array)));
    return view(json_array_get(node(array), idx));
}

const bt_json *bt_json_get(const bt_json *object, const char *key)
{
    BT_ASSERT(json_is_object(node(object)));
    return view(json_object_get(node(object), key));
}

bool bt_json_next(const bt_json *object, void **iter, bt_str *key, const bt_json **value)
{
    BT_ASSERT(json_is_object(node(object)));
    *iter =
        *iter == NULL ? json_object_iter(node(object)) : json_object_iter_next(node(object), *iter);
    if (*iter == NULL) {
        return false;
    }
    *key = bt_str_of(json_object_iter_key(*iter));
    *value = view(json_object_iter_value(*iter));
    return true;
}
