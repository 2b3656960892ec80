/* SPDX-License-Identifier: MIT
 *
 * Goal: the parser frames every message in one way only, or refuses it with the right status (case
 * 68 and its kind). Method: a table of byte strings with the outcome that RFC 9110/9112 or the
 * stated limit asks for; each is fed whole, byte by byte, and in pieces of seeded random size, and
 * all three must tell the same story. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "http/parse.h"

#include <stdio.h>
#include <string.h>

enum { BODY_LIMIT = 1000 };

/* Feeds the bytes in pieces of `piece` (0: random) and writes what happened: "H" head, "[body]",
 * "." done, "!413" refused, "…" wants more. */
static void story(bt_http_kind kind, const char *bytes, size_t n, size_t piece, bt_buf *out)
{
    bt_http_parser parser;
    bt_http_parser_init(&parser, kind, BT_MEM_HTTP);
    bt_buf_clear(out);
    uint64_t seed = 42;
    bool in_body = false;
    size_t at = 0;
    for (;;) {
        size_t take = piece > 0 ? piece : 1 + (size_t)(bt_rng_next(&seed) % 7);
        take = BT_MIN(take, n - at);
        size_t used = 0;
        bt_str data = {0};
        bt_http_event event = bt_http_parser_next(&parser, bytes + at, take, &used, &data);
        assert_true(used <= take);
        at += used;
        if (in_body && event != BT_HTTP_DATA && event != BT_HTTP_MORE) {
            bt_buf_push_char(out, ']');
            in_body = false;
        }
        if (event == BT_HTTP_HEAD) {
            bt_buf_push_char(out, 'H');
            if (kind == BT_HTTP_REQUEST) {
                parser.body_max = BODY_LIMIT;
            }
        } else if (event == BT_HTTP_DATA) {
            assert_true(data.p >= bytes && data.p + data.n <= bytes + n && data.n > 0);
            if (!in_body) {
                bt_buf_push_char(out, '[');
                in_body = true;
            }
            bt_buf_push_str(out, data);
        } else if (event == BT_HTTP_DONE) {
            bt_buf_push_char(out, '.');
            bt_http_parser_reset(&parser);
        } else if (event == BT_HTTP_BAD) {
            assert_non_null(parser.bad_why);
            bt_buf_printf(out, "!%d", parser.bad_status);
            break;
        } else if (at == n) {
            bt_buf_pushz(out, bt_http_parser_is_idle(&parser) ? "" : "~");
            break;
        } else {
            assert_int_equal(used, take);
        }
    }
    bt_http_parser_deinit(&parser);
}

static void expect_story(bt_http_kind kind, const char *bytes, size_t n, const char *want)
{
    static const size_t pieces[] = {SIZE_MAX, 1, 0};
    bt_buf out;
    bt_buf_init(&out, BT_MEM_HTTP, 1 << 20);
    for (size_t i = 0; i < BT_COUNT(pieces); i++) {
        story(kind, bytes, n, pieces[i], &out);
        if (!bt_str_eqz(bt_buf_str(&out), want)) {
            fail_msg("\"%.80s\" pieces %zu: got %s, want %s", bytes, pieces[i],
                     out.p == NULL ? "" : out.p, want);
        }
    }
    bt_buf_deinit(&out);
}

typedef struct row {
    const char *bytes;
    size_t n;
    const char *want;
} row;

/* clang-format off */
#define ROW(text, want) {text, sizeof(text) - 1, want}
#define P "POST /e HTTP/1.1\r\nHost: a\r\n"
#define G "GET /e HTTP/1.1\r\nHost: a\r\n"
#define CH P "Transfer-Encoding: chunked\r\n\r\n"

