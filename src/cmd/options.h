/* SPDX-License-Identifier: MIT
 *
 * options.h: the command line, under the names that vLLM's users know. One table serves all
 * sub-commands: `generate` takes every model and engine option of `serve` under the same name. */
#ifndef BT_CMD_OPTIONS_H
#define BT_CMD_OPTIONS_H

#include "base/status.h"
#include "betoken.h"

enum { BT_NAMES_MAX = 16 };

typedef enum bt_command { BT_CMD_SERVE = 1, BT_CMD_GENERATE = 2, BT_CMD_BENCH = 4 } bt_command;

typedef struct bt_options {
    /* model and engine */
    const char *model;
    const char *speculative_model;
    const char *speculative_config; /* JSON */
    const char *acceptance, *policy, *dtype, *kv_cache_dtype, *generation_config;
    const char *chat_template; /* a file or the text itself */
    const char *log_level;
    int64_t num_speculative_tokens, disable_by_batch_size, speculative_max_model_len;
    int64_t tensor_parallel_size, draft_tensor_parallel_size;
    int64_t max_model_len, max_num_seqs, max_num_batched_tokens, max_queued_requests;
    int64_t kv_cache_memory, threads, max_logprobs, seed;
    double gpu_memory_utilization;
    bool trust_remote_code, seed_given, help, version;
    /* serve */
    const char *host;
    int64_t port;
    const char *served_name[BT_NAMES_MAX];
    const char *api_key[BT_NAMES_MAX];
    int n_served, n_keys;
    /* generate */
    const char *prompt, *prompts;
    bool chat, json;
    int64_t max_tokens;
    double temperature, top_p, min_p; /* NAN: not given */
    int64_t top_k;
    /* bench */
    const char *bench; /* "latency" or "compare"; NULL: latency */
    const char *peer, *peer_name;
    int64_t input_len, output_len, num_iters, num_warm;
} bt_options;

void bt_options_init(bt_options *o);
/* Reads "--name value", "--name=value" and a leading model path; '_' in names counts as '-'.
 * BT_E_INVALID names the option and says what would be right. */
bt_status bt_options_parse(bt_options *o, bt_command command, int argc, char **argv,
                           bt_err *err) BT_MUST_USE;
/* Prints the page of one command. */
void bt_options_help(bt_command command);

/* Checks values, reads the chat template file, applies --speculative-config, resolves model paths
 * (fetching the default model when none is named) and fills the engine's options. What it allocates
 * lives until the process ends. */
bt_status bt_options_engine(bt_options *o, betoken_options *engine, bt_err *err) BT_MUST_USE;

/* defaultmodel.c: path of the default model, fetched when it is not cached. */
bt_status bt_default_model(char **path, bt_err *err) BT_MUST_USE;
#define BT_DEFAULT_MODEL_NAME "SmolLM2-135M-Instruct"

int bt_cmd_bench(bt_options *o);
int bt_cmd_generate(bt_options *o);
int bt_cmd_serve(bt_options *o);

#endif
