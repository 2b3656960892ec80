/* SPDX-License-Identifier: MIT
 *
 * head.c: start line, fields and the rules that decide how a body is framed (RFC 9112 sections 3,
 * 5, 6). Lines are handled by length, never as C strings: a NUL is one more forbidden byte. */
#include "http/head.h"

#include <string.h>

static_assert(BT_HTTP_HEAD_MAX <= 1 << 16, "a span holds 16-bit places");

bool bt_http_head_bad(bt_http_parser *parser, int status, const char *why)
{
    parser->bad_status = status;
    parser->bad_why = why;
    return false;
}

static bool is_alnum(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool bt_http_is_token_char(unsigned char c)
{
    return is_alnum(c) || (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

bool bt_http_is_value_char(unsigned char c)
{
    return c == '\t' || (c >= 0x20 && c != 0x7f);
}

static unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

static bool same_nocase(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (lower(a[i]) != lower(b[i])) {
            return false;
        }
    }
    return true;
}

bool bt_http_name_is(bt_str name, const char *other)
{
    return name.n == strlen(other) && same_nocase(name.p, other, name.n);
}

static bt_str trim(bt_str s)
{
    while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t')) {
        s.p++;
        s.n--;
    }
    while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t')) {
        s.n--;
    }
    return s;
}

bool bt_http_list_has(bt_str list, const char *token)
{
    while (list.n > 0) {
        const char *comma = memchr(list.p, ',', list.n);
        size_t n = comma == NULL ? list.n : (size_t)(comma - list.p);
        if (bt_http_name_is(trim((bt_str){list.p, n}), token)) {
            return true;
        }
        size_t skip = BT_MIN(n + 1, list.n);
        list.p += skip;
        list.n -= skip;
    }
    return false;
}

bt_str bt_http_parser_str(const bt_http_parser *parser, bt_http_span span)
{
    BT_ASSERT((size_t)span.at + span.n <= parser->head.n);
    return (bt_str){.p = span.n == 0 ? "" : parser->head.p + span.at, .n = span.n};
}

bt_http_field bt_http_parser_field(const bt_http_parser *parser, size_t field_idx)
{
    BT_ASSERT(field_idx < parser->n_fields);
    return (bt_http_field){.name = bt_http_parser_str(parser, parser->name[field_idx]),
                           .value = bt_http_parser_str(parser, parser->value[field_idx])};
}

size_t bt_http_parser_find(const bt_http_parser *parser, const char *name, bt_str *value)
{
    size_t n_found = 0;
    for (size_t i = 0; i < parser->n_fields; i++) {
        bt_http_field field = bt_http_parser_field(parser, i);
        if (bt_http_name_is(field.name, name)) {
            if (n_found == 0 && value != NULL) {
                *value = field.value;
            }
            n_found++;
        }
    }
    return n_found;
}

static bt_http_span span_of(const bt_http_parser *parser, const char *p, size_t n)
{
    return (bt_http_span){.at = (uint16_t)(p - parser->head.p), .n = (uint16_t)n};
}

