/* SPDX-License-Identifier: MIT
 *
 * json.h: JSON trees (RFC 8259), read strictly, and a writer.
 *
 * Trees come from jansson; this header hides it and adds what it lacks: a depth limit that is
 * checked before parsing (jansson recurses), errors that name line, column and byte, length-carrying
 * strings. A tree is immutable after parsing and may be read by several threads. */
#ifndef BT_TEXT_JSON_H
#define BT_TEXT_JSON_H

#include "base/buf.h"
#include "base/status.h"

typedef struct bt_json bt_json;

typedef enum bt_json_kind {
    BT_JSON_NULL = 0,
    BT_JSON_BOOL,
    BT_JSON_INT,
    BT_JSON_REAL,
    BT_JSON_STRING,
    BT_JSON_ARRAY,
    BT_JSON_OBJECT
} bt_json_kind;

enum { BT_JSON_DEPTH_MAX = 64 };

/* Parses a whole document: any top-level value, duplicate keys refused, NUL allowed in strings (not
 * in keys), nesting up to BT_JSON_DEPTH_MAX. Errors: BT_E_FORMAT with err->position = byte offset and
 * a message with line and column; BT_E_NO_MEMORY. Returns owned: bt_json_close. */
bt_status bt_json_parse(bt_str text, bt_json **out, bt_err *err) BT_MUST_USE;
/* The same for configuration files: whole numbers beyond 64 bits become reals, as model_max_length
 * 1000000000000000019884624838656 of many tokenizer_config.json is one. Not for requests. */
bt_status bt_json_parse_config(bt_str text, bt_json **out, bt_err *err) BT_MUST_USE;
void bt_json_close(bt_json *root); /* NULL is allowed */

bt_json_kind bt_json_kind_of(const bt_json *value);
/* "null", "a boolean", "an integer", "a number", "a string", "an array", "an object": for messages. */
const char *bt_json_kind_text(bt_json_kind kind);

/* The caller has checked the kind (asserted). */
bool bt_json_bool(const bt_json *value);
int64_t bt_json_int(const bt_json *value);
double bt_json_real(const bt_json *value); /* INT or REAL */
bt_str bt_json_str(const bt_json *value);  /* borrowed from the tree */

/* Elements of an array or members of an object. */
size_t bt_json_count(const bt_json *value);
const bt_json *bt_json_at(const bt_json *array, size_t idx);
/* NULL when the object lacks the key. */
const bt_json *bt_json_get(const bt_json *object, const char *key);
/* Members in the order of the document: start with *iter = NULL; false at the end. */
bool bt_json_next(const bt_json *object, void **iter, bt_str *key, const bt_json **value);

/* Appends the value as compact JSON (UTF-8 kept, "," and ":" without blanks). */
void bt_json_dump(const bt_json *value, bt_buf *out);

/* A writer without a tree. The caller keeps the structure right (asserted by depth); commas are
 * its job. Reals are written with the fewest digits that read back as the same double; a real
 * that is not finite is written as null. */
typedef struct bt_jsonw {
    bt_buf *out;
    int depth;
    bool comma[BT_JSON_DEPTH_MAX + 1]; /* whether the next item at a depth needs a comma */
    bool after_key;
} bt_jsonw;

void bt_jsonw_init(bt_jsonw *w, bt_buf *out);
void bt_jsonw_open(bt_jsonw *w, char bracket);  /* '{' or '[' */
void bt_jsonw_close(bt_jsonw *w, char bracket); /* '}' or ']' */
void bt_jsonw_key(bt_jsonw *w, const char *key);
void bt_jsonw_str(bt_jsonw *w, bt_str value); /* invalid UTF-8 becomes U+FFFD */
void bt_jsonw_strz(bt_jsonw *w, const char *value);
void bt_jsonw_int(bt_jsonw *w, int64_t value);
void bt_jsonw_real(bt_jsonw *w, double value);
void bt_jsonw_bool(bt_jsonw *w, bool value);
void bt_jsonw_null(bt_jsonw *w);
/* Ready JSON text as one value. */
void bt_jsonw_raw(bt_jsonw *w, bt_str json);

#endif
