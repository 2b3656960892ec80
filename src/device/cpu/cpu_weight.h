/* SPDX-License-Identifier: MIT
 *
 * cpu_weight.h: packed weights of the CPU device and the operations that read them. The layouts
 * are those of kernel/pack.h, the arithmetic that of kernel/matmul.h; here they meet the device's
 * contract (device.h). Called by the engine thread. */
#ifndef BT_DEVICE_CPU_CPU_WEIGHT_H
#define BT_DEVICE_CPU_CPU_WEIGHT_H

#include "device/device.h"

/* Work space of bt_cpu_matmul: the quantised or interleaved rows of one call. */
typedef struct bt_cpu_matmul_work {
    void *memory; /* 64-byte aligned, owned by whoever allocated it */
    size_t bytes;
} bt_cpu_matmul_work;

/* Bytes of work space for calls of up to rows_max rows of up to inputs_max inputs; false when the
 * product does not fit. Both > 0. */
bool bt_cpu_matmul_work_bytes(int rows_max, int inputs_max, size_t *bytes);

/* Packs view [N, K] (or [K], as N = 1) on the pool. `packed(ctx, rows_done)` (may be NULL) is called
 * by the calling thread with growing rows_done, the last time with N: source rows below it are no
 * longer read. Fails for types that hold no weights, other ranks, and bytes that do not match the
 * shape, naming the tensor. Returns owned. */
bt_status bt_cpu_weight_open(bt_pool *pool, const bt_tensor_view *view,
                             void (*packed)(void *ctx, int64_t rows_done), void *ctx,
                             bt_weight **out, bt_err *err) BT_MUST_USE;
/* NULL is allowed. */
void bt_cpu_weight_close(bt_weight *w);
/* Bytes held for it. */
size_t bt_cpu_weight_bytes(const bt_weight *w);
int bt_cpu_weight_outputs(const bt_weight *w); /* N */
int bt_cpu_weight_inputs(const bt_weight *w);  /* K */

/* x[t, :] = scale * row token[t] of the table; x [T, K]. */
void bt_cpu_embed(bt_pool *pool, const bt_weight *table, const int32_t *token, int n_rows,
                  float scale, float *x);

/* The device's matmul: one region of the pool for all outputs of args. All its matrices have the
 * same K; work holds what bt_cpu_matmul_work_bytes says for (n_rows, K). */
void bt_cpu_matmul(bt_pool *pool, const bt_cpu_matmul_work *work, const bt_matmul_args *args);

#endif
