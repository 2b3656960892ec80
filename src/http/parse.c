/* SPDX-License-Identifier: MIT
 *
 * parse.c: the states of a message.
 *
 *   head lines → head ready → ┬ length bytes ────────────────────────────┬→ done
 *                             ├ until the peer closes (responses) ───────┤
 *                             └ chunk line → data → CRLF … → trailers ───┘
 *
 * Head lines are gathered in parser->head, each checked when its LF is there; chunk lines and
 * trailers are checked byte by byte and not kept. Limits are counted in bytes from the start of
 * the line, so that an answer does not depend on how the bytes were cut. */
#include "http/head.h"

#include <string.h>

enum {
    AT_START,    /* before the first byte */
    AT_START_LF, /* inside the one empty line that may come first */
    AT_FIRST,    /* start line */
    AT_FIELDS,
    AT_BODY, /* the head has been handed out */
    AT_LENGTH,
    AT_UNTIL_EOF,
    AT_CHUNK_SIZE,
    AT_CHUNK_BLANK, /* blanks between size and extension */
    AT_CHUNK_EXT,
    AT_CHUNK_LF,
    AT_CHUNK_DATA,
    AT_DATA_CR,
    AT_DATA_LF,
    AT_TRAILER, /* start of a trailer line */
    AT_TRAILER_NAME,
    AT_TRAILER_VALUE,
    AT_TRAILER_LF,
    AT_END_LF,
    AT_DONE,
    AT_BAD
};

/* Method, target, version, two blanks, CRLF. */
enum { FIRST_LINE_MAX = BT_HTTP_METHOD_MAX + BT_HTTP_TARGET_MAX + 12 };

void bt_http_parser_init(bt_http_parser *parser, bt_http_kind kind, bt_mem_tag tag)
{
    memset(parser, 0, sizeof *parser);
    parser->kind = kind;
    bt_buf_init(&parser->head, tag, BT_HTTP_HEAD_MAX);
    bt_http_parser_reset(parser);
}

void bt_http_parser_deinit(bt_http_parser *parser)
{
    bt_buf_deinit(&parser->head);
}

void bt_http_parser_reset(bt_http_parser *parser)
{
    bt_buf head = parser->head;
    bt_http_kind kind = parser->kind;
    /* The arrays of spans need no clearing: n_fields bounds them. */
    memset(parser, 0, offsetof(bt_http_parser, name));
    parser->kind = kind;
    parser->head = head;
    parser->body_max = BT_HTTP_BODY_MAX;
    bt_buf_clear(&parser->head);
    if (parser->head.cap > 4096) {
        /* One large head must not hold memory for as long as the connection idles. */
        bt_buf_deinit(&parser->head);
    }
}

static bt_http_event bad(bt_http_parser *parser, int status, const char *why)
{
    bt_http_head_bad(parser, status, why);
    parser->state = AT_BAD;
    return BT_HTTP_BAD;
}

static bt_http_event line_too_long(bt_http_parser *parser)
{
    if (parser->state != AT_FIRST) {
        return bad(parser, 431, "the header is larger than 65536 bytes");
    }
    if (parser->kind == BT_HTTP_RESPONSE) {
        return bad(parser, 400, "the status line is too long");
    }
    return bad(parser, 414, "the request line is longer than 8192 bytes");
}

/* A whole line, CRLF included, lies from line_at to the end of the head. Returns BT_HTTP_MORE to
 * go on. */
static bt_http_event head_line(bt_http_parser *parser)
{
    size_t n = parser->head.n - parser->line_at;
    const char *line = parser->head.p + parser->line_at;
    if (n < 2 || line[n - 2] != '\r') {
        return bad(parser, 400, "a header line does not end in CR LF");
    }
    n -= 2;
    bool ok;
    if (parser->state == AT_FIRST) {
        ok = bt_http_head_first(parser, n);
        parser->state = AT_FIELDS;
    } else if (n > 0) {
        ok = bt_http_head_field(parser, n);
    } else {
        ok = bt_http_head_check(parser);
        parser->state = AT_BODY;
    }
    parser->line_at = parser->head.n;
    if (!ok) {
        parser->state = AT_BAD;
        return BT_HTTP_BAD;
    }
    return parser->state == AT_BODY ? BT_HTTP_HEAD : BT_HTTP_MORE;
}

/* The first byte tells TLS and noise apart from HTTP before anything is gathered. */
static bt_http_event start_byte(bt_http_parser *parser, unsigned char c, size_t *used)
{
    if (parser->state == AT_START_LF) {
        if (c != '\n') {
            return bad(parser, 400, "a line does not end in CR LF");
        }
        parser->state = AT_START;
        parser->skipped_line = true;
        ++*used;
        return BT_HTTP_MORE;
    }
    if (c == '\r' && parser->kind == BT_HTTP_REQUEST && !parser->skipped_line) {
        /* RFC 9112 2.2: some clients send an empty line after a body. One is enough. */
        parser->state = AT_START_LF;
        ++*used;
        return BT_HTTP_MORE;
    }
    bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (!letter || (parser->kind == BT_HTTP_RESPONSE && c != 'H')) {
        return bad(parser, 400, "this is not HTTP");
    }
    parser->state = AT_FIRST;
    return BT_HTTP_MORE;
}

