/* SPDX-License-Identifier: MIT
 *
 * From the command line to the engine's options: names to values, files to texts, models to paths. */
#include "cmd/options.h"

#include "base/log.h"
#include "base/mapfile.h"
#include "base/mem.h"
#include "file/modelpath.h"
#include "text/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEMPLATE_MAX = 4 << 20, PATH_BYTES = 4096 };

static bt_status choose(const char *option, const char *value, const char *const *names, int n,
                        int *out, bt_err *err)
{
    char list[160] = "";
    for (int i = 0; i < n; i++) {
        if (strcmp(value, names[i]) == 0) {
            *out = i;
            return BT_OK;
        }
        size_t at = strlen(list);
        snprintf(list + at, sizeof list - at, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    return bt_fail_param(err, BT_E_INVALID, option, "--%s %.60s: one of %s is expected", option,
                         value, list);
}

static bt_status apply_whole(const char *key, const bt_json *value, int64_t max, int64_t *out,
                             bt_err *err)
{
    if (bt_json_kind_of(value) != BT_JSON_INT || bt_json_int(value) < 0 ||
        bt_json_int(value) > max) {
        return bt_fail_param(err, BT_E_INVALID, "speculative-config",
                             "--speculative-config: %s must be a whole number from 0 to %" PRId64,
                             key, max);
    }
    *out = bt_json_int(value);
    return BT_OK;
}

static bt_status apply_text(const char *key, const bt_json *value, const char **out, bt_err *err)
{
    if (bt_json_kind_of(value) != BT_JSON_STRING) {
        return bt_fail_param(err, BT_E_INVALID, "speculative-config",
                             "--speculative-config: %s must be a string", key);
    }
    bt_str s = bt_json_str(value);
    *out = bt_mem_dup(BT_MEM_BASE, s.p, s.n);
    return *out != NULL ? BT_OK : bt_fail(err, BT_E_NO_MEMORY, "no memory for an option");
}

static bt_status apply_key(bt_options *o, bt_str key, const bt_json *value, const char **method,
                           bt_err *err)
{
    const struct {
        const char *name;
        int64_t max; /* 0: a string */
        int64_t *whole;
        const char **text;
    } keys[] = {
        {"method", 0, NULL, method},
        {"model", 0, NULL, &o->speculative_model},
        {"num_speculative_tokens", BETOKEN_SPEC_TOKENS_MAX, &o->num_speculative_tokens, NULL},
        {"draft_tensor_parallel_size", 1024, &o->draft_tensor_parallel_size, NULL},
        {"disable_by_batch_size", 1 << 20, &o->disable_by_batch_size, NULL},
        {"max_model_len", 1 << 24, &o->speculative_max_model_len, NULL},
        {"acceptance_method", 0, NULL, &o->acceptance},
    };
    char list[256] = "";
    for (size_t i = 0; i < BT_COUNT(keys); i++) {
        if (bt_str_eqz(key, keys[i].name)) {
            return keys[i].text != NULL
                       ? apply_text(keys[i].name, value, keys[i].text, err)
                       : apply_whole(keys[i].name, value, keys[i].max, keys[i].whole, err);
        }
        size_t at = strlen(list);
        snprintf(list + at, sizeof list - at, "%s%s", i > 0 ? ", " : "", keys[i].name);
    }
    return bt_fail_param(err, BT_E_INVALID, "speculative-config",
                         "--speculative-config: unknown key \"%.*s\"; known are %s",
                         (int)BT_MIN(key.n, (size_t)60), key.p, list);
}

static bt_status apply_config(bt_options *o, bt_err *err)
{
    if (o->speculative_config == NULL) {
        return BT_OK;
    }
    bt_json *root = NULL;
    const char *method = NULL;
    bt_status status = bt_json_parse(bt_str_of(o->speculative_config), &root, err);
    if (status != BT_OK) {
        bt_err_prefix(err, "--speculative-config");
        return status;
    }
    if (bt_json_kind_of(root) != BT_JSON_OBJECT) {
        bt_json_close(root);
        return bt_fail_param(err, BT_E_INVALID, "speculative-config",
                             "--speculative-config: a JSON object is expected");
    }
    void *iter = NULL;
    bt_str key;
    const bt_json *value;
    while (status == BT_OK && bt_json_next(root, &iter, &key, &value)) {
        status = apply_key(o, key, value, &method, err);
    }
    bt_json_close(root);
    BT_TRY(status);
    static const char *const methods[] = {"none", "draft_model"};
    int chosen = 1;
    if (method != NULL) {
        status = choose("speculative-config", method, methods, 2, &chosen, err);
    }
    if (status == BT_OK && chosen == 0) {
        o->speculative_model = NULL;
        o->num_speculative_tokens = 0; /* else it would ask for a draft model */
    }
    return status;
}

/* HF_HUB_CACHE, else $HF_HOME/hub, else ~/.cache/huggingface/hub. */
static const char *hub_cache(char path[PATH_BYTES])
{
    const char *hub = getenv("HF_HUB_CACHE"), *hf = getenv("HF_HOME"), *home = getenv("HOME");
    if (hub != NULL && hub[0] != '\0') {
        return hub;
    }
    if (hf != NULL && hf[0] != '\0') {
        snprintf(path, PATH_BYTES, "%s/hub", hf);
        return path;
    }
    if (home == NULL) {
        return NULL;
    }
    snprintf(path, PATH_BYTES, "%s/.cache/huggingface/hub", home);
    return path;
}

static bt_status resolve(const char *name, const char **out, bt_err *err)
{
    char cache[PATH_BYTES], *path = NULL;
    BT_TRY(bt_modelpath_resolve(name, hub_cache(cache), &path, err));
    *out = path;
    return BT_OK;
}

/* A name of a readable file, else the template itself. */
static bt_status read_template(const char *value, const char **out, bt_err *err)
{
    char *text;
    size_t n;
    bool looks_inline = strchr(value, '{') != NULL || strchr(value, '\n') != NULL;
    if (looks_inline) {
        *out = value;
        return BT_OK;
    }
    bt_status status = bt_mapfile_read(value, TEMPLATE_MAX, &text, &n, err);
    if (status == BT_OK) {
        *out = text;
    } else {
        bt_err_prefix(err, "--chat-template");
    }
    return status;
}

static bt_status check_sizes(const bt_options *o, bt_err *err)
{
    if (o->tensor_parallel_size != 1 || o->draft_tensor_parallel_size > 1) {
        return bt_fail_param(err, BT_E_UNSUPPORTED, "tensor-parallel-size",
                             "--tensor-parallel-size and --speculative-draft-tensor-parallel-size "
                             "above 1 are not supported; use 1");
    }
    if (!isnan(o->gpu_memory_utilization) &&
        !(o->gpu_memory_utilization > 0 && o->gpu_memory_utilization <= 1)) {
        return bt_fail_param(err, BT_E_INVALID, "gpu-memory-utilization",
                             "--gpu-memory-utilization %g: above 0 and at most 1 is expected",
                             o->gpu_memory_utilization);
    }
    return BT_OK;
}

static bt_status fill_names(bt_options *o, betoken_options *e, bt_err *err)
{
    static const char *const kv[] = {"auto", "f32", "f16"}, *const dtypes[] = {"auto"},
                             *const policies[] = {"fixed"},
                             *const methods[] = {"coupled", "rejection_sampler"},
                             *const generation[] = {"auto", "vllm"};
    int kv_idx = 0, method = 0, neutral = 0, unused = 0;
    BT_TRY(choose("kv-cache-dtype", o->kv_cache_dtype, kv, 3, &kv_idx, err));
    BT_TRY(choose("dtype", o->dtype, dtypes, 1, &unused, err));
    BT_TRY(choose("speculative-policy", o->policy, policies, 1, &unused, err));
    BT_TRY(choose("spec-decoding-acceptance-method", o->acceptance, methods, 2, &method, err));
    BT_TRY(choose("generation-config", o->generation_config, generation, 2, &neutral, err));
    e->kv_cache_dtype = (betoken_kv_dtype)kv_idx;
    e->acceptance = (betoken_acceptance)method;
    e->neutral_generation = neutral == 1;
    return BT_OK;
}

static bt_status fill_models(bt_options *o, betoken_options *e, bt_err *err)
{
    if (o->model == NULL) {
        char *path = NULL;
        BT_TRY(bt_default_model(&path, err));
        e->model = path;
    } else {
        BT_TRY(resolve(o->model, &e->model, err));
    }
    if (o->speculative_model == NULL) {
        if (o->num_speculative_tokens > 0) {
            return bt_fail_param(err, BT_E_INVALID, "num-speculative-tokens",
                                 "--num-speculative-tokens %" PRId64 " needs --speculative-model",
                                 o->num_speculative_tokens);
        }
        return BT_OK;
    }
    if (o->speculative_model[0] == '[') {
        return bt_fail_param(err, BT_E_UNSUPPORTED, "speculative-model",
                             "--speculative-model %s is not supported; name a draft model",
                             o->speculative_model);
    }
    bt_status status = resolve(o->speculative_model, &e->speculative_model, err);
    if (status != BT_OK) {
        bt_err_prefix(err, "--speculative-model");
    }
    return status;
}

bt_status bt_options_engine(bt_options *o, betoken_options *e, bt_err *err)
{
    betoken_options_init(e);
    BT_TRY(apply_config(o, err));
    BT_TRY(check_sizes(o, err));
    BT_TRY(fill_names(o, e, err));
    if (o->num_speculative_tokens >= 0) {
        e->num_speculative_tokens = (int)o->num_speculative_tokens;
    }
    e->speculative_disable_by_batch_size = (int)o->disable_by_batch_size;
    e->speculative_max_model_len = (int)o->speculative_max_model_len;
    e->max_model_len = (int)o->max_model_len;
    /* What is not given fits what is; two values that contradict each other are the engine's to
     * refuse. */
    int seqs = (int)o->max_num_seqs, rows = (int)o->max_num_batched_tokens;
    e->max_num_seqs = seqs > 0 ? seqs : rows > 0 ? BT_MIN(e->max_num_seqs, rows) : e->max_num_seqs;
    e->max_num_batched_tokens =
        rows > 0 ? rows : BT_MAX(e->max_num_batched_tokens, e->max_num_seqs);
    e->max_queued_requests = (int)o->max_queued_requests;
    e->kv_cache_memory = (uint64_t)o->kv_cache_memory;
    e->gpu_memory_utilization = isnan(o->gpu_memory_utilization) ? 0 : o->gpu_memory_utilization;
    e->threads = (int)o->threads;
    e->max_logprobs = (int)o->max_logprobs;
    e->seed_given = o->seed >= 0;
    e->seed = (uint64_t)BT_MAX(o->seed, (int64_t)0);
    if (o->chat_template != NULL) {
        BT_TRY(read_template(o->chat_template, &e->chat_template, err));
    }
    if (o->trust_remote_code) {
        bt_log(BT_LOG_INFO, "option", "--trust-remote-code: no code from a checkpoint is ever run");
    }
    return fill_models(o, e, err);
}
