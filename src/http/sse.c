/* SPDX-License-Identifier: MIT */
#include "http/sse.h"

#include <string.h>

void bt_http_sse_init(bt_http_sse *sse, size_t event_max)
{
    *sse = (bt_http_sse){0};
    bt_buf_init(&sse->line, BT_MEM_HTTP, event_max);
    bt_buf_init(&sse->data, BT_MEM_HTTP, event_max);
}

void bt_http_sse_deinit(bt_http_sse *sse)
{
    bt_buf_deinit(&sse->line);
    bt_buf_deinit(&sse->data);
}

/* A line is complete. False: fn wants no more. */
static bool take_line(bt_http_sse *sse, bt_http_sse_fn *fn, void *ctx)
{
    bt_str line = bt_buf_str(&sse->line);
    if (!sse->started && bt_str_starts(line, BT_STR("\xEF\xBB\xBF"))) {
        line = (bt_str){line.p + 3, line.n - 3};
    }
    sse->started = true;
    bool go_on = true;
    if (line.n == 0) {
        if (sse->has_data && bt_buf_ok(&sse->data) == BT_OK) {
            go_on = fn(ctx, bt_buf_str(&sse->data));
        }
        sse->has_data = false;
        bt_buf_clear(&sse->data);
    } else if (bt_str_eq(line, BT_STR("data")) || bt_str_starts(line, BT_STR("data:"))) {
        size_t skip = BT_MIN(line.n, (size_t)5);
        if (line.n > 5 && line.p[5] == ' ') {
            skip = 6;
        }
        if (sse->has_data) {
            bt_buf_push_char(&sse->data, '\n');
        }
        sse->has_data = true;
        bt_buf_push(&sse->data, line.p + skip, line.n - skip);
    }
    return go_on;
}

bt_status bt_http_sse_push(bt_http_sse *sse, bt_str bytes, bt_http_sse_fn *fn, void *ctx,
                           bool *stopped)
{
    bool go_on = true;
    size_t at = 0;
    while (at < bytes.n && go_on) {
        if (sse->after_cr && bytes.p[at] == '\n') {
            at++;
            sse->after_cr = false;
            continue;
        }
        sse->after_cr = false;
        size_t end = at;
        while (end < bytes.n && bytes.p[end] != '\n' && bytes.p[end] != '\r') {
            end++;
        }
        bt_buf_push(&sse->line, bytes.p + at, end - at);
        at = end;
        if (end < bytes.n) {
            sse->after_cr = bytes.p[end] == '\r';
            at = end + 1;
            go_on = bt_buf_ok(&sse->line) != BT_OK || take_line(sse, fn, ctx);
            BT_TRY(bt_buf_ok(&sse->line));
            bt_buf_clear(&sse->line);
        }
        BT_TRY(bt_buf_ok(&sse->line));
        BT_TRY(bt_buf_ok(&sse->data));
    }
    *stopped = !go_on;
    return BT_OK;
}
