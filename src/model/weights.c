/* SPDX-License-Identifier: MIT
 *
 * From tensor names to the decoder's fields. Both naming schemes stand in one table; a tensor that
 * no row claims is refused, so is a row that finds no tensor. */
#include "model/model.h"

#include "base/log.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef enum dim { DIM_NONE, DIM_D, DIM_HD, DIM_GD, DIM_F, DIM_V, DIM_ROT } dim;
typedef enum need { ALWAYS, QKV_BIAS, OUT_BIAS, MLP_BIAS, UNTIED, OPTIONAL } need;

/* dims {n_out, n_in} of a matrix, {n, DIM_NONE} of a vector. offset: of the field in bt_layer, or in
 * bt_model for global tensors. */
typedef struct row {
    const char *hf, *gguf;
    bool is_layer;
    dim n_out, n_in;
    need when;
    size_t offset;
} row;

#define LAYER(hf_name, gguf_name, out_dim, in_dim, need_kind, field)                               \
    {                                                                                              \
        "model.layers.%d." hf_name, "blk.%d." gguf_name, true, out_dim, in_dim, need_kind,         \
            offsetof(bt_layer, field)                                                              \
    }

static const row rows[] = {
    LAYER("input_layernorm.weight", "attn_norm.weight", DIM_D, DIM_NONE, ALWAYS, attn_norm),
    LAYER("self_attn.q_proj.weight", "attn_q.weight", DIM_HD, DIM_D, ALWAYS, q),
    LAYER("self_attn.k_proj.weight", "attn_k.weight", DIM_GD, DIM_D, ALWAYS, k),
    LAYER("self_attn.v_proj.weight", "attn_v.weight", DIM_GD, DIM_D, ALWAYS, v),
    LAYER("self_attn.q_proj.bias", "attn_q.bias", DIM_HD, DIM_NONE, QKV_BIAS, q_bias),
    LAYER("self_attn.k_proj.bias", "attn_k.bias", DIM_GD, DIM_NONE, QKV_BIAS, k_bias),
    LAYER("self_attn.v_proj.bias", "attn_v.bias", DIM_GD, DIM_NONE, QKV_BIAS, v_bias),
    LAYER("self_attn.o_proj.weight", "attn_output.weight", DIM_D, DIM_HD, ALWAYS, o),
    LAYER("self_attn.o_proj.bias", "attn_output.bias", DIM_D, DIM_NONE, OUT_BIAS, o_bias),
    LAYER("post_attention_layernorm.weight", "ffn_norm.weight", DIM_D, DIM_NONE, ALWAYS, mlp_norm),
    LAYER("mlp.gate_proj.weight", "ffn_gate.weight", DIM_F, DIM_D, ALWAYS, gate),
    LAYER("mlp.up_proj.weight", "ffn_up.weight", DIM_F, DIM_D, ALWAYS, up),
    LAYER("mlp.down_proj.weight", "ffn_down.weight", DIM_D, DIM_F, ALWAYS, down),
    LAYER("mlp.gate_proj.bias", "ffn_gate.bias", DIM_F, DIM_NONE, MLP_BIAS, gate_bias),
    LAYER("mlp.up_proj.bias", "ffn_up.bias", DIM_F, DIM_NONE, MLP_BIAS, up_bias),
    LAYER("mlp.down_proj.bias", "ffn_down.bias", DIM_D, DIM_NONE, MLP_BIAS, down_bias),
    {"model.embed_tokens.weight", "token_embd.weight", false, DIM_V, DIM_D, ALWAYS,
     offsetof(bt_model, embed)},
    {"model.norm.weight", "output_norm.weight", false, DIM_D, DIM_NONE, ALWAYS,
     offsetof(bt_model, final_norm)},
    {"lm_head.weight", "output.weight", false, DIM_V, DIM_D, UNTIED, offsetof(bt_model, head)},
    {NULL, "rope_freqs.weight", false, DIM_ROT, DIM_NONE, OPTIONAL, 0},
};

typedef struct binder {
    bt_model *model;
    const bt_weightfile *file;
    bool *claimed; /* by tensor index */
    uint64_t bytes_done;
    const bt_tensor_view *view; /* being packed */
    int64_t rows_dropped;
} binder;

