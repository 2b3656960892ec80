/* SPDX-License-Identifier: MIT
 *
 * hparams.h: the record that drives the one decoder. A model family is a way to fill it. */
#ifndef BT_MODEL_HPARAMS_H
#define BT_MODEL_HPARAMS_H

#include "file/weightfile.h"

typedef enum bt_rope_scaling {
    BT_ROPE_NONE = 0,
    BT_ROPE_LINEAR, /* frequencies / factor */
    BT_ROPE_LLAMA3, /* long wavelengths / factor, short ones kept, smooth between (Llama 3.1) */
    BT_ROPE_FACTORS /* GGUF rope_freqs.weight: one divisor a frequency */
} bt_rope_scaling;

typedef struct bt_hparams {
    char arch[32]; /* "llama", "mistral", "qwen2" */
    int n_layers, hidden_size, n_heads, n_kv_heads, head_dim, intermediate_size, vocab_size;
    int n_ctx_train; /* max_position_embeddings */
    float rms_norm_eps;

    double rope_theta;
    bt_rope_scaling rope_scaling;
    double rope_factor, rope_low_freq_factor, rope_high_freq_factor;
    int rope_n_ctx_orig;
    bool rope_interleaved; /* GGUF llama: pairs (2i, 2i+1); else (i, i + d/2) */

    bool qkv_bias, out_bias, mlp_bias;
    int window;       /* sliding window in tokens, 0: none */
    int window_first; /* first layer that uses it (Qwen2's max_window_layers) */
    bool tied_embeddings;
    bool tied_given; /* the checkpoint says so itself; else tied when there is no head */
    bool is_f32;     /* float32 checkpoint: decides kv_cache_dtype auto */
} bt_hparams;

/* Reads and checks the configuration of a checkpoint. What changes the arithmetic and is not done
 * here is refused by name (BT_E_UNSUPPORTED); keys that betoken has never heard of are listed in
 * one warning. */
bt_status bt_hparams_read(const bt_weightfile *file, bt_hparams *out, bt_err *err) BT_MUST_USE;

/* The two halves of it (hparams_hf.c, hparams_gguf.c). */
bt_status bt_hparams_read_hf(const bt_meta *config, bt_hparams *hp, bt_err *err) BT_MUST_USE;
bt_status bt_hparams_read_gguf(const bt_meta *meta, bt_hparams *hp, bt_err *err) BT_MUST_USE;

/* Typed look-ups with range checks, for both. A missing key with required = false leaves *out. */
typedef struct bt_hp_int {
    const char *key;
    int *out;
    int64_t min, max;
    bool required;
} bt_hp_int;
bt_status bt_hp_read_int(const bt_meta *meta, const bt_hp_int *spec, bt_err *err) BT_MUST_USE;
bt_status bt_hp_read_real(const bt_meta *meta, const char *key, bool required, double *out,
                          bt_err *err) BT_MUST_USE;
bt_status bt_hp_read_bool(const bt_meta *meta, const char *key, bool *out, bool *given,
                          bt_err *err) BT_MUST_USE;

/* cos and sin of all rotations: [n_pos, head_dim / 2] each, computed in double. factors:
 * [head_dim / 2] divisors, only for BT_ROPE_FACTORS. */
void bt_rope_tables(const bt_hparams *hp, const float *factors, int n_pos, float *cos_out,
                    float *sin_out);

#endif
