/* SPDX-License-Identifier: MIT
 *
 * Goal: events are found whatever the line ends and however the bytes were cut. Method: a table of
 * streams with the events that the WHATWG algorithm gives, fed whole and byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "http/sse.h"

#include <string.h>

static bool collect(void *ctx, bt_str data)
{
    bt_buf *out = ctx;
    bt_buf_push_char(out, '<');
    bt_buf_push_str(out, data);
    bt_buf_push_char(out, '>');
    return !bt_str_eqz(data, "stop");
}

static void events_are_found(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"data: a\n\ndata: b\n\n", "<a><b>"},
        {"data: a\r\n\r\ndata: b\r\rdata:c\n\n", "<a><b><c>"},
        {"data: a\ndata: b\n\n", "<a\nb>"},
        {"data:  a\n\n", "< a>"},
        {"data\n\n", "<>"},
        {"data:\n\n", "<>"},
        {"data:\ndata\n\n", "<\n>"},
        {": ping\n\nevent: x\nid: 3\ndata: {\"a\":1}\n\n\n\n", "<{\"a\":1}>"},
        {"database: no\n\ndat: no\n\n", ""},
        {"\xEF\xBB\xBF"
         "data: a\n\n",
         "<a>"},
        {"data: unfinished\n", ""},
        {"data: stop\n\ndata: never\n\n", "<stop>"},
        {"", ""},
    };
    for (size_t i = 0; i < BT_COUNT(cases); i++) {
        for (size_t piece = 1; piece <= 64; piece += 63) {
            bt_http_sse sse;
            bt_http_sse_init(&sse, 64);
            bt_buf out;
            bt_buf_init(&out, BT_MEM_HTTP, 1000);
            bool stopped = false;
            size_t n = strlen(cases[i][0]);
            for (size_t at = 0; at < n && !stopped; at += piece) {
                bt_str bytes = {cases[i][0] + at, BT_MIN(piece, n - at)};
                assert_int_equal(bt_http_sse_push(&sse, bytes, collect, &out, &stopped), BT_OK);
            }
            assert_true(bt_str_eqz(bt_buf_str(&out), cases[i][1]));
            assert_int_equal(stopped, strstr(cases[i][1], "stop") != NULL);
            bt_buf_deinit(&out);
            bt_http_sse_deinit(&sse);
        }
    }
}

static void events_have_a_maximum(void **state)
{
    (void)state;
    bt_http_sse sse;
    bt_buf out;
    bool stopped;
    bt_buf_init(&out, BT_MEM_HTTP, 1000);
    bt_http_sse_init(&sse, 20);
    assert_int_equal(bt_http_sse_push(&sse, BT_STR("data: 123456789012345678901234567890"), collect,
                                      &out, &stopped),
                     BT_E_LIMIT);
    bt_http_sse_deinit(&sse);
    bt_http_sse_init(&sse, 20);
    assert_int_equal(bt_http_sse_push(&sse, BT_STR("data: 1234567890\ndata: 1234567890\n\n"),
                                      collect, &out, &stopped),
                     BT_E_LIMIT);
    bt_http_sse_deinit(&sse);
    assert_int_equal(out.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_found),
        cmocka_unit_test(events_have_a_maximum),
    };
    return cmocka_run_group_tests_name("http/sse", tests, NULL, NULL);
}
