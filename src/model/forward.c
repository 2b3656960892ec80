/* SPDX-License-Identifier: MIT
 *
 * The decoder: for each layer
 *
 *   x += o(attention(rope(q(n)), rope(k(n)), v(n)))     n = rmsnorm(x)
 *   x += down(silu(gate(n)) * up(n))                    n = rmsnorm(x)
 *
 * and for the rows that want logits head(rmsnorm(x)). Pre-norm transformer of Llama (Touvron et al.,
 * arXiv 2302.13971), grouped-query attention (Ainslie et al., arXiv 2305.13245), rotary positions (Su
 * et al., arXiv 2104.09864). The residual stream x is f32. */
#include "model/model.h"

#include <math.h>

static void check_batch(const bt_model *m, const bt_batch *b)
{
    BT_ASSERT(b->n_tok > 0 && b->n_tok <= m->rows_max && b->n_logits <= m->logits_max);
    for (int i = 0; i < b->n_tok; i++) {
        BT_ASSERT(b->token[i] < m->hp.vocab_size && b->pos[i] < m->n_pos);
        BT_ASSERT(b->slot[i] >= 0 && b->slot[i] / BT_KV_BLOCK < m->n_blocks);
    }
}

static void rotate(bt_model *m, const bt_batch *b, float *x, int n_heads)
{
    bt_rope_args args = {.x = x,
                         .pos = b->pos,
                         .n_rows = b->n_tok,
                         .n_heads = n_heads,
                         .head_dim = m->hp.head_dim,
                         .row_stride = n_heads * m->hp.head_dim,
                         .cos = m->rope_cos,
                         .sin = m->rope_sin,
                         .n_pos = m->n_pos,
                         .n_rot = m->hp.head_dim,
                         .interleaved = m->hp.rope_interleaved};
    m->dev->ops->rope(m->dev, &args);
}

static void attention_block(bt_model *m, const bt_batch *b, int layer_idx)
{
    const bt_hparams *hp = &m->hp;
    const bt_device_ops *ops = m->dev->ops;
    bt_layer *l = &m->layers[layer_idx];
    int q_dim = hp->n_heads * hp->head_dim, kv_dim = hp->n_kv_heads * hp->head_dim;
    ops->rmsnorm(m->dev, m->x, l->attn_norm, hp->rms_norm_eps, 0.0f, b->n_tok, 1, hp->hidden_size,
                 m->norm);
    bt_matmul_args qkv = {.x = m->norm,
                          .n_rows = b->n_tok,
                          .n_outputs = 3,
                          .out = {{.w = l->q, .bias = l->q_bias, .y = m->q, .ldy = q_dim},
                                  {.w = l->k, .bias = l->k_bias, .y = m->k, .ldy = kv_dim},
                                  {.w = l->v, .bias = l->v_bias, .y = m->v, .ldy = kv_dim}}};
    ops->matmul(m->dev, &qkv);
    rotate(m, b, m->q, hp->n_heads);
    rotate(m, b, m->k, hp->n_kv_heads);
    ops->kv_store(m->dev, &l->kv, m->k, m->v, kv_dim, b->slot, b->n_tok);
    bool windowed = hp->window > 0 && layer_idx >= hp->window_first;
    bt_attention_args attn = {.q = m->q,
                              .out = m->attn,
                              .kv = &l->kv,
                              .n_rows = b->n_tok,
                              .n_heads = hp->n_heads,
                              .scale = 1.0f / sqrtf((float)hp->head_dim),
                              .window = windowed ? hp->window : 0,
                              .n_ctx = b->n_ctx,
                              .blocks = b->blocks,
                              .n_tail = b->n_tail,
                              .tail = b->tail};
    ops->attention(m->dev, &attn);
    bt_matmul_args out = {
        .x = m->attn,
        .n_rows = b->n_tok,
        .n_outputs = 1,
        .out = {
            {.w = l->o, .bias = l->o_bias, .y = m->x, .ldy = hp->hidden_size, .accumulate = true}}};
    ops->matmul(m->dev, &out);
}

static void mlp_block(bt_model *m, const bt_batch *b, int layer_idx)
{
    const bt_hparams *hp = &m->hp;
    const bt_device_ops *ops = m->dev->ops;
    bt_layer *l = &m->layers[layer_idx];
    int f = hp->intermediate_size;
    ops->rmsnorm(m->dev, m->x, l->mlp_norm, hp->rms_norm_eps, 0.0f, b->n_tok, 1, hp->hidden_size,
                 m->norm);
    bt_matmul_args gate_up = {.x = m->norm,
                              .n_rows = b->n_tok,
                              .n_outputs = 2,
                              .out = {{.w = l->gate, .bias = l->gate_bias, .y = m->gate, .ldy = f},
                                      {.w = l->up, .bias = l->up_bias, .y = m->up, .ldy = f}}};
    ops->matmul(m->dev, &gate_up);
    ops->silu_mul(m->dev, m->gate, m->up, b->n_tok, f, m->gate);
    bt_matmul_args down = {.x = m->gate,
                           .n_rows = b->n_tok,
                           .n_outputs = 1,
                           .out = {{.w = l->down,
                                    .bias = l->down_bias,
                                    .y = m->x,
                                    .ldy = hp->hidden_size,
                                    .accumulate = true}}};
    ops->matmul(m->dev, &down);
}

static void head(bt_model *m, const bt_batch *b, const float **logits)
{
    const bt_device_ops *ops = m->dev->ops;
    int r = b->n_logits, d = m->hp.hidden_size, v = m->hp.vocab_size;
    ops->gather(m->dev, m->x, b->logits_row, r, d, m->head_x);
    ops->rmsnorm(m->dev, m->head_x, m->final_norm, m->hp.rms_norm_eps, 0.0f, r, 1, d, m->head_x);
    bt_matmul_args args = {.x = m->head_x,
                           .n_rows = r,
                           .n_outputs = 1,
                           .out = {{.w = m->head, .y = m->logits, .ldy = v}}};
    ops->matmul(m->dev, &args);
    *logits = m->logits;
    if (!m->dev->host_memory) {
        ops->read(m->dev, m->logits_host, m->logits, (size_t)r * (size_t)v * sizeof *m->logits);
        *logits = m->logits_host;
    }
}

void bt_model_forward(bt_model *m, const bt_batch *b, const float **logits)
{
    check_batch(m, b);
    m->dev->ops->embed(m->dev, m->embed, b->token, b->n_tok, 1.0f, m->x);
    for (int i = 0; i < m->hp.n_layers; i++) {
        attention_block(m, b, i);
        mlp_block(m, b, i);
    }
    *logits = NULL;
    if (b->n_logits > 0) {
        head(m, b, logits);
    }
}