static int64_t dim_size(const bt_hparams *hp, dim d)
{
    switch (d) {
    case DIM_D:
        return hp->hidden_size;
    case DIM_HD:
        return (int64_t)hp->n_heads * hp->head_dim;
    case DIM_GD:
        return (int64_t)hp->n_kv_heads * hp->head_dim;
    case DIM_F:
        return hp->intermediate_size;
    case DIM_V:
        return hp->vocab_size;
    case DIM_ROT:
        return hp->head_dim / 2;
    case DIM_NONE:
        break;
    }
    return 0;
}

static bt_status check_shape(const binder *b, const row *r, const bt_tensor_view *v, bt_err *err)
{
    int64_t n_out = dim_size(&b->model->hp, r->n_out), n_in = dim_size(&b->model->hp, r->n_in);
    bool matrix = r->n_in != DIM_NONE;
    bool fits =
        v->n_dims == (matrix ? 2 : 1) && v->shape[0] == n_out && (!matrix || v->shape[1] == n_in);
    if (!fits) {
        char got[96], want[96];
        bt_tensor_view expected = {.n_dims = matrix ? 2 : 1, .shape = {n_out, n_in}};
        return bt_fail(err, BT_E_FORMAT,
                       "%s: tensor \"%.*s\" has shape %s, the configuration asks %s",
                       bt_weightfile_path(b->file), (int)v->name.n, v->name.p,
                       bt_tensor_shape_text(v, got), bt_tensor_shape_text(&expected, want));
    }
    if (!bt_dtype_get(v->dtype)->is_weight) {
        return bt_fail(
            err, BT_E_UNSUPPORTED, "%s: tensor \"%.*s\" has type %s, which is no weight type",
            bt_weightfile_path(b->file), (int)v->name.n, v->name.p, bt_dtype_get(v->dtype)->name);
    }
    return BT_OK;
}

static void on_packed(void *ctx, int64_t rows_done)
{
    binder *b = ctx;
    int64_t n = rows_done - b->rows_dropped;
    if (n <= 0) {
        return;
    }
    bt_weightfile_drop(b->file, b->view, b->rows_dropped, n);
    b->bytes_done += b->view->bytes / (uint64_t)b->view->shape[0] * (uint64_t)n;
    b->rows_dropped = rows_done;
    bt_log_progress("loading weights", b->bytes_done, bt_weightfile_bytes(b->file));
}

static bt_status open_matrix(binder *b, const bt_tensor_view *v, bt_weight **out, bt_err *err)
{
    bt_device *dev = b->model->dev;
    b->view = v;
    b->rows_dropped = 0;
    bt_status status = dev->ops->weight_open(dev, v, on_packed, b, out, err);
    if (status != BT_OK) {
        bt_err_prefix(err, "%s", bt_weightfile_path(b->file));
        return status;
    }
    b->model->weight_bytes += dev->ops->weight_bytes(*out);
    return BT_OK;
}

static bt_status open_vector(binder *b, const bt_tensor_view *v, float **out, bt_err *err)
{
    size_t n = (size_t)v->n_elements;
    float *host = bt_mem_alloc(BT_MEM_WORK, n * sizeof *host);
    float *device = b->model->dev->ops->alloc(b->model->dev, BT_MEM_WEIGHTS, n * sizeof *host);
    if (host == NULL || device == NULL) {
        bt_mem_free(host);
        b->model->dev->ops->free(b->model->dev, device);
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for tensor \"%.*s\"", (int)v->name.n,
                       v->name.p);
    }
    bt_tensor_read_f32(v, 0, v->n_elements, host);
    b->model->dev->ops->write(b->model->dev, device, host, n * sizeof *host);
    bt_mem_free(host);
    b->model->weight_bytes += n * sizeof *host;
    *out = device;
    return BT_OK;
}

static bt_status missing(const binder *b, const row *r, const char *name, bt_err *err)
{
    const char *path = bt_weightfile_path(b->file);
    if (r->when == UNTIED) {
        return bt_fail(err, BT_E_NOT_FOUND,
                       "%s: tensor \"%s\" is missing although tie_word_embeddings is false; "
                       "incomplete download?",
                       path, name);
    }
    return bt_fail(err, BT_E_NOT_FOUND, "%s: tensor \"%s\" is missing; incomplete download?", path,
                   name);
}

