/* SPDX-License-Identifier: MIT
 *
 * pack.h: packed matrices. A matrix [N, K] is cut into panels of 16 outputs; a panel holds its
 * weights in groups of 32 inputs, in the order in which the matmul kernels read them, so that one
 * pass over a matrix is one plain pass over memory. Every value is kept exactly.
 *
 * Integer formats, bytes of one group of one panel (o: output 0…15 of the panel, i: input 0…31):
 *
 *   codes Q8_0   byte [i / 4][o][i % 4] = q + 128                                        512 bytes
 *   codes 4 bit  byte [i / 4][o][i % 4], i < 16: low nibble input i, high input i + 16   256 bytes
 *   fifth bits   byte [o][i % 4], bit i / 4                                               64 bytes
 *   scales       f16 [o]                                                                  32 bytes
 *   minima       f16 [o] (Q4_1, Q5_1)                                                     32 bytes
 *
 *   Q4_1, Q5_1:        per group  scales, minima, (fifth bits,) codes
 *   Q4_0, Q5_0, Q8_0:  per pair of groups  scales of both, then for each (fifth bits,) codes;
 *                      a last group without a partner leaves the other half of its line unused
 *
 * so that everything but the scales of a second group starts on a cache line.
 *
 * Float formats: F32 and F16 [k][o]; BF16 [k / 2][o][k % 2] (one 32-bit word holds two neighbours).
 * K is padded with zeros to a multiple of 4, N to a multiple of 16. */
#ifndef BT_KERNEL_PACK_H
#define BT_KERNEL_PACK_H

#include "base/pool.h"
#include "base/status.h"
#include "tensor/dtype.h"

enum {
    BT_PANEL_OUTPUTS = 16,
    BT_GROUP_INPUTS = 32,
    BT_FLOAT_INPUTS = 4, /* K of float formats is padded to a multiple of this */
    BT_PACK_INPUTS_MAX = 1 << 24,
};

typedef struct bt_panels {
    bt_dtype dtype;
    int n, k;            /* outputs, inputs */
    int n_panels;        /* ceil(n / 16) */
    size_t panel_bytes;  /* from one panel to the next; a multiple of 64 */
    size_t bytes;        /* of all panels */
    unsigned char *data; /* 64-byte aligned */
} bt_panels;

/* True for the formats whose matmul quantises its activations to integers. */
bool bt_pack_is_integer(bt_dtype dtype);

/* Shape of the packed form; no data yet. Fails, naming the tensor, when view is no matrix that can
 * be packed: other than one or two dimensions, a type that holds no weights, K not whole blocks, a
 * dimension out of range, or bytes that do not match the shape. */
bt_status bt_pack_plan(const bt_tensor_view *view, bt_panels *out, bt_err *err) BT_MUST_USE;

/* Called with the number of source rows, from the first on, that will not be read again. */
typedef void bt_pack_progress_fn(void *ctx, int64_t rows_done);

/* Plans, claims memory and packs on the pool; progress (NULL: none) runs on the calling thread.
 * Returns owned: bt_pack_close. */
bt_status bt_pack_open(bt_pool *pool, const bt_tensor_view *view, bt_pack_progress_fn *progress,
                       void *ctx, bt_panels *out, bt_err *err) BT_MUST_USE;
/* Frees the data and zeroes *panels; a zeroed one is allowed. */
void bt_pack_close(bt_panels *panels);

/* out[0…k-1] = row n_idx of the matrix: bit for bit what bt_tensor_read_f32 gives for the source. */
void bt_pack_read_row(const bt_panels *panels, int n_idx, float *out);

/* Where group g of an integer panel lies. */
typedef struct bt_pack_group {
    const unsigned char *codes;
    const unsigned char *high;   /* fifth bits, NULL: none */
    const unsigned char *scales; /* f16 [16] */
    const unsigned char *minima; /* f16 [16], NULL: none */
} bt_pack_group;
bt_pack_group bt_pack_find_group(const bt_panels *panels, const unsigned char *panel, int g);

#endif
