/* SPDX-License-Identifier: MIT
 *
 * respond.c: requests as seen from above, and what is written as their answers (RFC 9112 section
 * 6, 7.1; RFC 9110 section 15). Nothing here calls back; see request.h. */
#include "http/conn.h"

#include "base/clock.h"

#include <event2/buffer.h>
#include <stdio.h>
#include <string.h>

bt_str bt_http_request_method(const bt_http_request *request)
{
    return bt_http_parser_str(&request->conn->parser, request->conn->parser.method);
}

bt_str bt_http_request_path(const bt_http_request *request)
{
    return bt_http_parser_str(&request->conn->parser, request->conn->parser.path);
}

bt_str bt_http_request_query(const bt_http_request *request)
{
    return bt_http_parser_str(&request->conn->parser, request->conn->parser.query);
}

size_t bt_http_request_find(const bt_http_request *request, const char *name, bt_str *value)
{
    return bt_http_parser_find(&request->conn->parser, name, value);
}

size_t bt_http_request_n_fields(const bt_http_request *request)
{
    return request->conn->parser.n_fields;
}

bt_http_field bt_http_request_field(const bt_http_request *request, size_t field_idx)
{
    return bt_http_parser_field(&request->conn->parser, field_idx);
}

bt_str bt_http_request_body(const bt_http_request *request)
{
    return bt_buf_str(&request->body);
}

void bt_http_request_take_body(bt_http_request *request, bt_buf *out)
{
    BT_ASSERT(request->phase >= BT_HTTP_PHASE_RUN);
    *out = request->body;
    bt_buf_init(&request->body, BT_MEM_HTTP, 0);
    bt_http_request_clear(request);
}

uint64_t bt_http_request_id(const bt_http_request *request)
{
    return request->id;
}

const char *bt_http_request_peer(const bt_http_request *request)
{
    return request->conn->peer;
}

void bt_http_request_set_user(bt_http_request *request, void *user)
{
    request->user = user;
}

void *bt_http_request_user(const bt_http_request *request)
{
    return request->user;
}

void bt_http_request_clear(bt_http_request *request)
{
    bt_http_stats *stats = &request->conn->server->stats;
    BT_ASSERT(stats->body_bytes >= request->body_counted);
    stats->body_bytes -= request->body_counted;
    request->body_counted = 0;
    bt_buf_deinit(&request->body);
}

const char *bt_http_status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } names[] = {{200, "OK"},
                 {201, "Created"},
                 {202, "Accepted"},
                 {204, "No Content"},
                 {301, "Moved Permanently"},
                 {302, "Found"},
                 {304, "Not Modified"},
                 {307, "Temporary Redirect"},
                 {308, "Permanent Redirect"},
                 {400, "Bad Request"},
                 {401, "Unauthorized"},
                 {403, "Forbidden"},
                 {404, "Not Found"},
                 {405, "Method Not Allowed"},
                 {406, "Not Acceptable"},
                 {408, "Request Timeout"},
                 {409, "Conflict"},
                 {411, "Length Required"},
                 {413, "Content Too Large"},
                 {414, "URI Too Long"},
                 {415, "Unsupported Media Type"},
                 {417, "Expectation Failed"},
                 {422, "Unprocessable Content"},
                 {429, "Too Many Requests"},
                 {431, "Request Header Fields Too Large"},
                 {499, "Client Closed Request"},
                 {500, "Internal Server Error"},
                 {501, "Not Implemented"},
                 {502, "Bad Gateway"},
                 {503, "Service Unavailable"},
                 {504, "Gateway Timeout"},
                 {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < BT_COUNT(names); i++) {
        if (names[i].status == status) {
            return names[i].text;
        }
    }
    return "Unknown";
}

/* Appends; a connection that cannot hold its answer is dropped from the loop. */
static void put(bt_http_conn *conn, const void *bytes, size_t n)
{
    if (n > 0 && evbuffer_add(bt_http_conn_output(conn), bytes, n) != 0) {
        conn->doomed = true;
        bt_http_conn_resume(conn);
    }
}

