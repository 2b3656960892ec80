/* SPDX-License-Identifier: MIT
 *
 * cpu_device.h: the CPU device from inside: its kernels, its pool and its work space. Used by the
 * engine thread; the chunks of a region see it read-only, but for their own thread's scratch. */
#ifndef BT_DEVICE_CPU_CPU_DEVICE_H
#define BT_DEVICE_CPU_CPU_DEVICE_H

#include "device/cpu/cpu_weight.h"
#include "device/device.h"
#include "kernel/attention.h"
#include "kernel/vector.h"

/* Consecutive rows of one sequence that share the reading of its keys. */
typedef struct bt_cpu_tile {
    int row, n_rows;
} bt_cpu_tile;

/* Work space of attention; sizes in cpu_attention.c. */
typedef struct bt_cpu_attention_work {
    bt_cpu_tile *tiles;    /* [rows_max] */
    float *parts;          /* [parts_max] parts of segments that were computed apart */
    size_t parts_max;      /* parts of head_dim_max */
    float *scratch;        /* [threads, scratch_floats] */
    size_t scratch_floats; /* of one thread, a multiple of 16 */
} bt_cpu_attention_work;

typedef struct bt_cpu {
    bt_device base;
    bt_pool *pool; /* borrowed */
    bt_vector vector;
    bt_attention attention;
    bt_device_limits limits; /* zero until reserved */
    bt_cpu_matmul_work matmul_work;
    bt_cpu_attention_work attention_work;
    char name[32];
} bt_cpu;

BT_INLINE bt_cpu *bt_cpu_of(bt_device *dev)
{
    return (bt_cpu *)dev; /* base is the first member */
}

/* Rows lo…hi-1 of an operation. */
typedef void bt_cpu_rows_fn(void *ctx, int lo, int hi);

/* Runs fn over n_rows rows: on this thread while the whole is small, else in chunks over the pool.
 * row_cost is roughly the nanoseconds that a row takes. */
void bt_cpu_for_rows(bt_cpu *cpu, int n_rows, int row_cost, bt_cpu_rows_fn *fn, void *ctx);

/* Claims work space for limits; false when memory is out or a size does not fit, with *work as it
 * was. deinit: NULL members are allowed. */
bool bt_cpu_attention_init(bt_cpu_attention_work *work, const bt_device_limits *limits,
                           int n_threads) BT_MUST_USE;
void bt_cpu_attention_deinit(bt_cpu_attention_work *work);
/* The device's attention. */
void bt_cpu_attention(bt_device *dev, const bt_attention_args *args);

/* lint: allow parameters: the shape of the device's operation table. */
/* The device's kv_store and kv_copy. */
void bt_cpu_kv_store(bt_device *dev, const bt_kv_layer *kv, const float *k, const float *v,
                     int row_stride, const int32_t *slot, int n_rows);
void bt_cpu_kv_copy(bt_device *dev, const bt_kv_layer *kv, const int32_t *from, const int32_t *to,
                    int n);

#endif
