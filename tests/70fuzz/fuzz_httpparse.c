/* SPDX-License-Identifier: MIT
 *
 * Goal: no bytes break the HTTP parser, and cutting them into pieces changes nothing. Method: the
 * first byte chooses kind and piece size; the rest is read whole and in pieces, and both readings
 * must hash to the same sequence of events and body bytes. */
#include "http/parse.h"

#include "base/map.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static uint64_t mix(uint64_t hash, uint64_t value)
{
    uint64_t both[2] = {hash, value};
    return bt_hash_bytes(both, sizeof both);
}

static uint64_t reading(bt_http_kind kind, const char *bytes, size_t n, size_t piece)
{
    bt_http_parser parser;
    bt_http_parser_init(&parser, kind, BT_MEM_HTTP);
    uint64_t hash = 1;
    for (size_t at = 0;;) {
        size_t take = BT_MIN(piece, n - at);
        size_t used;
        bt_str data = {0};
        bt_http_event event = bt_http_parser_next(&parser, bytes + at, take, &used, &data);
        BT_ASSERT(used <= take);
        at += used;
        if (event == BT_HTTP_HEAD) {
            parser.body_max = kind == BT_HTTP_REQUEST ? 4096 : BT_HTTP_BODY_MAX;
            for (size_t i = 0; i < parser.n_fields; i++) {
                bt_http_field field = bt_http_parser_field(&parser, i);
                hash = mix(hash, bt_hash_bytes(field.value.p, field.value.n));
            }
            bt_str path = bt_http_parser_str(&parser, parser.path);
            hash = mix(hash, bt_hash_bytes(path.p, path.n));
        } else if (event == BT_HTTP_DATA) {
            BT_ASSERT(data.n > 0 && data.p >= bytes && data.p + data.n <= bytes + n);
            for (size_t i = 0; i < data.n; i++) {
                hash = mix(hash, (uint64_t)(unsigned char)data.p[i]);
            }
        } else if (event == BT_HTTP_DONE) {
            hash = mix(hash, 1000);
            bt_http_parser_reset(&parser);
        } else if (event == BT_HTTP_BAD) {
            BT_ASSERT(parser.bad_status >= 400 && parser.bad_why != NULL);
            hash = mix(hash, 2000 + (uint64_t)parser.bad_status);
            break;
        } else {
            BT_ASSERT(used == take);
            if (at == n) {
                hash = mix(hash, 3000 + (uint64_t)bt_http_parser_eof(&parser));
                break;
            }
        }
    }
    bt_http_parser_deinit(&parser);
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n == 0) {
        return 0;
    }
    bt_http_kind kind = (bytes[0] & 1) != 0 ? BT_HTTP_RESPONSE : BT_HTTP_REQUEST;
    size_t piece = 1 + (bytes[0] >> 4);
    const char *rest = (const char *)bytes + 1;
    BT_ASSERT(reading(kind, rest, n - 1, SIZE_MAX) == reading(kind, rest, n - 1, piece));
    return 0;
}