static void put_str(bt_http_conn *conn, bt_str s)
{
    put(conn, s.p, s.n);
}

/* A value from outside must not be able to add lines of its own. */
static void put_value(bt_http_conn *conn, bt_str value)
{
    size_t from = 0;
    for (size_t i = 0; i < value.n; i++) {
        unsigned char c = (unsigned char)value.p[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            put(conn, value.p + from, i - from);
            put(conn, " ", 1);
            from = i + 1;
        }
    }
    put(conn, value.p + from, value.n - from);
}

static bool may_have_body(int status)
{
    return status >= 200 && status != 204 && status != 304;
}

/* Status line and fields up to the framing, which the caller adds. */
static void put_head(bt_http_conn *conn, const bt_http_answer *answer)
{
    BT_ASSERT(answer->status >= 200 && answer->status <= 599);
    char line[160];
    int n = snprintf(line, sizeof line, "HTTP/1.1 %d %s\r\nDate: %s\r\n", answer->status,
                     bt_http_status_text(answer->status), bt_http_server_date(conn->server));
    BT_ASSERT(n > 0 && (size_t)n < sizeof line);
    put(conn, line, (size_t)n);
    if (answer->content_type != NULL) {
        put_str(conn, BT_STR("Content-Type: "));
        put_value(conn, bt_str_of(answer->content_type));
        put_str(conn, BT_STR("\r\n"));
    }
    for (size_t i = 0; i < answer->n_fields; i++) {
        put_value(conn, answer->fields[i].name);
        put_str(conn, BT_STR(": "));
        put_value(conn, answer->fields[i].value);
        put_str(conn, BT_STR("\r\n"));
    }
}

static void put_connection(bt_http_conn *conn, bool keep_alive)
{
    if (!keep_alive) {
        put_str(conn, BT_STR("Connection: close\r\n\r\n"));
    } else if (conn->parser.minor == 0) {
        put_str(conn, BT_STR("Connection: keep-alive\r\n\r\n"));
    } else {
        put_str(conn, BT_STR("\r\n"));
    }
}

/* The answer is complete: on to the next request, or to the end of the connection. */
static void finish(bt_http_conn *conn, bool keep_alive)
{
    bt_http_request *request = &conn->request;
    if (request->phase >= BT_HTTP_PHASE_RUN) {
        conn->server->stats.n_running--;
    }
    request->phase = BT_HTTP_PHASE_NONE;
    request->user = NULL;
    request->paused = false;
    bt_http_request_clear(request);
    conn->since_ns = bt_clock_now_ns();
    if (keep_alive) {
        bt_http_parser_reset(&conn->parser);
        conn->state = BT_HTTP_CONN_READ;
    } else {
        conn->state = BT_HTTP_CONN_FLUSH;
    }
    if (!conn->in_process) {
        bt_http_conn_resume(conn);
    }
}

/* Whether the connection can serve another request after this answer. */
static bool may_keep(const bt_http_conn *conn)
{
    bool unread = conn->request.phase < BT_HTTP_PHASE_RUN && bt_http_parser_has_body(&conn->parser);
    return conn->parser.keep_alive && !unread && !conn->server->stopping;
}

static bool is_answerable(const bt_http_request *request)
{
    return request->phase == BT_HTTP_PHASE_HEAD || request->phase == BT_HTTP_PHASE_RUN;
}

void bt_http_respond(bt_http_request *request, const bt_http_answer *answer)
{
    bt_http_conn *conn = request->conn;
    bt_http_server_assert_thread(conn->server);
    BT_ASSERT(is_answerable(request));
    bool keep_alive = may_keep(conn);
    put_head(conn, answer);
    if (may_have_body(answer->status)) {
        char line[48];
        int n = snprintf(line, sizeof line, "Content-Length: %zu\r\n", answer->body.n);
        put(conn, line, (size_t)n);
    }
    put_connection(conn, keep_alive);
    if (may_have_body(answer->status) && !request->no_body) {
        put_str(conn, answer->body);
    }
    finish(conn, keep_alive);
}

