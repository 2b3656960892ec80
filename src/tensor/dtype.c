/* SPDX-License-Identifier: MIT */
#include "tensor/dtype.h"

#include "tensor/half.h"

#include <inttypes.h>
#include <stdio.h>

static const bt_dtype_info infos[BT_DTYPE_COUNT] = {
    [BT_DTYPE_F32] = {"F32", 1, 4, true},          [BT_DTYPE_F16] = {"F16", 1, 2, true},
    [BT_DTYPE_BF16] = {"BF16", 1, 2, true},        [BT_DTYPE_Q4_0] = {"Q4_0", 32, 18, true},
    [BT_DTYPE_Q4_1] = {"Q4_1", 32, 20, true},      [BT_DTYPE_Q5_0] = {"Q5_0", 32, 22, true},
    [BT_DTYPE_Q5_1] = {"Q5_1", 32, 24, true},      [BT_DTYPE_Q8_0] = {"Q8_0", 32, 34, true},
    [BT_DTYPE_F8_E4M3] = {"F8_E4M3", 1, 1, false}, [BT_DTYPE_F64] = {"F64", 1, 8, false},
    [BT_DTYPE_I16] = {"I16", 1, 2, false},         [BT_DTYPE_I8] = {"I8", 1, 1, false},
    [BT_DTYPE_I32] = {"I32", 1, 4, false},         [BT_DTYPE_I64] = {"I64", 1, 8, false},
    [BT_DTYPE_U8] = {"U8", 1, 1, false},           [BT_DTYPE_U16] = {"U16", 1, 2, false},
    [BT_DTYPE_U32] = {"U32", 1, 4, false},         [BT_DTYPE_U64] = {"U64", 1, 8, false},
    [BT_DTYPE_BOOL] = {"BOOL", 1, 1, false},       [BT_DTYPE_F8_E5M2] = {"F8_E5M2", 1, 1, false},
    [BT_DTYPE_F8_E8M0] = {"F8_E8M0", 1, 1, false}, [BT_DTYPE_C64] = {"C64", 1, 8, false},
};

const bt_dtype_info *bt_dtype_get(bt_dtype dtype)
{
    BT_ASSERT((unsigned)dtype < BT_DTYPE_COUNT);
    return &infos[dtype];
}

bool bt_dtype_parse(bt_str name, bt_dtype *dtype)
{
    for (int i = 0; i < BT_DTYPE_COUNT; i++) {
        if (bt_str_eqz(name, infos[i].name)) {
            *dtype = (bt_dtype)i;
            return true;
        }
    }
    return false;
}

bool bt_dtype_bytes(bt_dtype dtype, uint64_t n, size_t *bytes)
{
    const bt_dtype_info *info = bt_dtype_get(dtype);
    uint64_t per_block = (uint64_t)info->block_elements;
    return n % per_block == 0 && bt_mul_ok(n / per_block, (size_t)info->block_bytes, bytes);
}

const char *bt_tensor_shape_text(const bt_tensor_view *view, char text[96])
{
    size_t n = (size_t)snprintf(text, 96, "[");
    for (int i = 0; i < view->n_dims; i++) {
        n += (size_t)snprintf(text + n, 96 - n, "%s%" PRId64, i > 0 ? ", " : "", view->shape[i]);
    }
    snprintf(text + n, 96 - n, "]");
    return text;
}

static uint16_t read_u16(const unsigned char *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t read_u32(const unsigned char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* One block of a 4- or 5-bit format: element i is the low nibble of byte i for i < 16, the high
 * nibble of byte i - 16 above; its fifth bit is bit i of `high`. */
static void read_nibbles(const unsigned char *q, uint32_t high, int offset, float d, float m,
                         float *out)
{
    for (int i = 0; i < 32; i++) {
        int low = i < 16 ? q[i] & 15 : q[i - 16] >> 4;
        int v = low | (int)(high >> i & 1) << 4;
        out[i] = d * (float)(v - offset) + m;
    }
}

static void read_block(bt_dtype dtype, const unsigned char *p, float *out)
{
    float d = bt_f16_to_f32(read_u16(p));
    switch (dtype) {
    case BT_DTYPE_Q4_0:
        read_nibbles(p + 2, 0, 8, d, 0.0f, out);
        break;
    case BT_DTYPE_Q4_1:
        read_nibbles(p + 4, 0, 0, d, bt_f16_to_f32(read_u16(p + 2)), out);
        break;
    case BT_DTYPE_Q5_0:
        read_nibbles(p + 6, read_u32(p + 2), 16, d, 0.0f, out);
        break;
    case BT_DTYPE_Q5_1:
        read_nibbles(p + 8, read_u32(p + 4), 0, d, bt_f16_to_f32(read_u16(p + 2)), out);
        break;
    default:
        BT_ASSERT(dtype == BT_DTYPE_Q8_0);
        for (int i = 0; i < 32; i++) {
            out[i] = d * (float)(signed char)p[2 + i];
        }
    }
}

void bt_tensor_read_f32(const bt_tensor_view *view, uint64_t first, uint64_t n, float *out)
{
    const bt_dtype_info *info = bt_dtype_get(view->dtype);
    uint64_t per_block = (uint64_t)info->block_elements;
    BT_ASSERT(info->is_weight && first <= view->n_elements && n <= view->n_elements - first);
    BT_ASSERT(first % per_block == 0 && n % per_block == 0);
    const unsigned char *p = view->data + first / per_block * (uint64_t)info->block_bytes;
    for (uint64_t i = 0; i < n; i += per_block, p += info->block_bytes) {
        switch (view->dtype) {
        case BT_DTYPE_F32:
            out[i] = bt_f32_from_bits(read_u32(p));
            break;
        case BT_DTYPE_F16:
            out[i] = bt_f16_to_f32(read_u16(p));
            break;
        case BT_DTYPE_BF16:
            out[i] = bt_bf16_to_f32(read_u16(p));
            break;
        default:
            read_block(view->dtype, p, out + i);
        }
    }
}
