/* SPDX-License-Identifier: MIT
 *
 * Goal: no bytes make the safetensors reader step outside them. Method: the input is a whole file;
 * every byte of every tensor that is accepted is read. */
#include "file/table.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    bt_safetensors_args args = {.bytes = {(const char *)bytes, n}, .path = "fuzz"};
    bt_err err;
    bt_weightfile *t = bt_table_create(args.path, BT_FILE_HF);
    if (t != NULL && bt_safetensors_parse(t, &args, &err) == BT_OK) {
        unsigned sum = 0;
        for (int i = 0; i < bt_weightfile_count(t); i++) {
            const bt_tensor_view *v = bt_weightfile_at(t, i);
            for (size_t k = 0; k < v->bytes; k++) {
                sum ^= v->data[k];
            }
        }
        if (sum > 255) {
            abort();
        }
    }
    bt_weightfile_close(t);
    return 0;
}