/* "HTTP/1.1" and its kin, exactly eight bytes. */
static bool take_version(bt_http_parser *parser, const char *p)
{
    if (memcmp(p, "HTTP/", 5) != 0 || p[5] < '0' || p[5] > '9' || p[6] != '.' || p[7] < '0' ||
        p[7] > '9') {
        return bt_http_head_bad(parser, 400, "the start line has no HTTP version");
    }
    if (p[5] != '1') {
        return bt_http_head_bad(parser, 505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    }
    parser->minor = p[7] - '0';
    return true;
}

/* Length of a leading "http://" or "https://", else 0. */
static size_t scheme_length(bt_str target)
{
    for (size_t n = 7; n <= 8; n++) {
        const char *scheme = n == 7 ? "http://" : "https://";
        if (target.n >= n && same_nocase(target.p, scheme, n)) {
            return n;
        }
    }
    return 0;
}

/* Path and query of the target, as sent. The absolute form is reduced to its path. */
static bool take_target(bt_http_parser *parser, bt_str target, bt_str method)
{
    size_t scheme = scheme_length(target);
    const char *path = target.p;
    const char *end = target.p + target.n;
    if (scheme > 0) {
        path = target.p + scheme;
        while (path < end && *path != '/' && *path != '?') {
            path++;
        }
        if (path == target.p + scheme) {
            return bt_http_head_bad(parser, 400, "the request target names no host");
        }
    } else if (target.p[0] != '/' && !bt_str_eqz(method, "CONNECT") &&
               !(bt_str_eqz(target, "*") && bt_str_eqz(method, "OPTIONS"))) {
        return bt_http_head_bad(parser, 400, "the request target must begin with /");
    }
    const char *mark = memchr(path, '?', (size_t)(end - path));
    size_t n_path = (size_t)((mark == NULL ? end : mark) - path);
    parser->path = span_of(parser, path, n_path);
    if (scheme > 0 && n_path == 0) {
        /* "http://host" means "/": borrow the last slash of "://". */
        parser->path = span_of(parser, target.p + scheme - 1, 1);
    }
    if (mark != NULL) {
        parser->query = span_of(parser, mark + 1, (size_t)(end - mark) - 1);
    }
    return true;
}

static bool request_line(bt_http_parser *parser, bt_str line)
{
    const char *space = memchr(line.p, ' ', line.n);
    bt_str method = {line.p, space == NULL ? line.n : (size_t)(space - line.p)};
    for (size_t i = 0; i < method.n; i++) {
        if (!bt_http_is_token_char((unsigned char)method.p[i])) {
            return bt_http_head_bad(parser, 400, "the request method is malformed");
        }
    }
    if (method.n > BT_HTTP_METHOD_MAX) {
        return bt_http_head_bad(parser, 501, "the request method is unknown");
    }
    if (space == NULL || line.n - method.n < 1 + 1 + 1 + 8 || line.p[line.n - 9] != ' ') {
        return bt_http_head_bad(parser, 400, "the request line must be: method target HTTP/1.1");
    }
    bt_str target = {space + 1, line.n - method.n - 10};
    for (size_t i = 0; i < target.n; i++) {
        unsigned char c = (unsigned char)target.p[i];
        if (c <= 0x20 || c >= 0x7f || c == '#') {
            return bt_http_head_bad(parser, 400, "the request target holds a forbidden byte");
        }
    }
    if (target.n > BT_HTTP_TARGET_MAX) {
        return bt_http_head_bad(parser, 414, "the request target is longer than 8192 bytes");
    }
    parser->method = span_of(parser, method.p, method.n);
    parser->target = span_of(parser, target.p, target.n);
    return take_version(parser, line.p + line.n - 8) && take_target(parser, target, method);
}

static bool status_line(bt_http_parser *parser, bt_str line)
{
    if (line.n < 12 || line.p[8] != ' ') {
        return bt_http_head_bad(parser, 400, "the status line must be: HTTP/1.1 status reason");
    }
    if (!take_version(parser, line.p)) {
        return false;
    }
    int status = 0;
    for (size_t i = 9; i < 12; i++) {
        if (line.p[i] < '0' || line.p[i] > '9') {
            return bt_http_head_bad(parser, 400, "the status code is not three digits");
        }
        status = status * 10 + (line.p[i] - '0');
    }
    if (status < 100 || status > 599 || (line.n > 12 && line.p[12] != ' ')) {
        return bt_http_head_bad(parser, 400, "the status line is malformed");
    }
    for (size_t i = 12; i < line.n; i++) {
        if (!bt_http_is_value_char((unsigned char)line.p[i])) {
            return bt_http_head_bad(parser, 400, "the status line holds a control character");
        }
    }
    parser->status = status;
    return true;
}

bool bt_http_head_first(bt_http_parser *parser, size_t n)
{
    bt_str line = {parser->head.p + parser->line_at, n};
    return parser->kind == BT_HTTP_REQUEST ? request_line(parser, line) : status_line(parser, line);
}

bool bt_http_head_field(bt_http_parser *parser, size_t n)
{
    bt_str line = {parser->head.p + parser->line_at, n};
    BT_ASSERT(n > 0);
    if (line.p[0] == ' ' || line.p[0] == '\t') {
        return bt_http_head_bad(parser, 400, "folded header lines are not accepted");
    }
    if (parser->n_fields == BT_HTTP_FIELDS_MAX) {
        return bt_http_head_bad(parser, 431, "more than 128 header fields");
    }
    size_t n_name = 0;
    while (n_name < line.n && bt_http_is_token_char((unsigned char)line.p[n_name])) {
        n_name++;
    }
    if (n_name == 0 || n_name == line.n || line.p[n_name] != ':') {
        return bt_http_head_bad(parser, 400, "a header name is malformed");
    }
    bt_str value = trim((bt_str){line.p + n_name + 1, line.n - n_name - 1});
    for (size_t i = 0; i < value.n; i++) {
        if (!bt_http_is_value_char((unsigned char)value.p[i])) {
            return bt_http_head_bad(parser, 400, "a header value holds a control character");
        }
    }
    parser->name[parser->n_fields] = span_of(parser, line.p, n_name);
    parser->value[parser->n_fields] = span_of(parser, value.p, value.n);
    parser->n_fields++;
    return true;
}

static bool check_host(bt_http_parser *parser)
{
    bt_str host = {0};
    size_t n_host = bt_http_parser_find(parser, "Host", &host);
    if (n_host > 1) {
        return bt_http_head_bad(parser, 400, "more than one Host header");
    }
    if (n_host == 0 && parser->minor >= 1) {
        return bt_http_head_bad(parser, 400, "the Host header is missing");
    }
    for (size_t i = 0; i < host.n; i++) {
        unsigned char c = (unsigned char)host.p[i];
        if (c <= 0x20 || c >= 0x7f || strchr("/@?#\\,\"<>", c) != NULL) {
            return bt_http_head_bad(parser, 400, "the Host header is malformed");
        }
    }
    return true;
}

static bool check_length(bt_http_parser *parser)
{
    bt_str value = {0};
    size_t n_found = bt_http_parser_find(parser, "Content-Length", &value);
    if (n_found == 0) {
        return true;
    }
    if (n_found > 1) {
        return bt_http_head_bad(parser, 400, "more than one Content-Length header");
    }
    if (value.n == 0 || value.n > 18) {
        return bt_http_head_bad(parser, 400, "Content-Length must have 1 to 18 digits");
    }
    uint64_t length = 0;
    for (size_t i = 0; i < value.n; i++) {
        if (value.p[i] < '0' || value.p[i] > '9') {
            return bt_http_head_bad(parser, 400, "Content-Length must hold digits only");
        }
        length = length * 10 + (uint64_t)(value.p[i] - '0');
    }
    parser->has_length = true;
    parser->length = length;
    return true;
}

static bool check_coding(bt_http_parser *parser)
{
    bt_str value = {0};
    size_t n_found = bt_http_parser_find(parser, "Transfer-Encoding", &value);
    if (n_found == 0) {
        return true;
    }
    if (n_found > 1) {
        return bt_http_head_bad(parser, 400, "more than one Transfer-Encoding header");
    }
    if (parser->has_length) {
        return bt_http_head_bad(parser, 400, "both Content-Length and Transfer-Encoding");
    }
    if (parser->minor == 0) {
        return bt_http_head_bad(parser, 400, "Transfer-Encoding in an HTTP/1.0 message");
    }
    if (!bt_http_name_is(value, "chunked")) {
        return bt_http_head_bad(parser, 501, "the only transfer coding accepted is chunked");
    }
    parser->chunked = true;
    return true;
}

static bool check_expect(bt_http_parser *parser)
{
    for (size_t i = 0; i < parser->n_fields; i++) {
        bt_http_field field = bt_http_parser_field(parser, i);
        if (!bt_http_name_is(field.name, "Expect")) {
            continue;
        }
        if (!bt_http_name_is(field.value, "100-continue")) {
            return bt_http_head_bad(parser, 417, "the only expectation met is 100-continue");
        }
        /* RFC 9110 10.1.1: to be ignored in HTTP/1.0. */
        parser->expect_continue = parser->minor >= 1;
    }
    return true;
}

static void read_connection(bt_http_parser *parser)
{
    bool close = false;
    bool keep = false;
    for (size_t i = 0; i < parser->n_fields; i++) {
        bt_http_field field = bt_http_parser_field(parser, i);
        if (bt_http_name_is(field.name, "Connection")) {
            close = close || bt_http_list_has(field.value, "close");
            keep = keep || bt_http_list_has(field.value, "keep-alive");
        }
    }
    parser->keep_alive = !close && (parser->minor >= 1 || keep);
}

bool bt_http_head_check(bt_http_parser *parser)
{
    read_connection(parser);
    if (!check_length(parser) || !check_coding(parser)) {
        return false;
    }
    return parser->kind == BT_HTTP_RESPONSE || (check_host(parser) && check_expect(parser));
}