static const row requests[] = {
    ROW("", ""),
    ROW(G "\r\n", "H."),
    ROW(G "\r\n" G "\r\n", "H.H."),
    ROW("\r\n" G "\r\n", "H."),
    ROW("\r\n\r\n" G "\r\n", "!400"),
    ROW("\rX", "!400"),
    ROW("\n", "!400"),
    ROW("G", "~"),
    ROW("\x16\x03\x01\x02\x00\x01", "!400"),
    ROW("\x00GET / HTTP/1.1\r\n", "!400"),
    ROW(" GET / HTTP/1.1\r\n", "!400"),
    ROW("GET / HTTP/1.1\nHost: a\n\n", "!400"),
    ROW("GET / HTTP/1.1\r\nHost: a\n\r\n", "!400"),
    ROW("GET /\r\n", "!400"),
    ROW("GET  / HTTP/1.1\r\n", "!400"),
    ROW("GET /  HTTP/1.1\r\n", "!400"),
    ROW("GET / HTTP/1.1 \r\n", "!400"),
    ROW("GET / HTTP/11\r\n", "!400"),
    ROW("GET / http/1.1\r\n", "!400"),
    ROW("GET / HTTP/2.0\r\n", "!505"),
    ROW("GET / HTTP/0.9\r\n", "!505"),
    ROW("GET / HTTP/1.2\r\nHost: a\r\n\r\n", "H."),
    ROW("GET / HTTP/1.0\r\n\r\n", "H."),
    ROW("GET x HTTP/1.1\r\n", "!400"),
    ROW("GET * HTTP/1.1\r\n", "!400"),
    ROW("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "H."),
    ROW("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", "H."),
    ROW("GET /a\x00z HTTP/1.1\r\n", "!400"),
    ROW("GET /a\tz HTTP/1.1\r\n", "!400"),
    ROW("GET /\xc3\xa9 HTTP/1.1\r\n", "!400"),
    ROW("GET /a#b HTTP/1.1\r\n", "!400"),
    ROW("GET http:// HTTP/1.1\r\n", "!400"),
    ROW("G(T / HTTP/1.1\r\n", "!400"),
    ROW("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGH / HTTP/1.1\r\n", "!501"),
    /* Host */
    ROW("GET / HTTP/1.1\r\n\r\n", "!400"),
    ROW("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "!400"),
    ROW("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", "!400"),
    ROW("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "!400"),
    ROW("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", "!400"),
    ROW("GET / HTTP/1.1\r\nHost:\r\n\r\n", "H."),
    ROW("GET / HTTP/1.1\r\nhOST: [::1]:80\r\n\r\n", "H."),
    /* fields */
    ROW(G "X-A: one\r\n two\r\n\r\n", "!400"),
    ROW("GET / HTTP/1.1\r\n Host: a\r\n\r\n", "!400"),
    ROW(G "X A: 1\r\n\r\n", "!400"),
    ROW(G "X : 1\r\n\r\n", "!400"),
    ROW(G ": 1\r\n\r\n", "!400"),
    ROW(G "X\r\n\r\n", "!400"),
    ROW(G "X: a\x00z\r\n\r\n", "!400"),
    ROW(G "X: a\rb\r\n\r\n", "!400"),
    ROW(G "X: a\x7f\r\n\r\n", "!400"),
    ROW(G "X: \t a\tb \xc3\xa9 \t\r\n\r\n", "H."),
    ROW(G "Expect: 100-continue\r\n\r\n", "H."),
    ROW(G "Expect: 200-ok\r\n\r\n", "!417"),
    /* length */
    ROW(P "Content-Length: 0\r\n\r\n", "H."),
    ROW(P "Content-Length: 3\r\n\r\nabc", "H[abc]."),
    ROW(P "Content-Length: 3\r\n\r\nabc" P "Content-Length: 1\r\n\r\nd", "H[abc].H[d]."),
    ROW(P "Content-Length: 3\r\n\r\nab", "H[ab~"),
    ROW(P "Content-Length: 003\r\n\r\nabc", "H[abc]."),
    ROW(P "Content-Length: +5\r\n\r\n", "!400"),
    ROW(P "Content-Length: -1\r\n\r\n", "!400"),
    ROW(P "Content-Length: 1e3\r\n\r\n", "!400"),
    ROW(P "Content-Length: 0x5\r\n\r\n", "!400"),
    ROW(P "Content-Length: 5 5\r\n\r\n", "!400"),
    ROW(P "Content-Length: 5, 5\r\n\r\n", "!400"),
    ROW(P "Content-Length:\r\n\r\n", "!400"),
    ROW(P "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", "!400"),
    ROW(P "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", "!400"),
    ROW(P "Content-Length: 999999999999999999\r\n\r\n", "H!413"),
    ROW(P "Content-Length: 1000000000000000000\r\n\r\n", "!400"),
    ROW(P "Content-Length: 1001\r\n\r\n", "H!413"),
    ROW(P "Content-Length : 5\r\n\r\n", "!400"),
    /* coding */
    ROW(P "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "!400"),
    ROW(P "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", "!400"),
    ROW(P "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "!400"),
    ROW(P "Transfer-Encoding: xchunked\r\n\r\n", "!501"),
    ROW(P "Transfer-Encoding: gzip, chunked\r\n\r\n", "!501"),
    ROW(P "Transfer-Encoding: identity\r\n\r\n", "!501"),
    ROW(P "Transfer-Encoding : chunked\r\n\r\n", "!400"),
    ROW(P "Transfer-Encoding: \x0b" "chunked\r\n\r\n", "!400"),
    ROW("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "!400"),
    ROW(P "Transfer-Encoding:  CHUNKED \r\n\r\n0\r\n\r\n", "H."),
    /* chunks */
    ROW(CH "3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n", "H[abcd]."),
    ROW(CH "3;x=y;z=\"q q\"\r\nabc\r\n0;e\r\n\r\n", "H[abc]."),
    ROW(CH "3 ;x\r\nabc\r\n0\r\n\r\n", "H[abc]."),
    ROW(CH "0003\r\nabc\r\n000\r\n\r\n", "H[abc]."),
    ROW(CH "0\r\nX-T: v\r\nY: w\r\n\r\n" G "\r\n", "H.H."),
    ROW(CH "a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", "H[01234567890123456789]."),
    ROW(CH "g\r\n", "H!400"),
    ROW(CH "-1\r\n", "H!400"),
    ROW(CH "+1\r\n", "H!400"),
    ROW(CH "0x5\r\n", "H!400"),
    ROW(CH "\r\n", "H!400"),
    ROW(CH ";x\r\n", "H!400"),
    ROW(CH " 3\r\n", "H!400"),
    ROW(CH "3 \r\nabc", "H!400"),
    ROW(CH "3\nabc\r\n", "H!400"),
    ROW(CH "3\rabc\r\n", "H!400"),
    ROW(CH "3\r\nabcd\r\n", "H[abc]!400"),
    ROW(CH "3\r\nabc\n", "H[abc]!400"),
    ROW(CH "3\r\nabc\rx", "H[abc]!400"),
    ROW(CH "3;a\x01\r\n", "H!400"),
    ROW(CH "3e9\r\n", "H!413"),
    ROW(CH "ffffffffffffffff\r\n", "H!413"),
    ROW(CH "fffffffffffffffffffffffffffffffffffff\r\n", "H!413"),
    ROW(CH "10000000000000000\r\n", "H!413"),
    ROW(CH "0\r\n\n", "H!400"),
    ROW(CH "0\r\n\rX", "H!400"),
    ROW(CH "0\r\n a: b\r\n\r\n", "H!400"),
    ROW(CH "0\r\na b: c\r\n\r\n", "H!400"),
    ROW(CH "0\r\na: b\n\r\n", "H!400"),
    ROW(CH "0\r\na: \x01\r\n\r\n", "H!400"),
    ROW(CH "0\r\n", "H~"),
};

#define R "HTTP/1.1 200 OK\r\n"
static const row responses[] = {
    ROW(R "Content-Length: 2\r\n\r\nok", "H[ok]."),
    ROW(R "\r\nuntil the end", "H[until the end~"),
    ROW(R "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "H[ok]."),
    ROW("HTTP/1.1 100 Continue\r\n\r\n" R "Content-Length: 0\r\n\r\n", "H.H."),
    ROW("HTTP/1.1 204\r\n\r\n", "H."),
    ROW("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "H."),
    ROW("HTTP/1.1 99 X\r\n", "!400"),
    ROW("HTTP/1.1 20x OK\r\n", "!400"),
    ROW("HTTP/1.1 2000 OK\r\n", "!400"),
    ROW("HTTP/2 200\r\n", "!400"),
    ROW("HTTP/2.0 200 OK\r\n", "!505"),
    ROW("SSH-2.0-x\r\n", "!400"),
    ROW("\r\n", "!400"),
};
/* clang-format on */

/* Case 68, and the rows about framing in the trial of the three servers. */
static void requests_have_one_reading(void **state)
{
    (void)state;
    for (size_t i = 0; i < BT_COUNT(requests); i++) {
        expect_story(BT_HTTP_REQUEST, requests[i].bytes, requests[i].n, requests[i].want);
    }
}

static void responses_have_one_reading(void **state)
{
    (void)state;
    for (size_t i = 0; i < BT_COUNT(responses); i++) {
        expect_story(BT_HTTP_RESPONSE, responses[i].bytes, responses[i].n, responses[i].want);
    }
}

/* `n` times `fill` between two texts. */
static void expect_long(const char *before, char fill, size_t n, const char *after,
                        const char *want)
{
    bt_buf buf;
    bt_buf_init(&buf, BT_MEM_HTTP, 4 << 20);
    bt_buf_pushz(&buf, before);
    for (size_t i = 0; i < n; i++) {
        bt_buf_push_char(&buf, fill);
    }
    bt_buf_pushz(&buf, after);
    expect_story(BT_HTTP_REQUEST, buf.p, buf.n, want);
    bt_buf_deinit(&buf);
}

/* Each limit has its own answer, at the limit and one beyond. */
static void limits_answer_by_name(void **state)
{
    (void)state;
    expect_long("GET /", 'a', BT_HTTP_TARGET_MAX - 1, " HTTP/1.1\r\nHost: a\r\n\r\n", "H.");
    expect_long("GET /", 'a', BT_HTTP_TARGET_MAX, " HTTP/1.1\r\nHost: a\r\n\r\n", "!414");
    expect_long("GET /", 'a', 1 << 20, "", "!414");
    expect_long(G "X: ", 'a', BT_HTTP_HEAD_MAX - sizeof(G "X: ") + 1 - 4, "\r\n\r\n", "H.");
    expect_long(G "X: ", 'a', BT_HTTP_HEAD_MAX - sizeof(G "X: ") + 1 - 3, "\r\n\r\n", "!431");
    expect_long(G "X: ", 'a', 1 << 20, "", "!431");
    expect_long(CH "1;", 'x', BT_HTTP_CHUNK_LINE_MAX - 4, "\r\na\r\n0\r\n\r\n", "H[a].");
    expect_long(CH "1;", 'x', BT_HTTP_CHUNK_LINE_MAX - 3, "\r\na\r\n0\r\n\r\n", "H!400");
    expect_long(CH "0\r\nX: ", 'x', BT_HTTP_TRAILER_MAX - 7, "\r\n\r\n", "H.");
    expect_long(CH "0\r\nX: ", 'x', BT_HTTP_TRAILER_MAX - 6, "\r\n\r\n", "H!431");
    bt_buf many;
    bt_buf_init(&many, BT_MEM_HTTP, 1 << 20);
    for (int n = 127; n <= 128; n++) { /* Host is one more */
        bt_buf_clear(&many);
        bt_buf_pushz(&many, G);
        for (int i = 0; i < n; i++) {
            bt_buf_printf(&many, "X-%d: 1\r\n", i);
        }
        bt_buf_pushz(&many, "\r\n");
        expect_story(BT_HTTP_REQUEST, many.p, many.n, n == 127 ? "H." : "!431");
    }
    /* Extensions without end cannot be had by many small chunks. */
    bt_buf_clear(&many);
    bt_buf_pushz(&many, CH);
    for (int i = 0; i < 20; i++) {
        bt_buf_printf(&many, "1;%4000d\r\na\r\n", 0);
    }
    expect_story(BT_HTTP_REQUEST, many.p, many.n, "H[aaaaaaaaaaaaaaaa]!400");
    bt_buf_deinit(&many);
}

/* Reads a head and leaves the parser there. */
static void read_head(bt_http_parser *parser, const char *text)
{
    size_t used;
    bt_str data;
    bt_http_parser_init(parser, BT_HTTP_REQUEST, BT_MEM_HTTP);
    assert_int_equal(bt_http_parser_next(parser, text, strlen(text), &used, &data), BT_HTTP_HEAD);
    assert_int_equal(used, strlen(text));
}

static void paths_are_bytes_as_sent(void **state)
{
    (void)state;
    static const struct {
        const char *target, *path, *query;
    } cases[] = {{"/v1/models?a=b?c", "/v1/models", "a=b?c"},
                 {"/", "/", ""},
                 {"/%65cho//../x", "/%65cho//../x", ""},
                 {"/x?", "/x", ""},
                 {"http://h:1/p?q", "/p", "q"},
                 {"HTTPS://h", "/", ""},
                 {"http://h?q", "/", "q"},
                 {"//h/x", "//h/x", ""}};
    for (size_t i = 0; i < BT_COUNT(cases); i++) {
        char text[200];
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", cases[i].target);
        bt_http_parser parser;
        read_head(&parser, text);
        assert_true(bt_str_eqz(bt_http_parser_str(&parser, parser.path), cases[i].path));
        assert_true(bt_str_eqz(bt_http_parser_str(&parser, parser.query), cases[i].query));
        assert_true(bt_str_eqz(bt_http_parser_str(&parser, parser.target), cases[i].target));
        bt_http_parser_deinit(&parser);
    }
}

static void fields_are_found_and_counted(void **state)
{
    (void)state;
    bt_http_parser parser;
    read_head(&parser, G "Authorization:  one \r\nauthorization: two\r\nX-Empty:\r\n\r\n");
    bt_str value = BT_STR("untouched");
    assert_int_equal(bt_http_parser_find(&parser, "AUTHORIZATION", &value), 2);
    assert_true(bt_str_eqz(value, "one"));
    assert_int_equal(bt_http_parser_find(&parser, "X-Empty", &value), 1);
    assert_int_equal(value.n, 0);
    assert_int_equal(bt_http_parser_find(&parser, "Absent", NULL), 0);
    assert_int_equal(parser.n_fields, 4);
    bt_http_parser_deinit(&parser);
}

static void connection_lists_decide_keep_alive(void **state)
{
    (void)state;
    static const struct {
        const char *head;
        bool keep;
    } cases[] = {{G "\r\n", true},
                 {G "Connection: close\r\n\r\n", false},
                 {G "Connection: foo, Close\r\n\r\n", false},
                 {G "Connection: foo\r\nConnection: ,close ,\r\n\r\n", false},
                 {G "Connection: closed\r\n\r\n", true},
                 {"GET / HTTP/1.0\r\n\r\n", false},
                 {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true},
                 {"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", false}};
    for (size_t i = 0; i < BT_COUNT(cases); i++) {
        bt_http_parser parser;
        read_head(&parser, cases[i].head);
        assert_int_equal(parser.keep_alive, cases[i].keep);
        bt_http_parser_deinit(&parser);
    }
}

static void end_of_input_is_told_apart(void **state)
{
    (void)state;
    static const struct {
        bt_http_kind kind;
        const char *bytes;
        bt_http_event want;
    } cases[] = {{BT_HTTP_REQUEST, "", BT_HTTP_MORE},
                 {BT_HTTP_REQUEST, "GET", BT_HTTP_BAD},
                 {BT_HTTP_REQUEST, P "Content-Length: 3\r\n\r\nab", BT_HTTP_BAD},
                 {BT_HTTP_RESPONSE, R "\r\nab", BT_HTTP_DONE},
                 {BT_HTTP_RESPONSE, R "\r\n", BT_HTTP_DONE},
                 {BT_HTTP_RESPONSE, R "Content-Length: 3\r\n\r\n", BT_HTTP_BAD},
                 {BT_HTTP_RESPONSE, R "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n", BT_HTTP_BAD}};
    for (size_t i = 0; i < BT_COUNT(cases); i++) {
        bt_http_parser parser;
        bt_http_parser_init(&parser, cases[i].kind, BT_MEM_HTTP);
        size_t at = 0;
        size_t n = strlen(cases[i].bytes);
        size_t used;
        bt_str data;
        do {
            bt_http_parser_next(&parser, cases[i].bytes + at, n - at, &used, &data);
            at += used;
        } while (at < n);
        assert_int_equal(bt_http_parser_eof(&parser), cases[i].want);
        bt_http_parser_deinit(&parser);
    }
}

static void memory_that_is_out_is_an_answer(void **state)
{
    (void)state;
    bt_http_parser parser;
    bt_http_parser_init(&parser, BT_HTTP_REQUEST, BT_MEM_HTTP);
    size_t used;
    bt_str data;
    bt_mem_fail_after(1);
    bt_http_event event = bt_http_parser_next(&parser, G, sizeof(G) - 1, &used, &data);
    bt_mem_fail_after(0);
    assert_int_equal(event, BT_HTTP_BAD);
    assert_int_equal(parser.bad_status, 503);
    bt_http_parser_deinit(&parser);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_have_one_reading),
        cmocka_unit_test(responses_have_one_reading),
        cmocka_unit_test(limits_answer_by_name),
        cmocka_unit_test(paths_are_bytes_as_sent),
        cmocka_unit_test(fields_are_found_and_counted),
        cmocka_unit_test(connection_lists_decide_keep_alive),
        cmocka_unit_test(end_of_input_is_told_apart),
        cmocka_unit_test(memory_that_is_out_is_an_answer),
    };
    return cmocka_run_group_tests_name("http/parse", tests, NULL, NULL);
}
