/* SPDX-License-Identifier: MIT
 *
 * config.json of Hugging Face checkpoints: LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM.
 * Defaults of absent keys are those of the transformers library's configuration classes. */
#include "model/hparams.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

enum { DIM_MAX = 1 << 20, LAYERS_MAX = 1024, CTX_MAX = 1 << 24 };

typedef struct family {
    const char *architecture, *arch;
    bool has_attention_bias; /* reads the attention_bias key */
    bool qkv_bias;           /* always has them */
    int default_window;      /* when the key is absent */
    int default_kv_heads;    /* the same; 0: as many as heads */
} family;

static const family families[] = {
    {"LlamaForCausalLM", "llama", true, false, 0, 0},
    {"MistralForCausalLM", "mistral", false, false, 4096, 8},
    {"Qwen2ForCausalLM", "qwen2", false, true, 4096, 32},
};

/* Keys without influence on the arithmetic of a forward pass. */
static const char *const inert[] = {
    "architectures",
    "model_type",
    "torch_dtype",
    "dtype",
    "transformers_version",
    "initializer_range",
    "use_cache",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "attention_dropout",
    "hidden_dropout",
    "pretraining_tp",
    "_name_or_path",
    "is_llama_config",
    "transformers.js_config",
    "unsloth_version",
    "unsloth_fixed",
    "model_max_length",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "rope_scaling.rope_type",
    "rope_scaling.type",
    "tokenizer_class",
    "task_specific_params",
    "id2label",
    "label2id",
    "auto_map",
    "return_dict",
    "output_attentions",
    "output_hidden_states",
    "use_bfloat16",
    "torchscript",
    "num_labels",
};

/* Keys that change the arithmetic in a way that is not done; harmless only at these values. */
static const struct {
    const char *key;
    double neutral; /* number or boolean (0, 1); null and absence are always neutral */
} refused[] = {
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"logit_scale", 1},
    {"logits_scaling", 1},
    {"embedding_multiplier", 1},
    {"residual_multiplier", 1},
    {"attention_multiplier", 1},
    {"partial_rotary_factor", 1},
    {"rope_scaling.partial_rotary_factor", 1},
    {"rope_parameters.partial_rotary_factor", 1},
    {"use_qk_norm", 0},
    {"qk_layernorm", 0},
    {"num_experts", 0},
    {"num_local_experts", 0},
    {"n_routed_experts", 0},
    {"clip_qkv", 0},
    {"query_pre_attn_scalar", 0},
    {"rope_interleaved", 0},
    {"use_mrope", 0},
    {"add_cross_attention", 0},
    {"is_encoder_decoder", 0},
    {"attention_chunk_size", 0},
    {"no_rope_layers", 0},
};

static bt_status refuse_unsupported(const bt_meta *c, bt_err *err)
{
    bt_meta_value v;
    if (bt_meta_get(c, "quantization_config", &v) && v.kind != BT_META_NULL) {
        const char *method = "unknown";
        char text[64];
        if (bt_meta_get(c, "quantization_config.quant_method", &v) && v.kind == BT_META_STRING) {
            snprintf(text, sizeof text, "%.*s", (int)BT_MIN(v.s.n, (size_t)60), v.s.p);
            method = text;
        }
        return bt_fail(err, BT_E_UNSUPPORTED,
                       "quantization_config: quant_method \"%s\" is not supported", method);
    }
    for (size_t i = 0; i < BT_COUNT(refused); i++) {
        if (!bt_meta_get(c, refused[i].key, &v) || v.kind == BT_META_NULL) {
            continue;
        }
        double value = v.kind == BT_META_BOOL ? (double)v.b : v.f;
        bool number = v.kind == BT_META_BOOL || v.kind == BT_META_INT || v.kind == BT_META_REAL;
        if (!number || value < refused[i].neutral || value > refused[i].neutral) {
            return bt_fail(err, BT_E_UNSUPPORTED,
                           "\"%s\" changes the arithmetic and is not supported", refused[i].key);
        }
    }
    return BT_OK;
}

