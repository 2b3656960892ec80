/* SPDX-License-Identifier: MIT
 *
 * Goal: no bytes make the GGUF reader step outside them. Method: the input is a whole file; every
 * byte of every tensor, string and array element that is accepted is read. */
#include "file/table.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static unsigned read_bytes(const void *p, size_t n)
{
    const unsigned char *bytes = p;
    unsigned sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum ^= bytes[i];
    }
    return sum;
}

static unsigned read_meta(const bt_meta *meta)
{
    unsigned sum = 0;
    size_t iter = 0;
    const char *key;
    while (bt_meta_next_unused(meta, &iter, &key)) {
        bt_meta_value v, item;
        if (!bt_meta_get(meta, key, &v)) {
            abort();
        }
        sum ^= read_bytes(v.s.p, v.s.n);
        for (size_t i = 0; bt_meta_at(&v, i, &item); i++) {
            sum ^= read_bytes(item.s.p, item.s.n);
        }
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    bt_err err;
    bt_weightfile *t = bt_table_create("fuzz", BT_FILE_GGUF);
    if (t != NULL && bt_gguf_parse(t, (bt_str){(const char *)bytes, n}, &err) == BT_OK) {
        unsigned sum = read_meta(bt_weightfile_config(t));
        for (int i = 0; i < bt_weightfile_count(t); i++) {
            const bt_tensor_view *v = bt_weightfile_at(t, i);
            sum ^= read_bytes(v->data, v->bytes);
        }
        if (sum > 255) {
            abort();
        }
    }
    bt_weightfile_close(t);
    return 0;
}
