/* SPDX-License-Identifier: MIT
 *
 * device.h: the boundary behind which hardware lives. Above it nobody knows whether a CPU or a GPU
 * computes; below it nobody knows what a model, a sequence or a candidate is.
 *
 * The CPU device is the specification; a second device is compared with it operation by operation.
 * Every operation keeps law 1: an output row depends on its input row alone, bit for bit, whatever
 * T is, whatever other rows hold and however many threads run.
 *
 * Letters: T rows of the batch, D hidden size, H heads, G key/value heads, d head size, K inputs and
 * N outputs of a matrix, V vocabulary, B = BT_KV_BLOCK positions of a cache block.
 *
 * Called by the engine thread only (compute thread 0 of the device's pool). Pointers named
 * "device" come from ops->alloc; on the CPU they are ordinary memory. */
#ifndef BT_DEVICE_DEVICE_H
#define BT_DEVICE_DEVICE_H

#include "base/pool.h"
#include "base/status.h"
#include "tensor/dtype.h"

enum { BT_KV_BLOCK = 16, BT_MATMUL_OUTPUTS_MAX = 4 };

typedef struct bt_device bt_device;
typedef struct bt_weight bt_weight; /* a packed matrix [N, K] on the device */

/* One output of a matmul: y[t, n] = sum_k w[n, k] * x[t, k] + bias[n] (+ y[t, n] if accumulate). */
typedef struct bt_matmul_output {
    const bt_weight *w;
    const float *bias; /* [N] device, NULL: none */
    float *y;          /* [T, ldy] device */
    int ldy;           /* >= N */
    bool accumulate;   /* adds to what y holds (the residual stream) */
} bt_matmul_output;

typedef struct bt_matmul_args {
    const float *x; /* [T, K] device */
    int n_rows;     /* T */
    int n_outputs;  /* matrices that share x (q, k and v; gate and up) */
    bt_matmul_output out[BT_MATMUL_OUTPUTS_MAX];
} bt_matmul_args;

typedef struct bt_rope_args {
    float *x;           /* [T, n_heads, d] device, rotated in place */
    const int32_t *pos; /* [T] host */
    int n_rows, n_heads, head_dim;
    int row_stride;         /* floats from one row of x to the next */
    const float *cos, *sin; /* [n_pos, n_rot / 2] device */
    int n_pos;              /* every pos < n_pos */
    int n_rot;              /* rotated dimensions, <= d; the rest is left as it is */
    bool interleaved;       /* pairs (2i, 2i+1) (GGUF llama) instead of (i, i + n_rot/2) (HF) */
} bt_rope_args;

/* A slot is block_id * B + position % B. The cache of one layer: n_blocks * G * B * d elements for
 * keys and for values each, in kv_dtype (F32 or F16), a block's heads together. How positions lie
 * inside a block of a head is the device's affair (the CPU transposes keys: [n_blocks, G, d, B];
 * values are [n_blocks, G, B, d]): only kv_store, kv_copy and attention touch them. Contents that
 * no row reads may be anything, also NaN. */
typedef struct bt_kv_layer {
    void *k, *v; /* device */
    bt_dtype dtype;
    int n_kv_heads, head_dim;
} bt_kv_layer;

typedef struct bt_attention_args {
    const float *q; /* [T, H, d] device, post-RoPE */
    float *out;     /* [T, H, d] device */
    const bt_kv_layer *kv;
    int n_rows, n_heads;
    float scale;   /* of q·k */
    float softcap; /* 0: none; else cap * tanh(s / cap) */
    int window;    /* 0: none; else a row at position p reads keys of positions > p - window */
    /* Keys of row t, in order of position 0 … n_ctx[t] + n_tail[t] - 1; the last one is its own.
     * Positions below n_ctx[t] through the block table of its sequence, those above (its ancestors
     * in a tree and itself) through a list of slots. They are read in blocks of B aligned to
     * position 0 whichever way they come, so that both ways give the same bits. */
    const int32_t *n_ctx;         /* [T] host */
    const int32_t *const *blocks; /* [T] host: block ids of the row's sequence */
    const int32_t *n_tail;        /* [T] host; may be NULL: all 0 */
    const int32_t *const *tail;   /* [T] host: n_tail[t] slots */
} bt_attention_args;