static bt_status find_family(const bt_meta *c, const family **out, bt_err *err)
{
    bt_meta_value list, name = {0};
    if (!bt_meta_get(c, "architectures", &list) || list.kind != BT_META_ARRAY || list.n != 1 ||
        !bt_meta_at(&list, 0, &name) || name.kind != BT_META_STRING) {
        return bt_fail(err, BT_E_FORMAT, "\"architectures\" must be a list of one name");
    }
    for (size_t i = 0; i < BT_COUNT(families); i++) {
        if (bt_str_eqz(name.s, families[i].architecture)) {
            *out = &families[i];
            return BT_OK;
        }
    }
    return bt_fail(err, BT_E_UNSUPPORTED,
                   "architecture \"%.*s\" is not supported (LlamaForCausalLM, "
                   "MistralForCausalLM, Qwen2ForCausalLM are)",
                   (int)BT_MIN(name.s.n, (size_t)80), name.s.p);
}

static bt_status read_sizes(const bt_meta *c, const family *f, bt_hparams *hp, bt_err *err)
{
    const bt_hp_int ints[] = {
        {"hidden_size", &hp->hidden_size, 1, DIM_MAX, true},
        {"intermediate_size", &hp->intermediate_size, 1, DIM_MAX, true},
        {"num_hidden_layers", &hp->n_layers, 1, LAYERS_MAX, true},
        {"num_attention_heads", &hp->n_heads, 1, DIM_MAX, true},
        {"num_key_value_heads", &hp->n_kv_heads, 1, DIM_MAX, false},
        {"head_dim", &hp->head_dim, 2, 4096, false},
        {"vocab_size", &hp->vocab_size, 1, 1 << 24, true},
        {"max_position_embeddings", &hp->n_ctx_train, 1, CTX_MAX, true},
    };
    for (size_t i = 0; i < BT_COUNT(ints); i++) {
        BT_TRY(bt_hp_read_int(c, &ints[i], err));
    }
    if (hp->n_kv_heads == 0) {
        bool given_null = bt_meta_get(c, "num_key_value_heads", &(bt_meta_value){0});
        hp->n_kv_heads = given_null || f->default_kv_heads == 0 ? hp->n_heads : f->default_kv_heads;
    }
    if (hp->head_dim == 0) {
        if (hp->hidden_size % hp->n_heads != 0) {
            return bt_fail(err, BT_E_FORMAT, "hidden_size %d is no multiple of %d heads",
                           hp->hidden_size, hp->n_heads);
        }
        hp->head_dim = hp->hidden_size / hp->n_heads;
    }
    double eps = hp->rms_norm_eps;
    BT_TRY(bt_hp_read_real(c, "rms_norm_eps", false, &eps, err));
    hp->rms_norm_eps = (float)eps;
    bt_meta_value act;
    if (bt_meta_get(c, "hidden_act", &act) && act.kind != BT_META_NULL &&
        !(act.kind == BT_META_STRING && bt_str_eqz(act.s, "silu"))) {
        return bt_fail(err, BT_E_UNSUPPORTED, "\"hidden_act\" must be \"silu\"");
    }
    return BT_OK;
}

static bt_status read_llama3(const bt_meta *c, const char *group, bt_hparams *hp, bt_err *err)
{
    char key[96];
    hp->rope_scaling = BT_ROPE_LLAMA3;
    snprintf(key, sizeof key, "%s.low_freq_factor", group);
    BT_TRY(bt_hp_read_real(c, key, true, &hp->rope_low_freq_factor, err));
    snprintf(key, sizeof key, "%s.high_freq_factor", group);
    BT_TRY(bt_hp_read_real(c, key, true, &hp->rope_high_freq_factor, err));
    snprintf(key, sizeof key, "%s.original_max_position_embeddings", group);
    bt_hp_int orig = {key, &hp->rope_n_ctx_orig, 1, CTX_MAX, true};
    BT_TRY(bt_hp_read_int(c, &orig, err));
    if (hp->rope_high_freq_factor <= hp->rope_low_freq_factor) {
        return bt_fail(err, BT_E_FORMAT, "%s: high_freq_factor must exceed low_freq_factor", group);
    }
    return BT_OK;
}