void bt_http_stream_begin(bt_http_request *request, const bt_http_answer *answer)
{
    bt_http_conn *conn = request->conn;
    bt_http_server_assert_thread(conn->server);
    BT_ASSERT(request->phase == BT_HTTP_PHASE_RUN && may_have_body(answer->status));
    request->chunked = conn->parser.minor >= 1;
    request->keep_alive = may_keep(conn) && request->chunked;
    put_head(conn, answer);
    if (request->chunked) {
        put_str(conn, BT_STR("Transfer-Encoding: chunked\r\n"));
    }
    put_connection(conn, request->keep_alive);
    request->phase = BT_HTTP_PHASE_STREAM;
}

bool bt_http_stream_write(bt_http_request *request, const void *bytes, size_t n)
{
    bt_http_conn *conn = request->conn;
    bt_http_server_assert_thread(conn->server);
    BT_ASSERT(request->phase == BT_HTTP_PHASE_STREAM);
    size_t waiting = evbuffer_get_length(bt_http_conn_output(conn));
    if (n == 0 || request->no_body || conn->doomed) {
        return request->paused;
    }
    if (waiting > BT_HTTP_OUT_MAX || n > BT_HTTP_OUT_MAX) {
        conn->doomed = true;
        bt_http_conn_resume(conn);
        return true;
    }
    if (request->chunked) {
        char line[24];
        int n_line = snprintf(line, sizeof line, "%zx\r\n", n);
        put(conn, line, (size_t)n_line);
        put(conn, bytes, n);
        put(conn, "\r\n", 2);
    } else {
        put(conn, bytes, n);
    }
    request->paused = request->paused || waiting + n > BT_HTTP_OUT_HIGH;
    return request->paused;
}

bool bt_http_stream_is_paused(const bt_http_request *request)
{
    return request->paused;
}

void bt_http_stream_end(bt_http_request *request)
{
    bt_http_conn *conn = request->conn;
    bt_http_server_assert_thread(conn->server);
    BT_ASSERT(request->phase == BT_HTTP_PHASE_STREAM);
    if (request->chunked && !request->no_body) {
        put_str(conn, BT_STR("0\r\n\r\n"));
    }
    finish(conn, request->keep_alive && !conn->server->stopping);
}

void bt_http_stream_abort(bt_http_request *request)
{
    bt_http_server_assert_thread(request->conn->server);
    BT_ASSERT(request->phase == BT_HTTP_PHASE_STREAM);
    finish(request->conn, false);
}

void bt_http_conn_refuse(bt_http_conn *conn, int status, const char *text)
{
    const bt_http_config *config = &conn->server->config;
    conn->server->stats.n_bad++;
    BT_ASSERT(conn->state == BT_HTTP_CONN_READ);
    bt_buf body;
    bt_buf_init(&body, BT_MEM_HTTP, 64 << 10);
    bt_http_answer answer = {.status = status, .content_type = "text/plain; charset=utf-8"};
    if (config->error_body != NULL) {
        config->error_body(config->ctx, status, text, &body);
        answer.content_type = config->error_type;
    } else {
        bt_buf_printf(&body, "%s\n", text);
    }
    answer.body = bt_buf_ok(&body) == BT_OK ? bt_buf_str(&body) : BT_STR("");
    put_head(conn, &answer);
    char line[48];
    int n = snprintf(line, sizeof line, "Content-Length: %zu\r\n", answer.body.n);
    put(conn, line, (size_t)n);
    put_connection(conn, false);
    /* The method is known only where the start line was read; then it may be HEAD. */
    bool no_body = bt_str_eqz(bt_http_parser_str(&conn->parser, conn->parser.method), "HEAD");
    if (!no_body) {
        put_str(conn, answer.body);
    }
    bt_buf_deinit(&body);
    finish(conn, false);
}