typedef struct bt_device_ops {
    /* Zeroed memory on the device; NULL when it is out. */
    void *(*alloc)(bt_device *dev, bt_mem_tag tag, size_t bytes);
    void (*free)(bt_device *dev, void *memory);
    void (*write)(bt_device *dev, void *device_to, const void *host_from, size_t bytes);
    void (*read)(bt_device *dev, void *host_to, const void *device_from, size_t bytes);

    /* Packs a matrix [N, K] (or a vector table) from a mapped file; `packed(ctx, rows_done)` is
     * called as source rows become unneeded (the caller drops pages and shows progress; may be
     * NULL). Fails for shapes it cannot hold, naming the tensor. Returns owned. */
    bt_status (*weight_open)(bt_device *dev, const bt_tensor_view *view,
                             void (*packed)(void *ctx, int64_t rows_done), void *ctx,
                             bt_weight **out, bt_err *err);
    void (*weight_close)(bt_device *dev, bt_weight *w);
    size_t (*weight_bytes)(const bt_weight *w);

    /* x[t, :] = row token[t] of the table, times scale. token: [T] host, each < N. */
    void (*embed)(bt_device *dev, const bt_weight *table, const int32_t *token, int n_rows,
                  float scale, float *x);
    void (*matmul)(bt_device *dev, const bt_matmul_args *args);
    /* y[t, :] = x[t, :] / sqrt(mean(x[t, :]^2) + eps) * (w + w_offset); y may be x. For n_groups > 1
     * each row is n_groups vectors of length D normalised apart (q/k norm). */
    void (*rmsnorm)(bt_device *dev, const float *x, const float *w, float eps, float w_offset,
                    int n_rows, int n_groups, int dim, float *y);
    void (*rope)(bt_device *dev, const bt_rope_args *args);
    /* Stores k and v rows ([T, G, d], stride row_stride floats) at slot[t] (host). */
    void (*kv_store)(bt_device *dev, const bt_kv_layer *kv, const float *k, const float *v,
                     int row_stride, const int32_t *slot, int n_rows);
    /* Copies cached positions from slot to slot (accepted tree nodes), one after another in the
     * order of the lists. */
    void (*kv_copy)(bt_device *dev, const bt_kv_layer *kv, const int32_t *from, const int32_t *to,
                    int n);
    void (*attention)(bt_device *dev, const bt_attention_args *args);
    /* y[t, i] = silu(gate[t, i]) * up[t, i], i < dim; y may be gate. Strides dim. */
    void (*silu_mul)(bt_device *dev, const float *gate, const float *up, int n_rows, int dim,
                     float *y);
    /* y[i] = x[row[i]] for n rows of dim floats (row: host). */
    void (*gather)(bt_device *dev, const float *x, const int32_t *row, int n, int dim, float *y);
    void (*close)(bt_device *dev);
} bt_device_ops;

/* Every device struct begins with its table. */
struct bt_device {
    const bt_device_ops *ops;
    const char *name; /* "cpu avx512vnni", for the log and for inspect */
    bool host_memory; /* device pointers may be read on the host (the CPU device) */
};

typedef struct bt_device_limits {
    int rows_max;      /* largest T of any call: sizes the work space */
    int inputs_max;    /* largest K */
    int heads_max;     /* largest H */
    int head_dim_max;  /* largest d */
    int positions_max; /* longest sequence */
} bt_device_limits;

/* The CPU device, on the kernels that bt_cpu_isa allows. Borrows the pool. Weights may be opened
 * at once; the other operations need bt_device_cpu_reserve first. Returns owned: ops->close. */
bt_status bt_device_cpu_open(bt_pool *pool, bt_device **out, bt_err *err) BT_MUST_USE;
/* Claims the work space for limits; may be called again with larger ones before the first step. */
bt_status bt_device_cpu_reserve(bt_device *dev, const bt_device_limits *limits,
                                bt_err *err) BT_MUST_USE;

#endif
