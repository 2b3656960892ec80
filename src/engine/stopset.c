/* SPDX-License-Identifier: MIT
 *
 * What the checkpoint's files say about ending an answer and about sampling. The stop set is the
 * union of config.json, generation_config.json and the tokenizer: instruct models often name their
 * end-of-turn token in only one of them. */
#include "engine/engine.h"

#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>

static bt_status add_eos(betoken_engine *e, int64_t id, const char *where, bt_err *err)
{
    if (id < 0 || id >= e->n_vocab) {
        return bt_fail(err, BT_E_FORMAT, "%s: end-of-sequence id %" PRId64 " is not in 0 to %d",
                       where, id, e->n_vocab - 1);
    }
    for (int i = 0; i < e->n_eos; i++) {
        if (e->eos[i] == id) {
            return BT_OK;
        }
    }
    if (e->n_eos == BT_EOS_MAX) {
        return bt_fail(err, BT_E_LIMIT, "%s: more than %d end-of-sequence ids", where, BT_EOS_MAX);
    }
    e->eos[e->n_eos++] = (int32_t)id;
    return BT_OK;
}

/* eos_token_id: a number, a list of numbers, null or absent. */
static bt_status add_from_meta(betoken_engine *e, const bt_meta *meta, const char *where,
                               bt_err *err)
{
    bt_meta_value v, item;
    if (meta == NULL || !bt_meta_get(meta, "eos_token_id", &v) || v.kind == BT_META_NULL) {
        return BT_OK;
    }
    if (v.kind == BT_META_INT) {
        return add_eos(e, v.i, where, err);
    }
    for (size_t i = 0; v.kind == BT_META_ARRAY && i < v.n; i++) {
        if (!bt_meta_at(&v, i, &item) || item.kind != BT_META_INT) {
            v.kind = BT_META_STRING; /* falls through to the error */
            break;
        }
        BT_TRY(add_eos(e, item.i, where, err));
    }
    return v.kind == BT_META_ARRAY
               ? BT_OK
               : bt_fail(err, BT_E_FORMAT,
                         "%s: eos_token_id must be a whole number, a list of them or null", where);
}

bt_status bt_stopset_read(betoken_engine *e, const bt_weightfile *file, bt_err *err)
{
    if (bt_weightfile_kind(file) == BT_FILE_HF) {
        BT_TRY(add_from_meta(e, bt_weightfile_config(file), "config.json", err));
        BT_TRY(
            add_from_meta(e, bt_weightfile_generation_config(file), "generation_config.json", err));
    }
    int32_t ids[8];
    int n = bt_tokenizer_extra_eos(e->tok, ids);
    for (int i = 0; i < n; i++) {
        BT_TRY(add_eos(e, ids[i], "tokenizer", err));
    }
    if (bt_tokenizer_eos(e->tok) >= 0) {
        BT_TRY(add_eos(e, bt_tokenizer_eos(e->tok), "tokenizer", err));
    }
    char list[256] = "none";
    size_t at = 0;
    for (int i = 0; i < e->n_eos && at < sizeof list - 16; i++) {
        at +=
            (size_t)snprintf(list + at, sizeof list - at, "%s%d", i > 0 ? "," : "", (int)e->eos[i]);
    }
    bt_log(BT_LOG_INFO, "stop", "end_of_sequence_ids=%s", list);
    return BT_OK;
}

static void read_real(const bt_meta *meta, const char *key, double *out)
{
    bt_meta_value v;
    if (bt_meta_get(meta, key, &v) && (v.kind == BT_META_INT || v.kind == BT_META_REAL)) {
        *out = v.f;
    }
}

bt_status bt_defaults_read(betoken_engine *e, const bt_weightfile *file, bt_err *err)
{
    const bt_meta *meta = bt_weightfile_generation_config(file);
    e->defaults = bt_sampling_default();
    if (meta == NULL || e->opt.neutral_generation) {
        return BT_OK;
    }
    bt_meta_value v;
    read_real(meta, "temperature", &e->defaults.temperature);
    read_real(meta, "top_p", &e->defaults.top_p);
    read_real(meta, "min_p", &e->defaults.min_p);
    if (bt_meta_get(meta, "top_k", &v) && v.kind == BT_META_INT && v.i >= INT32_MIN &&
        v.i <= INT32_MAX) {
        e->defaults.top_k = (int32_t)v.i;
    }
    static const char *const inert[] = {"_from_model_config", "transformers_version",
                                        "bos_token_id",       "pad_token_id",
                                        "eos_token_id",       "do_sample",
                                        "use_cache"};
    for (size_t i = 0; i < BT_COUNT(inert); i++) {
        bt_meta_ignore(meta, inert[i]);
    }
    double penalty = 1.0;
    read_real(meta, "repetition_penalty", &penalty);
    if (penalty < 1.0 || penalty > 1.0) {
        bt_log(BT_LOG_WARN, "generation_config", "repetition_penalty=%g is not applied", penalty);
    }
    size_t iter = 0;
    const char *key;
    while (bt_meta_next_unused(meta, &iter, &key)) {
        bt_log(BT_LOG_WARN, "generation_config", "key \"%.100s\" has no effect", key);
    }
    bt_status status = bt_sampling_check(&e->defaults, err);
    if (status != BT_OK) {
        bt_err_prefix(err, "generation_config.json");
    }
    return status;
}