static bool is_needed(const bt_hparams *hp, need when)
{
    switch (when) {
    case QKV_BIAS:
        return hp->qkv_bias;
    case OUT_BIAS:
        return hp->out_bias;
    case MLP_BIAS:
        return hp->mlp_bias;
    case UNTIED:
        return !hp->tied_embeddings;
    case OPTIONAL:
        return false;
    case ALWAYS:
        break;
    }
    return true;
}

/* rope_freqs.weight holds one divisor a frequency (Llama 3.1's scaling, precomputed). */
static bt_status bind_rope_factors(binder *b, const bt_tensor_view *v, bt_err *err)
{
    bt_model *m = b->model;
    m->rope_factors = bt_mem_alloc(BT_MEM_WEIGHTS, (size_t)v->n_elements * sizeof(float));
    if (m->rope_factors == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for the rotation factors");
    }
    bt_tensor_read_f32(v, 0, v->n_elements, m->rope_factors);
    for (uint64_t i = 0; i < v->n_elements; i++) {
        if (!(m->rope_factors[i] > 0.0f)) {
            return bt_fail(err, BT_E_FORMAT, "%s: rope_freqs.weight[%" PRIu64 "] is not positive",
                           bt_weightfile_path(b->file), i);
        }
    }
    m->hp.rope_scaling = BT_ROPE_FACTORS;
    return BT_OK;
}

static bt_status bind_row(binder *b, const row *r, int layer, bt_err *err)
{
    bool gguf = bt_weightfile_kind(b->file) == BT_FILE_GGUF;
    const char *pattern = gguf ? r->gguf : r->hf;
    char name[128];
    if (pattern == NULL) {
        return BT_OK;
    }
    const char *star = strstr(pattern, "%d");
    if (star == NULL) {
        snprintf(name, sizeof name, "%s", pattern);
    } else {
        snprintf(name, sizeof name, "%.*s%d%s", (int)(star - pattern), pattern, layer, star + 2);
    }
    const bt_tensor_view *v = bt_weightfile_find(b->file, name);
    bool needed = is_needed(&b->model->hp, r->when);
    if (v == NULL) {
        return needed ? missing(b, r, name, err) : BT_OK;
    }
    if (!needed && r->when != OPTIONAL) {
        return BT_OK; /* stays unclaimed: judged by claim_rest */
    }
    BT_TRY(check_shape(b, r, v, err));
    for (int i = 0; i < bt_weightfile_count(b->file); i++) {
        if (bt_weightfile_at(b->file, i) == v) {
            b->claimed[i] = true;
        }
    }
    if (r->n_out == DIM_ROT) {
        return bind_rope_factors(b, v, err);
    }
    char *base = r->is_layer ? (char *)&b->model->layers[layer] : (char *)b->model;
    if (r->n_in == DIM_NONE) {
        return open_vector(b, v, (float **)(void *)(base + r->offset), err);
    }
    return open_matrix(b, v, (bt_weight **)(void *)(base + r->offset), err);
}

/* What is left over: known to be unused, or refused by name. */
static bt_status claim_rest(const binder *b, bt_err *err)
{
    bool gguf = bt_weightfile_kind(b->file) == BT_FILE_GGUF;
    for (int i = 0; i < bt_weightfile_count(b->file); i++) {
        const bt_tensor_view *v = bt_weightfile_at(b->file, i);
        if (b->claimed[i]) {
            continue;
        }
        bool head = bt_str_eqz(v->name, gguf ? "output.weight" : "lm_head.weight");
        if (head && b->model->hp.tied_embeddings) {
            bt_log(BT_LOG_INFO, "weights", "tensor \"%.*s\" is not used: embeddings are tied",
                   (int)v->name.n, v->name.p);
        } else if (v->n_elements == 0 || v->n_dims == 0 ||
                   bt_str_ends(v->name, BT_STR(".rotary_emb.inv_freq"))) {
            bt_log(BT_LOG_INFO, "weights", "tensor \"%.*s\" has no part in the model",
                   (int)v->name.n, v->name.p);
        } else {
            return bt_fail(
                err, BT_E_UNSUPPORTED, "%s: tensor \"%.*s\" does not belong to architecture %s",
                bt_weightfile_path(b->file), (int)v->name.n, v->name.p, b->model->hp.arch);
        }
    }
    return BT_OK;
}

