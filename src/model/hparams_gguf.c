/* SPDX-License-Identifier: MIT
 *
 * Metadata of GGUF files: general.architecture llama (Llama, Mistral, SmolLM …) and qwen2. Keys as in
 * the GGUF specification (docs/gguf.md of the ggml repository). */
#include "model/hparams.h"

#include <stdio.h>
#include <string.h>

enum { DIM_MAX = 1 << 20, LAYERS_MAX = 1024, CTX_MAX = 1 << 24 };

/* Keys below "<arch>." that are read elsewhere or have no influence. */
static const char *const inert[] = {
    "vocab_size", /* the embedding's own rows decide */
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "tensor_data_layout",
    "use_parallel_residual",
};

static bt_status read_ints(const bt_meta *m, const char *arch, bt_hparams *hp, bt_err *err)
{
    int key_length = 0, value_length = 0, n_rot = 0, n_experts = 0;
    const struct {
        const char *name;
        int *out;
        int64_t min, max;
        bool required;
    } ints[] = {
        {"block_count", &hp->n_layers, 1, LAYERS_MAX, true},
        {"context_length", &hp->n_ctx_train, 1, CTX_MAX, true},
        {"embedding_length", &hp->hidden_size, 1, DIM_MAX, true},
        {"feed_forward_length", &hp->intermediate_size, 1, DIM_MAX, true},
        {"attention.head_count", &hp->n_heads, 1, DIM_MAX, true},
        {"attention.head_count_kv", &hp->n_kv_heads, 1, DIM_MAX, false},
        {"attention.key_length", &key_length, 2, 4096, false},
        {"attention.value_length", &value_length, 2, 4096, false},
        {"rope.dimension_count", &n_rot, 2, 4096, false},
        {"expert_count", &n_experts, 0, 0, false},
        {"attention.sliding_window", &hp->window, 0, CTX_MAX, false},
    };
    for (size_t i = 0; i < BT_COUNT(ints); i++) {
        char key[128];
        snprintf(key, sizeof key, "%s.%s", arch, ints[i].name);
        bt_hp_int spec = {key, ints[i].out, ints[i].min, ints[i].max, ints[i].required};
        BT_TRY(bt_hp_read_int(m, &spec, err));
    }
    if (hp->n_kv_heads == 0) {
        hp->n_kv_heads = hp->n_heads;
    }
    hp->head_dim = key_length > 0 ? key_length : hp->hidden_size / hp->n_heads;
    if (value_length > 0 && value_length != hp->head_dim) {
        return bt_fail(err, BT_E_UNSUPPORTED, "attention.value_length %d differs from %d",
                       value_length, hp->head_dim);
    }
    if (n_rot > 0 && n_rot != hp->head_dim) {
        return bt_fail(err, BT_E_UNSUPPORTED, "rope.dimension_count %d is not the head size %d",
                       n_rot, hp->head_dim);
    }
    return BT_OK;
}

static bt_status read_rope(const bt_meta *m, const char *arch, bt_hparams *hp, bt_err *err)
{
    char key[128];
    snprintf(key, sizeof key, "%s.rope.freq_base", arch);
    BT_TRY(bt_hp_read_real(m, key, false, &hp->rope_theta, err));
    snprintf(key, sizeof key, "%s.rope.scale_linear", arch); /* before rope.scaling.* existed */
    double factor = 1.0;
    BT_TRY(bt_hp_read_real(m, key, false, &factor, err));
    snprintf(key, sizeof key, "%s.rope.scaling.type", arch);
    bt_meta_value v;
    bool linear = factor > 1.0 || factor < 1.0;
    if (bt_meta_get(m, key, &v) && v.kind != BT_META_NULL) {
        linear = v.kind == BT_META_STRING && bt_str_eqz(v.s, "linear");
        if (!linear && !(v.kind == BT_META_STRING && bt_str_eqz(v.s, "none"))) {
            return bt_fail(err, BT_E_UNSUPPORTED,
                           "rope.scaling.type \"%.*s\" is not supported (none and linear are)",
                           v.kind == BT_META_STRING ? (int)BT_MIN(v.s.n, (size_t)40) : 1,
                           v.kind == BT_META_STRING ? v.s.p : "?");
        }
    }
    snprintf(key, sizeof key, "%s.rope.scaling.factor", arch);
    BT_TRY(bt_hp_read_real(m, key, false, &factor, err));
    if (linear) {
        hp->rope_scaling = BT_ROPE_LINEAR;
        hp->rope_factor = factor;
    }
    return BT_OK;
}

/* A key of the architecture that nobody read may change the arithmetic. */
static bt_status refuse_unknown(const bt_meta *m, const char *arch, bt_err *err)
{
    size_t iter = 0, n = strlen(arch);
    const char *key;
    while (bt_meta_next_unused(m, &iter, &key)) {
        if (strncmp(key, arch, n) == 0 && key[n] == '.') {
            return bt_fail(err, BT_E_UNSUPPORTED, "metadata key \"%.100s\" is not supported", key);
        }
        if (strncmp(key, "general.", 8) == 0 || strncmp(key, "tokenizer.", 10) == 0 ||
            strncmp(key, "quantize.", 9) == 0) {
            bt_meta_ignore(m, key); /* the tokenizer reads its keys itself */
        }
    }
    return BT_OK;
}

bt_status bt_hparams_read_gguf(const bt_meta *m, bt_hparams *hp, bt_err *err)
{
    bt_meta_value v;
    if (!bt_meta_get(m, "general.architecture", &v) || v.kind != BT_META_STRING) {
        return bt_fail(err, BT_E_FORMAT, "the metadata lack \"general.architecture\"");
    }
    bool llama = bt_str_eqz(v.s, "llama");
    if (!llama && !bt_str_eqz(v.s, "qwen2")) {
        return bt_fail(err, BT_E_UNSUPPORTED,
                       "architecture \"%.*s\" is not supported (llama and qwen2 are)",
                       (int)BT_MIN(v.s.n, (size_t)40), v.s.p);
    }
    const char *arch = llama ? "llama" : "qwen2";
    snprintf(hp->arch, sizeof hp->arch, "%s", arch);
    hp->rope_interleaved = llama;
    BT_TRY(read_ints(m, arch, hp, err));
    char key[128];
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", arch);
    double eps = 0;
    BT_TRY(bt_hp_read_real(m, key, true, &eps, err));
    hp->rms_norm_eps = (float)eps;
    BT_TRY(read_rope(m, arch, hp, err));
    for (size_t i = 0; i < BT_COUNT(inert); i++) {
        snprintf(key, sizeof key, "%s.%s", arch, inert[i]);
        bt_meta_ignore(m, key);
    }
    return refuse_unknown(m, arch, err);
}
