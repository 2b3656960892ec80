/* SPDX-License-Identifier: MIT
 *
 * Goal: no bytes break the event reader, and cutting them changes nothing. Method: read whole and
 * byte by byte, compare a hash of the events and the outcome. */
#include "http/sse.h"

#include "base/map.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static bool mix(void *ctx, bt_str data)
{
    uint64_t *hash = ctx;
    uint64_t both[2] = {*hash, bt_hash_bytes(data.p, data.n)};
    *hash = bt_hash_bytes(both, sizeof both);
    return data.n != 7;
}

static uint64_t reading(const char *bytes, size_t n, size_t piece)
{
    bt_http_sse sse;
    bt_http_sse_init(&sse, 100);
    uint64_t hash = 1;
    bool stopped = false;
    bt_status status = BT_OK;
    for (size_t at = 0; at < n && !stopped && status == BT_OK; at += BT_MIN(piece, n - at)) {
        bt_str part = {bytes + at, BT_MIN(piece, n - at)};
        status = bt_http_sse_push(&sse, part, mix, &hash, &stopped);
    }
    bt_http_sse_deinit(&sse);
    return hash + (uint64_t)status + (stopped ? 100 : 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    BT_ASSERT(reading((const char *)bytes, n, SIZE_MAX) == reading((const char *)bytes, n, 1));
    return 0;
}
