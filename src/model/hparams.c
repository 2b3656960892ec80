/* SPDX-License-Identifier: MIT */
#include "model/hparams.h"

#include "base/log.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

bt_status bt_hp_read_int(const bt_meta *meta, const bt_hp_int *spec, bt_err *err)
{
    bt_meta_value v;
    bool found = bt_meta_get(meta, spec->key, &v) && v.kind != BT_META_NULL;
    if (!found) {
        return spec->required
                   ? bt_fail(err, BT_E_FORMAT, "the configuration lacks \"%s\"", spec->key)
                   : BT_OK;
    }
    if (v.kind != BT_META_INT || v.i < spec->min || v.i > spec->max) {
        return bt_fail(err, BT_E_FORMAT,
                       "\"%s\" must be a whole number from %" PRId64 " to %" PRId64, spec->key,
                       spec->min, spec->max);
    }
    *spec->out = (int)v.i;
    return BT_OK;
}

bt_status bt_hp_read_real(const bt_meta *meta, const char *key, bool required, double *out,
                          bt_err *err)
{
    bt_meta_value v;
    if (!bt_meta_get(meta, key, &v) || v.kind == BT_META_NULL) {
        return required ? bt_fail(err, BT_E_FORMAT, "the configuration lacks \"%s\"", key) : BT_OK;
    }
    if ((v.kind != BT_META_INT && v.kind != BT_META_REAL) || !isfinite(v.f) || v.f <= 0) {
        return bt_fail(err, BT_E_FORMAT, "\"%s\" must be a positive number", key);
    }
    *out = v.f;
    return BT_OK;
}

bt_status bt_hp_read_bool(const bt_meta *meta, const char *key, bool *out, bool *given, bt_err *err)
{
    bt_meta_value v;
    if (!bt_meta_get(meta, key, &v) || v.kind == BT_META_NULL) {
        return BT_OK;
    }
    if (v.kind != BT_META_BOOL) {
        return bt_fail(err, BT_E_FORMAT, "\"%s\" must be true or false", key);
    }
    *out = v.b;
    if (given != NULL) {
        *given = true;
    }
    return BT_OK;
}

static bt_status check_shape(const bt_hparams *hp, bt_err *err)
{
    if (hp->n_heads % hp->n_kv_heads != 0) {
        return bt_fail(err, BT_E_FORMAT, "%d attention heads cannot share %d key/value heads",
                       hp->n_heads, hp->n_kv_heads);
    }
    if (hp->head_dim < 2 || hp->head_dim > 4096 || hp->head_dim % 2 != 0) {
        return bt_fail(err, BT_E_FORMAT, "head_dim must be even and from 2 to 4096, not %d",
                       hp->head_dim);
    }
    return BT_OK;
}

static void warn_unused(const bt_meta *meta)
{
    char list[512] = "";
    size_t iter = 0, n = 0;
    const char *key;
    while (bt_meta_next_unused(meta, &iter, &key)) {
        int more = snprintf(list + n, sizeof list - n, "%s%s", n > 0 ? ", " : "", key);
        n = BT_MIN(n + (size_t)more, sizeof list - 1);
    }
    if (n > 0) {
        bt_log(BT_LOG_WARN, "config", "unknown keys have no effect: %s", list);
    }
}

bt_status bt_hparams_read(const bt_weightfile *file, bt_hparams *out, bt_err *err)
{
    const bt_meta *config = bt_weightfile_config(file);
    bool gguf = bt_weightfile_kind(file) == BT_FILE_GGUF;
    bt_hparams hp = {.rms_norm_eps = 1e-6f, .rope_theta = 10000.0, .rope_factor = 1.0};
    bt_status status =
        gguf ? bt_hparams_read_gguf(config, &hp, err) : bt_hparams_read_hf(config, &hp, err);
    if (status == BT_OK) {
        status = check_shape(&hp, err);
    }
    if (status != BT_OK) {
        bt_err_prefix(err, "%s", bt_weightfile_path(file));
        return status;
    }
    warn_unused(config);
    *out = hp;
    return BT_OK;
}

/* Frequency i of the plain rotation, then scaled. llama3: rope_type "llama3" of transformers'
 * modeling_rope_utils: wavelengths beyond n_ctx_orig / low_freq_factor are stretched by `factor`,
 * those below n_ctx_orig / high_freq_factor kept, linear in 1 / wavelength between. */
static double frequency(const bt_hparams *hp, const float *factors, int i)
{
    double f = pow(hp->rope_theta, -2.0 * i / hp->head_dim);
    switch (hp->rope_scaling) {
    case BT_ROPE_NONE:
        return f;
    case BT_ROPE_LINEAR:
        return f / hp->rope_factor;
    case BT_ROPE_FACTORS:
        return f / (double)factors[i];
    case BT_ROPE_LLAMA3:
        break;
    }
    double wavelength = 2.0 * M_PI / f, orig = hp->rope_n_ctx_orig;
    double low = hp->rope_low_freq_factor, high = hp->rope_high_freq_factor;
    if (wavelength > orig / low) {
        return f / hp->rope_factor;
    }
    if (wavelength < orig / high) {
        return f;
    }
    double smooth = (orig / wavelength - low) / (high - low);
    return (1.0 - smooth) * f / hp->rope_factor + smooth * f;
}

void bt_rope_tables(const bt_hparams *hp, const float *factors, int n_pos, float *cos_out,
                    float *sin_out)
{
    int half = hp->head_dim / 2;
    for (int i = 0; i < half; i++) {
        double f = frequency(hp, factors, i);
        for (int p = 0; p < n_pos; p++) {
            cos_out[(size_t)p * (size_t)half + (size_t)i] = (float)cos(p * f);
            sin_out[(size_t)p * (size_t)half + (size_t)i] = (float)sin(p * f);
        }
    }
}
