/* SPDX-License-Identifier: MIT
 *
 * Feeds any bytes to the JSON reader. What is accepted is dumped, read again and dumped again: both
 * dumps must be equal. */
#include "text/json.h"
#include "text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bt_json *first = NULL;
    bt_json *second = NULL;
    bt_err err;
    bt_status status = bt_json_parse((bt_str){(const char *)data, size}, &first, &err);
    if (status != BT_OK) {
        BT_ASSERT(status == BT_E_FORMAT);
        BT_ASSERT(err.position >= 0 && (size_t)err.position <= size);
        BT_ASSERT(bt_utf8_valid(bt_str_of(err.message)) == bt_str_of(err.message).n);
        return 0;
    }
    bt_buf a;
    bt_buf b;
    bt_buf_init(&a, BT_MEM_TEXT, size * 16 + 64);
    bt_buf_init(&b, BT_MEM_TEXT, size * 16 + 64);
    bt_json_dump(first, &a);
    BT_ASSERT(bt_buf_ok(&a) == BT_OK);
    BT_ASSERT(bt_json_parse(bt_buf_str(&a), &second, NULL) == BT_OK);
    bt_json_dump(second, &b);
    BT_ASSERT(bt_str_eq(bt_buf_str(&a), bt_buf_str(&b)));
    bt_json_close(first);
    bt_json_close(second);
    bt_buf_deinit(&a);
    bt_buf_deinit(&b);
    return 0;
}