static bt_http_event next_head(bt_http_parser *parser, const char *bytes, size_t n, size_t *used)
{
    while (*used < n) {
        if (parser->state < AT_FIRST) {
            if (start_byte(parser, (unsigned char)bytes[*used], used) == BT_HTTP_BAD) {
                return BT_HTTP_BAD;
            }
            continue;
        }
        const char *from = bytes + *used;
        const char *lf = memchr(from, '\n', n - *used);
        size_t take = lf == NULL ? n - *used : (size_t)(lf - from) + 1;
        size_t room = BT_HTTP_HEAD_MAX - parser->head.n;
        if (parser->state == AT_FIRST) {
            room = BT_MIN(room, FIRST_LINE_MAX - parser->head.n);
        }
        if (take > room) {
            return line_too_long(parser);
        }
        bt_buf_push(&parser->head, from, take);
        if (bt_buf_ok(&parser->head) != BT_OK) {
            return bad(parser, 503, "out of memory");
        }
        *used += take;
        if (lf != NULL) {
            bt_http_event event = head_line(parser);
            if (event != BT_HTTP_MORE) {
                return event;
            }
        }
    }
    return BT_HTTP_MORE;
}

bool bt_http_parser_has_body(const bt_http_parser *parser)
{
    if (parser->kind == BT_HTTP_REQUEST) {
        return parser->chunked || parser->length > 0;
    }
    bool never =
        parser->no_body || parser->status < 200 || parser->status == 204 || parser->status == 304;
    return !never && (parser->chunked || !parser->has_length || parser->length > 0);
}

/* Chooses the framing of the body once the head has been handed out. */
static bt_http_event begin_body(bt_http_parser *parser)
{
    BT_ASSERT(parser->body_max <= BT_HTTP_BODY_MAX);
    if (!bt_http_parser_has_body(parser)) {
        parser->state = AT_DONE;
        return BT_HTTP_DONE;
    }
    if (parser->chunked) {
        parser->state = AT_CHUNK_SIZE;
    } else if (parser->has_length) {
        if (parser->length > parser->body_max) {
            return bad(parser, 413, "the request body is larger than this route accepts");
        }
        parser->left = parser->length;
        parser->state = AT_LENGTH;
    } else {
        parser->keep_alive = false;
        parser->state = AT_UNTIL_EOF;
    }
    return BT_HTTP_MORE;
}

/* Hands out as much of the body as the input holds; n > 0. */
static bt_http_event take_data(bt_http_parser *parser, bt_str in, size_t *used, bt_str *data)
{
    size_t take = in.n;
    if (parser->state == AT_UNTIL_EOF) {
        take = (size_t)BT_MIN((uint64_t)take, parser->body_max - parser->body_got);
        if (take == 0) {
            return bad(parser, 413, "the body is larger than the limit");
        }
    } else {
        take = (size_t)BT_MIN((uint64_t)take, parser->left);
        parser->left -= take;
        if (parser->left == 0) {
            parser->state = parser->state == AT_LENGTH ? AT_DONE : AT_DATA_CR;
        }
    }
    parser->body_got += take;
    *data = (bt_str){in.p, take};
    *used += take;
    return BT_HTTP_DATA;
}