/* GGUF says by presence what config.json says by flags; the embedding's rows are the vocabulary. */
static bt_status infer_from_tensors(binder *b, bt_err *err)
{
    bt_hparams *hp = &b->model->hp;
    const bt_weightfile *f = b->file;
    bool gguf = bt_weightfile_kind(f) == BT_FILE_GGUF;
    const char *name = gguf ? "token_embd.weight" : "model.embed_tokens.weight";
    const bt_tensor_view *embed = bt_weightfile_find(f, name);
    if (embed == NULL) {
        return bt_fail(err, BT_E_NOT_FOUND, "%s: tensor \"%s\" is missing; incomplete download?",
                       bt_weightfile_path(f), name);
    }
    hp->is_f32 = embed->dtype == BT_DTYPE_F32;
    if (gguf) {
        if (embed->n_dims != 2 || embed->shape[0] < 1 || embed->shape[0] > 1 << 24) {
            return bt_fail(err, BT_E_FORMAT, "%s: tensor \"%s\" is not a table of tokens",
                           bt_weightfile_path(f), name);
        }
        hp->vocab_size = (int)embed->shape[0];
        hp->qkv_bias = bt_weightfile_find(f, "blk.0.attn_q.bias") != NULL;
        hp->out_bias = bt_weightfile_find(f, "blk.0.attn_output.bias") != NULL;
        hp->mlp_bias = bt_weightfile_find(f, "blk.0.ffn_gate.bias") != NULL;
        hp->tied_embeddings = bt_weightfile_find(f, "output.weight") == NULL;
    }
    return BT_OK;
}

bt_status bt_model_bind(bt_model *m, const bt_weightfile *file, bt_err *err)
{
    binder b = {.model = m, .file = file};
    BT_TRY(infer_from_tensors(&b, err));
    b.claimed = bt_mem_calloc(BT_MEM_WORK, (size_t)bt_weightfile_count(file), sizeof(bool));
    m->layers = bt_mem_calloc(BT_MEM_WEIGHTS, (size_t)m->hp.n_layers, sizeof *m->layers);
    bt_status status = BT_OK;
    if (b.claimed == NULL || m->layers == NULL) {
        status = bt_fail(err, BT_E_NO_MEMORY, "no memory for the layers");
        goto fail;
    }
    for (size_t i = 0; i < BT_COUNT(rows); i++) {
        int n = rows[i].is_layer ? m->hp.n_layers : 1;
        for (int layer = 0; layer < n; layer++) {
            BT_TRY_GOTO(status, bind_row(&b, &rows[i], layer, err));
        }
    }
    if (m->hp.tied_embeddings) {
        m->head = m->embed;
    }
    status = claim_rest(&b, err);
fail:
    bt_log_progress("loading weights", 1, 1);
    bt_mem_free(b.claimed);
    return status;
}

void bt_model_unbind(bt_model *m)
{
    const bt_device_ops *ops = m->dev->ops;
    if (m->head == m->embed) {
        m->head = NULL;
    }
    for (size_t i = 0; i < BT_COUNT(rows); i++) {
        int n = !rows[i].is_layer ? 1 : m->layers == NULL ? 0 : m->hp.n_layers;
        for (int layer = 0; layer < n && rows[i].n_out != DIM_ROT; layer++) {
            char *base = rows[i].is_layer ? (char *)&m->layers[layer] : (char *)m;
            if (rows[i].n_in == DIM_NONE) {
                ops->free(m->dev, *(float **)(void *)(base + rows[i].offset));
            } else {
                ops->weight_close(m->dev, *(bt_weight **)(void *)(base + rows[i].offset));
            }
        }
    }
    bt_mem_free(m->layers);
    bt_mem_free(m->rope_factors);
    m->layers = NULL;
    m->rope_factors = NULL;
}
