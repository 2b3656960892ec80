/* SPDX-License-Identifier: MIT
 *
 * The table of endpoints. */
#include "api/route.h"

#define BODY_SMALL ((uint64_t)64 << 10)
#define BODY_LARGE ((uint64_t)16 << 20)

static const bt_api_route routes[] = {
    {"/health", "GET, HEAD", BT_ENDPOINT_HEALTH, true, true, false, BODY_SMALL},
    {"/ping", "GET, HEAD, POST", BT_ENDPOINT_PING, true, true, false, BODY_SMALL},
    {"/version", "GET, HEAD", BT_ENDPOINT_VERSION, false, true, false, BODY_SMALL},
    {"/metrics", "GET, HEAD", BT_ENDPOINT_METRICS, false, false, false, BODY_SMALL},
    {"/v1/models", "GET, HEAD", BT_ENDPOINT_MODELS, false, false, false, BODY_SMALL},
    {"/v1/models/", "GET, HEAD", BT_ENDPOINT_MODEL, false, false, false, BODY_SMALL},
    {"/v1/completions", "POST", BT_ENDPOINT_COMPLETIONS, false, false, true, BODY_LARGE},
    {"/v1/chat/completions", "POST", BT_ENDPOINT_CHAT, false, false, true, BODY_LARGE},
    {"/tokenize", "POST", BT_ENDPOINT_TOKENIZE, false, false, true, BODY_LARGE},
    {"/detokenize", "POST", BT_ENDPOINT_DETOKENIZE, false, false, true, BODY_LARGE},
};

const bt_api_route *bt_api_route_find(bt_str path, bt_str *rest)
{
    *rest = (bt_str){0};
    for (size_t i = 0; i < BT_COUNT(routes); i++) {
        bt_str own = bt_str_of(routes[i].path);
        bool prefix = bt_str_ends(own, BT_STR("/"));
        if (prefix && bt_str_starts(path, own) && path.n > own.n) {
            *rest = (bt_str){path.p + own.n, path.n - own.n};
            return &routes[i];
        }
        if (!prefix && bt_str_eq(path, own)) {
            return &routes[i];
        }
    }
    return NULL;
}

bool bt_api_route_allows(const bt_api_route *route, bt_str method)
{
    bt_str left = bt_str_of(route->allow);
    while (left.n > 0) {
        int64_t comma = bt_str_find(left, BT_STR(", "), 0);
        size_t n = comma < 0 ? left.n : (size_t)comma;
        if (bt_str_eq((bt_str){left.p, n}, method)) {
            return true;
        }
        size_t skip = BT_MIN(n + 2, left.n);
        left = (bt_str){left.p + skip, left.n - skip};
    }
    return false;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    int lower = c | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

bool bt_api_percent_decode(bt_str text, bt_buf *out)
{
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] != '%') {
            bt_buf_push_char(out, text.p[i]);
            continue;
        }
        int high = text.n - i > 2 ? hex_digit(text.p[i + 1]) : -1;
        int low = text.n - i > 2 ? hex_digit(text.p[i + 2]) : -1;
        if (high < 0 || low < 0) {
            return false;
        }
        bt_buf_push_char(out, (char)(unsigned char)(high * 16 + low));
        i += 2;
    }
    return true;
}
