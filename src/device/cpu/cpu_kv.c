/* SPDX-License-Identifier: MIT
 *
 * cpu_kv.c: writing the key/value cache. A block is a [d, 16] matrix of keys and a [16, d] matrix
 * of values for each key/value head (kernel/attention.h), blocks of one head after another. */
#include "device/cpu/cpu_device.h"

#include <string.h>

static_assert((int)BT_KV_BLOCK == (int)BT_ATTN_BLOCK, "kernels and cache agree on the block");

typedef struct store_ctx {
    const bt_kv_layer *kv;
    const float *k, *v;
    const int32_t *slot;
    size_t row_stride, element_bytes;
    bt_kv_put_fn *put;
} store_ctx;

/* Bytes from the start of the cache to block (slot / B) of head 0. */
static size_t block_offset(const bt_kv_layer *kv, int32_t slot, size_t element_bytes)
{
    BT_DEBUG_ASSERT(slot >= 0);
    return (size_t)(slot / BT_KV_BLOCK) * (size_t)kv->n_kv_heads * (size_t)kv->head_dim *
           BT_KV_BLOCK * element_bytes;
}

static size_t element_bytes_of(const bt_kv_layer *kv)
{
    BT_ASSERT(kv->dtype == BT_DTYPE_F32 || kv->dtype == BT_DTYPE_F16);
    return kv->dtype == BT_DTYPE_F32 ? 4 : 2;
}

static void store_rows(void *ctx, int lo, int hi)
{
    const store_ctx *c = ctx;
    const size_t d = (size_t)c->kv->head_dim, head_bytes = d * BT_KV_BLOCK * c->element_bytes;
    for (int t = lo; t < hi; t++) {
        const size_t at = block_offset(c->kv, c->slot[t], c->element_bytes);
        const size_t i = (size_t)(c->slot[t] % BT_KV_BLOCK);
        char *k_block = (char *)c->kv->k + at, *v_block = (char *)c->kv->v + at;
        for (size_t g = 0; g < (size_t)c->kv->n_kv_heads; g++) {
            const size_t from = (size_t)t * c->row_stride + g * d;
            c->put(c->k + from, c->v + from, (int)d, k_block + i * c->element_bytes,
                   v_block + i * d * c->element_bytes);
            k_block += head_bytes;
            v_block += head_bytes;
        }
    }
}

/* lint: allow parameters: the shape of the device's operation table. */
void bt_cpu_kv_store(bt_device *dev, const bt_kv_layer *kv, const float *k, const float *v,
                     int row_stride, const int32_t *slot, int n_rows)
{
    bt_cpu *cpu = bt_cpu_of(dev);
    BT_ASSERT(n_rows >= 0 && n_rows <= cpu->limits.rows_max);
    BT_ASSERT(row_stride >= kv->n_kv_heads * kv->head_dim);
    store_ctx ctx = {.kv = kv,
                     .k = k,
                     .v = v,
                     .slot = slot,
                     .row_stride = (size_t)row_stride,
                     .element_bytes = element_bytes_of(kv),
                     .put = kv->dtype == BT_DTYPE_F32 ? cpu->vector.kv_put_f32
                                                      : cpu->vector.kv_put_f16};
    bt_cpu_for_rows(cpu, n_rows, kv->n_kv_heads * kv->head_dim, store_rows, &ctx);
}

/* One element of every key of the block is 16 apart from the next. */
static void copy_column(char *to, const char *from, size_t d, size_t element_bytes)
{
    for (size_t e = 0; e < d; e++) {
        memcpy(to, from, element_bytes);
        to += BT_KV_BLOCK * element_bytes;
        from += BT_KV_BLOCK * element_bytes;
    }
}

void bt_cpu_kv_copy(bt_device *dev, const bt_kv_layer *kv, const int32_t *from, const int32_t *to,
                    int n)
{
    (void)dev;
    const size_t bytes = element_bytes_of(kv), d = (size_t)kv->head_dim;
    for (int c = 0; c < n; c++) {
        if (from[c] == to[c]) {
            continue;
        }
        const size_t src = block_offset(kv, from[c], bytes), dst = block_offset(kv, to[c], bytes);
        const size_t i = (size_t)(from[c] % BT_KV_BLOCK), j = (size_t)(to[c] % BT_KV_BLOCK);
        for (size_t g = 0; g < (size_t)kv->n_kv_heads; g++) {
            const size_t head = g * d * BT_KV_BLOCK * bytes;
            char *k = kv->k, *v = kv->v;
            copy_column(k + dst + head + j * bytes, k + src + head + i * bytes, d, bytes);
            memcpy(v + dst + head + j * d * bytes, v + src + head + i * d * bytes, d * bytes);
        }
    }
}