static int hex_value(unsigned char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bt_http_event chunk_line_end(bt_http_parser *parser)
{
    parser->n_line = 0;
    parser->n_digits = 0;
    if (parser->left == 0) {
        parser->state = AT_TRAILER;
        return BT_HTTP_MORE;
    }
    if (parser->left > parser->body_max - parser->body_got) {
        return bad(parser, 413, "the request body is larger than this route accepts");
    }
    parser->state = AT_CHUNK_DATA;
    return BT_HTTP_MORE;
}

/* One byte of "size [;extension] CR LF". */
static bt_http_event chunk_line_byte(bt_http_parser *parser, unsigned char c)
{
    if (++parser->n_line > BT_HTTP_CHUNK_LINE_MAX) {
        return bad(parser, 400, "a chunk line is longer than 4096 bytes");
    }
    if (parser->state == AT_CHUNK_LF) {
        return c == '\n' ? chunk_line_end(parser)
                         : bad(parser, 400, "a chunk line does not end in CR LF");
    }
    if (parser->state == AT_CHUNK_SIZE) {
        int digit = hex_value(c);
        if (digit >= 0) {
            parser->left = parser->n_digits++ == 0 ? 0 : parser->left;
            parser->left = parser->left >= BT_HTTP_BODY_MAX / 16
                               ? 2 * BT_HTTP_BODY_MAX
                               : parser->left * 16 + (uint64_t)digit;
            return BT_HTTP_MORE;
        }
        if (parser->n_digits == 0) {
            return bad(parser, 400, "a chunk size is not a hexadecimal number");
        }
    }
    if (c == '\r' && parser->state != AT_CHUNK_BLANK) {
        parser->state = AT_CHUNK_LF;
        return BT_HTTP_MORE;
    }
    if (parser->state == AT_CHUNK_EXT) {
        if (!bt_http_is_value_char(c)) {
            return bad(parser, 400, "a chunk extension holds a control character");
        }
        if (++parser->n_ext > BT_HTTP_CHUNK_EXT_MAX) {
            return bad(parser, 400, "more than 65536 bytes of chunk extensions");
        }
        return BT_HTTP_MORE;
    }
    if (c == ';') {
        parser->state = AT_CHUNK_EXT;
        return BT_HTTP_MORE;
    }
    if (c == ' ' || c == '\t') {
        parser->state = AT_CHUNK_BLANK;
        return BT_HTTP_MORE;
    }
    return bad(parser, 400, "a chunk size is not a hexadecimal number");
}

/* One byte of the trailer section; trailers are checked and dropped. */
static bt_http_event trailer_byte(bt_http_parser *parser, unsigned char c)
{
    if (++parser->n_line > BT_HTTP_TRAILER_MAX) {
        return bad(parser, 431, "the trailers are larger than 65536 bytes");
    }
    switch (parser->state) {
    case AT_TRAILER:
        if (c == '\r') {
            parser->state = AT_END_LF;
            return BT_HTTP_MORE;
        }
        if (parser->n_trailers++ == BT_HTTP_FIELDS_MAX) {
            return bad(parser, 431, "more than 128 trailers");
        }
        parser->state = AT_TRAILER_NAME;
        return bt_http_is_token_char(c) ? BT_HTTP_MORE : bad(parser, 400, "a trailer is malformed");
    case AT_TRAILER_NAME:
        if (c == ':') {
            parser->state = AT_TRAILER_VALUE;
            return BT_HTTP_MORE;
        }
        return bt_http_is_token_char(c) ? BT_HTTP_MORE : bad(parser, 400, "a trailer is malformed");
    case AT_TRAILER_VALUE:
        if (c == '\r') {
            parser->state = AT_TRAILER_LF;
            return BT_HTTP_MORE;
        }
        return bt_http_is_value_char(c) ? BT_HTTP_MORE : bad(parser, 400, "a trailer is malformed");
    default: /* AT_TRAILER_LF, AT_END_LF */
        if (c != '\n') {
            return bad(parser, 400, "a trailer does not end in CR LF");
        }
        parser->state = parser->state == AT_END_LF ? AT_DONE : AT_TRAILER;
        return parser->state == AT_DONE ? BT_HTTP_DONE : BT_HTTP_MORE;
    }
}

/* One byte of what stands between body bytes. */
static bt_http_event framing_byte(bt_http_parser *parser, unsigned char c)
{
    if (parser->state == AT_DATA_CR || parser->state == AT_DATA_LF) {
        if (c != (parser->state == AT_DATA_CR ? '\r' : '\n')) {
            return bad(parser, 400, "a chunk does not end in CR LF");
        }
        parser->state = parser->state == AT_DATA_CR ? AT_DATA_LF : AT_CHUNK_SIZE;
        return BT_HTTP_MORE;
    }
    return parser->state <= AT_CHUNK_LF ? chunk_line_byte(parser, c) : trailer_byte(parser, c);
}

bt_http_event bt_http_parser_next(bt_http_parser *parser, const char *bytes, size_t n, size_t *used,
                                  bt_str *data)
{
    *used = 0;
    if (parser->state <= AT_FIELDS) {
        return next_head(parser, bytes, n, used);
    }
    if (parser->state == AT_BODY) {
        bt_http_event event = begin_body(parser);
        if (event != BT_HTTP_MORE) {
            return event;
        }
    }
    while (*used < n && parser->state < AT_DONE) {
        if (parser->state == AT_LENGTH || parser->state == AT_UNTIL_EOF ||
            parser->state == AT_CHUNK_DATA) {
            return take_data(parser, (bt_str){bytes + *used, n - *used}, used, data);
        }
        bt_http_event event = framing_byte(parser, (unsigned char)bytes[*used]);
        if (event == BT_HTTP_BAD) {
            return event;
        }
        ++*used;
    }
    if (parser->state == AT_BAD) {
        return BT_HTTP_BAD;
    }
    return parser->state == AT_DONE ? BT_HTTP_DONE : BT_HTTP_MORE;
}

bt_http_event bt_http_parser_eof(bt_http_parser *parser)
{
    switch (parser->state) {
    case AT_BAD:
        return BT_HTTP_BAD;
    case AT_START:
        return BT_HTTP_MORE;
    case AT_BODY:
        if (bt_http_parser_has_body(parser) && (parser->chunked || parser->has_length)) {
            return bad(parser, 400, "the message ended before its body");
        }
        parser->state = AT_DONE;
        return BT_HTTP_DONE;
    case AT_UNTIL_EOF:
        parser->state = AT_DONE;
        return BT_HTTP_DONE;
    case AT_DONE:
        return BT_HTTP_DONE;
    default:
        return bad(parser, 400, "the message ended before it was complete");
    }
}

bool bt_http_parser_is_idle(const bt_http_parser *parser)
{
    return parser->state == AT_START;
}
