/* SPDX-License-Identifier: MIT */
#include "model/model.h"

#include "base/mem.h"

static_assert((int)BT_KV_BLOCK == (int)BT_KV_BLOCK_TOKENS, "device and cache agree on the block");

bt_status bt_model_open(const bt_weightfile *file, bt_device *dev, bt_model **out, bt_err *err)
{
    bt_model *m = bt_mem_calloc(BT_MEM_WEIGHTS, 1, sizeof *m);
    if (m == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for a model");
    }
    m->dev = dev;
    bt_status status = bt_hparams_read(file, &m->hp, err);
    if (status == BT_OK) {
        status = bt_model_bind(m, file, err);
    }
    if (status != BT_OK) {
        bt_model_close(m);
        return status;
    }
    *out = m;
    return BT_OK;
}

void bt_model_close(bt_model *m)
{
    if (m == NULL) {
        return;
    }
    const bt_device_ops *ops = m->dev->ops;
    for (int i = 0; m->layers != NULL && i < m->hp.n_layers; i++) {
        ops->free(m->dev, m->layers[i].kv.k);
        ops->free(m->dev, m->layers[i].kv.v);
    }
    float *work[] = {m->rope_cos, m->rope_sin, m->x,    m->norm, m->q,      m->k,
                     m->v,        m->attn,     m->gate, m->up,   m->head_x, m->logits};
    for (size_t i = 0; i < BT_COUNT(work); i++) {
        ops->free(m->dev, work[i]);
    }
    bt_mem_free(m->logits_host);
    bt_model_unbind(m);
    bt_mem_free(m);
}

size_t bt_model_kv_block_bytes(const bt_hparams *hp, bt_dtype kv_dtype)
{
    size_t per_layer = (size_t)BT_KV_BLOCK * (size_t)hp->n_kv_heads * (size_t)hp->head_dim * 2 *
                       (size_t)bt_dtype_get(kv_dtype)->block_bytes;
    return per_layer * (size_t)hp->n_layers;
}

/* Floats of each work array, in the order of the pointers in work_arrays. */
enum { WORK_ARRAYS = 12 };
static void work_sizes(const bt_hparams *hp, const bt_model_limits *lim, size_t n[WORK_ARRAYS])
{
    size_t t = (size_t)lim->rows_max, r = (size_t)lim->logits_max, d = (size_t)hp->hidden_size;
    size_t q = (size_t)hp->n_heads * (size_t)hp->head_dim;
    size_t kv = (size_t)hp->n_kv_heads * (size_t)hp->head_dim, f = (size_t)hp->intermediate_size;
    size_t rope = (size_t)lim->n_pos * (size_t)hp->head_dim / 2;
    const size_t sizes[WORK_ARRAYS] = {rope,  rope,   t * d,  t * d,
                                       t * q, t * kv, t * kv, t * q,
                                       t * f, t * f,  r * d,  r * (size_t)hp->vocab_size};
    for (int i = 0; i < WORK_ARRAYS; i++) {
        n[i] = sizes[i];
    }
}

size_t bt_model_work_bytes(const bt_hparams *hp, const bt_model_limits *limits)
{
    size_t n[WORK_ARRAYS], total = 0;
    work_sizes(hp, limits, n);
    for (int i = 0; i < WORK_ARRAYS; i++) {
        total += n[i] * sizeof(float);
    }
    return total;
}

static bt_status reserve_kv(bt_model *m, const bt_model_limits *lim, bt_err *err)
{
    size_t bytes = bt_model_kv_block_bytes(&m->hp, lim->kv_dtype) / 2 / (size_t)m->hp.n_layers;
    if (!bt_mul_ok(bytes, (size_t)lim->n_blocks, &bytes)) {
        return bt_fail(err, BT_E_NO_MEMORY, "a cache of %d blocks is too large", lim->n_blocks);
    }
    for (int i = 0; i < m->hp.n_layers; i++) {
        bt_kv_layer *kv = &m->layers[i].kv;
        *kv = (bt_kv_layer){.dtype = lim->kv_dtype,
                            .n_kv_heads = m->hp.n_kv_heads,
                            .head_dim = m->hp.head_dim,
                            .k = m->dev->ops->alloc(m->dev, BT_MEM_KV, bytes),
                            .v = m->dev->ops->alloc(m->dev, BT_MEM_KV, bytes)};
        if (kv->k == NULL || kv->v == NULL) {
            return bt_fail(err, BT_E_NO_MEMORY, "no memory for a cache of %d blocks",
                           lim->n_blocks);
        }
    }
    return BT_OK;
}

static bt_status reserve_rope(bt_model *m, const bt_model_limits *lim, bt_err *err)
{
    size_t n = (size_t)lim->n_pos * (size_t)m->hp.head_dim / 2;
    float *host = bt_mem_alloc(BT_MEM_WORK, 2 * n * sizeof *host);
    if (host == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for rotations of %d positions", lim->n_pos);
    }
    bt_rope_tables(&m->hp, m->rope_factors, lim->n_pos, host, host + n);
    m->dev->ops->write(m->dev, m->rope_cos, host, n * sizeof *host);
    m->dev->ops->write(m->dev, m->rope_sin, host + n, n * sizeof *host);
    bt_mem_free(host);
    return BT_OK;
}

bt_status bt_model_reserve(bt_model *m, const bt_model_limits *lim, bt_err *err)
{
    BT_ASSERT(m->x == NULL && lim->rows_max > 0 && lim->logits_max > 0 && lim->n_pos > 0);
    float **work[WORK_ARRAYS] = {&m->rope_cos, &m->rope_sin, &m->x,      &m->norm,
                                 &m->q,        &m->k,        &m->v,      &m->attn,
                                 &m->gate,     &m->up,       &m->head_x, &m->logits};
    size_t n[WORK_ARRAYS];
    work_sizes(&m->hp, lim, n);
    for (int i = 0; i < WORK_ARRAYS; i++) {
        *work[i] = m->dev->ops->alloc(m->dev, BT_MEM_WORK, n[i] * sizeof(float));
        if (*work[i] == NULL) {
            return bt_fail(err, BT_E_NO_MEMORY, "no memory for %zu MB of work space",
                           bt_model_work_bytes(&m->hp, lim) >> 20);
        }
    }
    if (!m->dev->host_memory) {
        m->logits_host = bt_mem_alloc(BT_MEM_WORK, n[WORK_ARRAYS - 1] * sizeof(float));
        if (m->logits_host == NULL) {
            return bt_fail(err, BT_E_NO_MEMORY, "no memory for the logits");
        }
    }
    m->n_pos = lim->n_pos;
    m->rows_max = lim->rows_max;
    m->logits_max = lim->logits_max;
    m->n_blocks = lim->n_blocks;
    BT_TRY(reserve_rope(m, lim, err));
    return reserve_kv(m, lim, err);
}
