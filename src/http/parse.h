/* SPDX-License-Identifier: MIT
 *
 * parse.h: HTTP/1.1 messages from bytes, piece by piece. Bytes in, events out: no sockets, no
 * clock, no callbacks, so that a table of byte strings and a fuzzer can test all of it.
 *
 * RFC 9110 and 9112, read strictly: what two readers could frame differently (both framing fields,
 * one of them twice, a bare LF, folded lines, blanks before a colon) is refused, never repaired.
 * The events of a message do not depend on how its bytes were cut into pieces.
 *
 *   for (;;) {
 *       switch (bt_http_parser_next(&parser, bytes, n, &used, &data)) { … }
 *       bytes += used, n -= used;
 *   }
 *
 * One thread at a time. */
#ifndef BT_HTTP_PARSE_H
#define BT_HTTP_PARSE_H

#include "base/buf.h"

enum {
    BT_HTTP_HEAD_MAX = 64 << 10,      /* bytes of start line and fields; beyond: 431 */
    BT_HTTP_FIELDS_MAX = 128,         /* beyond: 431; the same for trailers */
    BT_HTTP_TARGET_MAX = 8 << 10,     /* beyond: 414 */
    BT_HTTP_METHOD_MAX = 32,          /* beyond: 501 */
    BT_HTTP_CHUNK_LINE_MAX = 4096,    /* beyond: 400 */
    BT_HTTP_CHUNK_EXT_MAX = 64 << 10, /* extension bytes of one body together; beyond: 400 */
    BT_HTTP_TRAILER_MAX = 64 << 10    /* beyond: 431 */
};
/* The largest body_max that may be set; a chunk size counts as this much at most. */
#define BT_HTTP_BODY_MAX (UINT64_C(1) << 60)

typedef enum bt_http_kind { BT_HTTP_REQUEST, BT_HTTP_RESPONSE } bt_http_kind;

typedef enum bt_http_event {
    BT_HTTP_MORE, /* every byte was used; more are needed */
    BT_HTTP_HEAD, /* the head is complete: read it, set body_max, go on (also with no bytes) */
    BT_HTTP_DATA, /* *data holds body bytes; they lie inside the given bytes */
    BT_HTTP_DONE, /* the message is complete; bt_http_parser_reset before the next one */
    BT_HTTP_BAD   /* bad_status and bad_why say what is wrong; stays so until a reset */
} bt_http_event;

/* A name and a value, both borrowed. */
typedef struct bt_http_field {
    bt_str name, value;
} bt_http_field;

/* Bytes of the head by place, because the head moves while it grows. */
typedef struct bt_http_span {
    uint16_t at, n;
} bt_http_span;

/* Embedded in the caller's storage. Read only what is named "head:" below, by the functions. */
typedef struct bt_http_parser {
    bt_http_kind kind;
    int state;
    bool skipped_line; /* the one empty line that may precede a request */
    bool no_body;      /* responses: the request was HEAD; set by the caller, cleared by reset */
    uint64_t body_max; /* requests: set after BT_HTTP_HEAD; beyond: 413 */
    uint64_t body_got;
    uint64_t left;   /* of this chunk or of the whole length */
    size_t line_at;  /* where the current head line starts */
    size_t n_line;   /* bytes of the current chunk line or of all trailers */
    size_t n_ext;    /* extension bytes so far */
    size_t n_digits; /* of the chunk size */
    size_t n_trailers;
    int bad_status;      /* the answer this deserves: 400, 408, 413, 414, 417, 431, 501, 503, 505 */
    const char *bad_why; /* static text for a person */
    bt_buf head;         /* the bytes that the spans point into */

    /* head: valid from BT_HTTP_HEAD to the reset */
    int minor;       /* of HTTP/1.minor */
    int status;      /* responses */
    bool chunked;    /* body comes in chunks */
    bool has_length; /* body comes with a length */
    uint64_t length; /* that length */
    bool keep_alive; /* what version and Connection fields say */
    bool expect_continue;
    bt_http_span method, target, path, query;
    size_t n_fields;
    bt_http_span name[BT_HTTP_FIELDS_MAX], value[BT_HTTP_FIELDS_MAX];
} bt_http_parser;

/* Prepares a parser; allocates nothing yet. body_max starts at BT_HTTP_BODY_MAX. */
void bt_http_parser_init(bt_http_parser *parser, bt_http_kind kind, bt_mem_tag tag);
void bt_http_parser_deinit(bt_http_parser *parser);
/* Forgets the message; the next byte starts a new one. */
void bt_http_parser_reset(bt_http_parser *parser);

/* Reads on. *used (always set) says how many of the n bytes were taken; give the rest again. */
bt_http_event bt_http_parser_next(bt_http_parser *parser, const char *bytes, size_t n, size_t *used,
                                  bt_str *data);
/* The peer will send no more: BT_HTTP_DONE where that ends the message (a response without
 * length), BT_HTTP_MORE between two messages, else BT_HTTP_BAD with status 400. */
bt_http_event bt_http_parser_eof(bt_http_parser *parser);

/* True while no byte of a message has been taken. */
bool bt_http_parser_is_idle(const bt_http_parser *parser);
/* After BT_HTTP_HEAD: true when body bytes are announced. */
bool bt_http_parser_has_body(const bt_http_parser *parser);

/* Borrowed until the next reset. */
bt_str bt_http_parser_str(const bt_http_parser *parser, bt_http_span span);
bt_http_field bt_http_parser_field(const bt_http_parser *parser, size_t field_idx);
/* How many fields have this name (ASCII case does not matter); *value is the first one's, untouched
 * when there is none. value may be NULL. */
size_t bt_http_parser_find(const bt_http_parser *parser, const char *name, bt_str *value);

/* ASCII case-insensitive equality. */
bool bt_http_name_is(bt_str name, const char *other);
/* True when the comma-separated list holds the token (ASCII case does not matter). */
bool bt_http_list_has(bt_str list, const char *token);

#endif
