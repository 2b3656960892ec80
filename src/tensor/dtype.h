/* SPDX-License-Identifier: MIT
 *
 * dtype.h: element types of checkpoints, and views of tensors in mapped files.
 *
 * Block formats are those of ggml (ggml-common.h of llama.cpp describes them): a block of 32
 * weights of one row, stored together. */
#ifndef BT_TENSOR_DTYPE_H
#define BT_TENSOR_DTYPE_H

#include "base/buf.h"

typedef enum bt_dtype {
    BT_DTYPE_F32 = 0,
    BT_DTYPE_F16,
    BT_DTYPE_BF16,
    BT_DTYPE_Q4_0,    /* 18 bytes for 32: f16 d, 16 bytes of nibbles; w = d * (q - 8) */
    BT_DTYPE_Q4_1,    /* 20 bytes: f16 d, f16 m, nibbles; w = d * q + m */
    BT_DTYPE_Q5_0,    /* 22 bytes: f16 d, 32 high bits, nibbles; w = d * (q - 16) */
    BT_DTYPE_Q5_1,    /* 24 bytes: f16 d, f16 m, 32 high bits, nibbles; w = d * q + m */
    BT_DTYPE_Q8_0,    /* 34 bytes: f16 d, 32 signed bytes; w = d * q */
    BT_DTYPE_F8_E4M3, /* from here on: never weights here, kept so that files are accounted for */
    BT_DTYPE_F64,
    BT_DTYPE_I8,
    BT_DTYPE_I16,
    BT_DTYPE_I32,
    BT_DTYPE_I64,
    BT_DTYPE_U8,
    BT_DTYPE_U16,
    BT_DTYPE_U32,
    BT_DTYPE_U64,
    BT_DTYPE_BOOL, /* one byte */
    BT_DTYPE_F8_E5M2,
    BT_DTYPE_F8_E8M0,
    BT_DTYPE_C64,
    BT_DTYPE_COUNT
} bt_dtype;

typedef struct bt_dtype_info {
    const char *name;   /* "F32", "Q4_0", … */
    int block_elements; /* elements of one block, 1 for plain types */
    int block_bytes;
    bool is_weight; /* can be a matrix of the model */
} bt_dtype_info;

/* Never NULL for a valid dtype. */
const bt_dtype_info *bt_dtype_get(bt_dtype dtype);

/* The dtype of that name, as safetensors and bt_dtype_info write it; false when there is none. */
bool bt_dtype_parse(bt_str name, bt_dtype *dtype);

/* Bytes of n elements; false when n is not whole blocks or the product does not fit. */
bool bt_dtype_bytes(bt_dtype dtype, uint64_t n, size_t *bytes);

enum { BT_TENSOR_DIMS_MAX = 4 };

/* A tensor inside a mapped file. Row-major: shape[0] is the slowest dimension, shape[n_dims - 1]
 * the one whose elements are neighbours ([n_out, n_in] for a matrix), whatever order the file
 * writes. n_dims 0 is one element. Borrowed: valid while its bt_weightfile is open. */
typedef struct bt_tensor_view {
    bt_str name;
    bt_dtype dtype;
    int n_dims;
    int64_t shape[BT_TENSOR_DIMS_MAX];
    uint64_t n_elements;
    const unsigned char *data; /* may be unaligned */
    size_t bytes;
    int file_idx; /* which mapped file, for dropping pages */
} bt_tensor_view;

/* "[2, 576]" into text of at least 96 bytes, for messages. Returns text. */
const char *bt_tensor_shape_text(const bt_tensor_view *view, char text[96]);

/* Elements first…first+n-1 (in row-major order; whole blocks) as f32. The reference for all packed
 * formats: every value is exactly what the format says, computed in f32 as d * q (+ m). */
void bt_tensor_read_f32(const bt_tensor_view *view, uint64_t first, uint64_t n, float *out);

#endif