/* group: "rope_scaling" (transformers 4) or "rope_parameters" (5, which also holds rope_theta). */
static bt_status read_rope_group(const bt_meta *c, const char *group, bt_hparams *hp, bt_err *err)
{
    bt_meta_value v;
    char key[96];
    if (!bt_meta_get(c, group, &v) || v.kind == BT_META_NULL) {
        return BT_OK;
    }
    snprintf(key, sizeof key, "%s.rope_theta", group);
    BT_TRY(bt_hp_read_real(c, key, false, &hp->rope_theta, err));
    snprintf(key, sizeof key, "%s.rope_type", group);
    if (!bt_meta_get(c, key, &v)) {
        snprintf(key, sizeof key, "%s.type", group);
        if (!bt_meta_get(c, key, &v)) {
            return bt_fail(err, BT_E_FORMAT, "%s has no rope_type", group);
        }
    }
    if (v.kind != BT_META_STRING) {
        return bt_fail(err, BT_E_FORMAT, "%s must be a name", key);
    }
    if (bt_str_eqz(v.s, "default")) {
        return BT_OK;
    }
    bool linear = bt_str_eqz(v.s, "linear");
    if (!linear && !bt_str_eqz(v.s, "llama3")) {
        return bt_fail(err, BT_E_UNSUPPORTED,
                       "%s: rope type \"%.*s\" is not supported (default, linear, llama3 are)",
                       group, (int)BT_MIN(v.s.n, (size_t)40), v.s.p);
    }
    snprintf(key, sizeof key, "%s.factor", group);
    BT_TRY(bt_hp_read_real(c, key, true, &hp->rope_factor, err));
    hp->rope_scaling = BT_ROPE_LINEAR;
    return linear ? BT_OK : read_llama3(c, group, hp, err);
}

static bt_status read_window(const bt_meta *c, const family *f, bt_hparams *hp, bt_err *err)
{
    bool use = true;
    bool is_qwen = strcmp(f->arch, "qwen2") == 0;
    bt_meta_value v;
    hp->window = f->default_window;
    hp->window_first = is_qwen ? 28 : 0;
    if (bt_meta_get(c, "sliding_window", &v) && v.kind == BT_META_NULL) {
        hp->window = 0;
    }
    const bt_hp_int window = {"sliding_window", &hp->window, 0, CTX_MAX, false};
    const bt_hp_int first = {"max_window_layers", &hp->window_first, 0, LAYERS_MAX, false};
    BT_TRY(bt_hp_read_int(c, &window, err));
    BT_TRY(bt_hp_read_int(c, &first, err));
    use = !is_qwen; /* Qwen2's default is off */
    BT_TRY(bt_hp_read_bool(c, "use_sliding_window", &use, NULL, err));
    if (!use || strcmp(f->arch, "llama") == 0) {
        hp->window = 0;
    }
    if (!is_qwen) {
        hp->window_first = 0;
    }
    /* layer_types spells out what the keys above say; a contradiction is refused. */
    bt_meta_value types, t;
    if (bt_meta_get(c, "layer_types", &types) && types.kind == BT_META_ARRAY) {
        for (size_t i = 0; i < types.n && bt_meta_at(&types, i, &t); i++) {
            bool windowed = hp->window > 0 && (int)i >= hp->window_first;
            const char *want = windowed ? "sliding_attention" : "full_attention";
            if (t.kind != BT_META_STRING || !bt_str_eqz(t.s, want)) {
                return bt_fail(err, BT_E_UNSUPPORTED, "layer_types[%zu] is not \"%s\"", i, want);
            }
        }
    }
    return BT_OK;
}

bt_status bt_hparams_read_hf(const bt_meta *c, bt_hparams *hp, bt_err *err)
{
    const family *f = NULL;
    BT_TRY(find_family(c, &f, err));
    BT_TRY(refuse_unsupported(c, err));
    snprintf(hp->arch, sizeof hp->arch, "%s", f->arch);
    BT_TRY(read_sizes(c, f, hp, err));
    BT_TRY(bt_hp_read_real(c, "rope_theta", false, &hp->rope_theta, err));
    BT_TRY(read_rope_group(c, "rope_scaling", hp, err));
    BT_TRY(read_rope_group(c, "rope_parameters", hp, err));
    BT_TRY(read_window(c, f, hp, err));
    hp->qkv_bias = f->qkv_bias;
    if (f->has_attention_bias) {
        BT_TRY(bt_hp_read_bool(c, "attention_bias", &hp->qkv_bias, NULL, err));
        hp->out_bias = hp->qkv_bias;
        BT_TRY(bt_hp_read_bool(c, "mlp_bias", &hp->mlp_bias, NULL, err));
    }
    hp->tied_given = true; /* absent: false in all three configuration classes */
    BT_TRY(bt_hp_read_bool(c, "tie_word_embeddings", &hp->tied_embeddings, NULL, err));
    for (size_t i = 0; i < BT_COUNT(inert); i++) {
        bt_meta_ignore(c, inert[i]);
    }
    return BT_OK;
}
