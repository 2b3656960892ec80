/* SPDX-License-Identifier: MIT */
#include "cmd/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { TEXT, TEXTS, WHOLE, BYTES, REAL, FLAG } kind;
enum {
    SERVE = BT_CMD_SERVE,
    GENERATE = BT_CMD_GENERATE,
    BENCH = BT_CMD_BENCH,
    ALL = SERVE | GENERATE | BENCH
};

typedef struct option {
    const char *name, *alias;
    int commands;
    kind kind;
    size_t offset;
    int64_t min, max; /* WHOLE */
    const char *argument, *help;
} option;

#define AT(field) offsetof(bt_options, field)
#define NONE 0, 0

static const option options[] = {
    {"model", NULL, ALL, TEXT, AT(model), NONE, "MODEL",
     "directory, .gguf file, or ORG/NAME in the Hugging Face cache"},
    {"chat-template", NULL, ALL, TEXT, AT(chat_template), NONE, "FILE|TEXT",
     "replaces the model's own template"},
    {"generation-config", NULL, ALL, TEXT, AT(generation_config), NONE, "auto|vllm",
     "sampling defaults from the model, or neutral ones"},
    {"dtype", NULL, ALL, TEXT, AT(dtype), NONE, "auto", "weights keep the checkpoint's types"},
    {"trust-remote-code", NULL, ALL, FLAG, AT(trust_remote_code), NONE, NULL,
     "accepted; no code from a checkpoint is ever run"},
    {"speculative-model", NULL, ALL, TEXT, AT(speculative_model), NONE, "MODEL",
     "draft model with the same tokenizer"},
    {"num-speculative-tokens", NULL, ALL, WHOLE, AT(num_speculative_tokens), 0,
     BETOKEN_SPEC_TOKENS_MAX, "N", "guesses a step, 0: off (5)"},
    {"speculative-config", NULL, ALL, TEXT, AT(speculative_config), NONE, "JSON",
     "{\"method\": \"draft_model\"|\"none\", \"model\": …}"},
    {"spec-decoding-acceptance-method", NULL, ALL, TEXT, AT(acceptance), NONE, "NAME",
     "coupled (same text as without) or rejection_sampler"},
    {"speculative-policy", NULL, ALL, TEXT, AT(policy), NONE, "fixed",
     "how many guesses: always the most"},
    {"speculative-disable-by-batch-size", NULL, ALL, WHOLE, AT(disable_by_batch_size), 0, 1 << 20,
     "N", "no guesses while more sequences run"},
    {"speculative-max-model-len", NULL, ALL, WHOLE, AT(speculative_max_model_len), 0, 1 << 24, "N",
     "no guesses for longer sequences"},
    {"speculative-draft-tensor-parallel-size", "spec-draft-tp", ALL, WHOLE,
     AT(draft_tensor_parallel_size), 1, 1024, "1", "only 1 for now"},
    {"tensor-parallel-size", "tp", ALL, WHOLE, AT(tensor_parallel_size), 1, 1024, "1",
     "only 1 for now"},
    {"max-model-len", NULL, ALL, WHOLE, AT(max_model_len), 1, 1 << 24, "N",
     "tokens of prompt and answer (the model's)"},
    {"max-num-seqs", NULL, ALL, WHOLE, AT(max_num_seqs), 1, 1024, "N",
     "sequences that run at once (32)"},
    {"max-num-batched-tokens", NULL, ALL, WHOLE, AT(max_num_batched_tokens), 1, 8192, "N",
     "rows of one forward pass (512)"},
    {"max-queued-requests", NULL, ALL, WHOLE, AT(max_queued_requests), 0, 65536, "N",
     "requests that may wait (256)"},
    {"kv-cache-memory", NULL, ALL, BYTES, AT(kv_cache_memory), NONE, "BYTES",
     "cache size: 1073741824, 1GiB, 1G"},
    {"gpu-memory-utilization", NULL, ALL, REAL, AT(gpu_memory_utilization), NONE, "F",
     "share of memory for weights, work and cache"},
    {"kv-cache-dtype", NULL, ALL, TEXT, AT(kv_cache_dtype), NONE, "NAME",
     "auto (f16; f32 for float32 models), f16, f32"},
    {"threads", NULL, ALL, WHOLE, AT(threads), 1, 256, "N", "compute threads (all allowed cores)"},
    {"seed", NULL, ALL & ~GENERATE, WHOLE, AT(seed), 0, INT64_MAX, "N",
     "seeds of requests that bring none derive from it"},
    {"seed", NULL, GENERATE, WHOLE, AT(seed), 0, INT64_MAX, "N",
     "seed of every prompt that brings none"},
    {"max-logprobs", NULL, ALL, WHOLE, AT(max_logprobs), -1, INT32_MAX, "N",
     "most log-probabilities a token, -1: any (20)"},
    {"log-level", NULL, ALL, TEXT, AT(log_level), NONE, "LEVEL",
     "error, warn, info, debug or trace"},
    {"host", NULL, SERVE, TEXT, AT(host), NONE, "HOST", "address to listen on (127.0.0.1)"},
    {"port", NULL, SERVE, WHOLE, AT(port), 0, 65535, "N", "port, 0: any free one (8000)"},
    {"served-model-name", NULL, SERVE, TEXTS, AT(served_name), NONE, "NAME…",
     "names in the API (what --model says)"},
    {"api-key", NULL, SERVE, TEXTS, AT(api_key), NONE, "KEY…",
     "required from clients; also BETOKEN_API_KEY"},
    {"prompt", NULL, GENERATE | BENCH, TEXT, AT(prompt), NONE, "TEXT",
     "one prompt; bench: text that prompts are cut from"},
    {"prompts", NULL, GENERATE, TEXT, AT(prompts), NONE, "FILE", "JSON lines, - for stdin"},
    {"chat", NULL, GENERATE, FLAG, AT(chat), NONE, NULL, "prompts are user messages"},
    {"max-tokens", NULL, GENERATE, WHOLE, AT(max_tokens), 1, INT32_MAX, "N",
     "tokens of an answer (up to the context)"},
    {"temperature", NULL, GENERATE, REAL, AT(temperature), NONE, "F", "0: greedy"},
    {"top-p", NULL, GENERATE, REAL, AT(top_p), NONE, "F", "nucleus"},
    {"min-p", NULL, GENERATE, REAL, AT(min_p), NONE, "F", "least share of the best token"},
    {"top-k", NULL, GENERATE, WHOLE, AT(top_k), -1, INT32_MAX, "N", "-1 or 0: off"},
    {"json", NULL, GENERATE | BENCH, FLAG, AT(json), NONE, NULL,
     "one JSON object a prompt, or report"},
    {"input-len", NULL, BENCH, WHOLE, AT(input_len), 1, 1 << 24, "N", "tokens of a prompt (32)"},
    {"output-len", NULL, BENCH, WHOLE, AT(output_len), 2, 1 << 24, "N",
     "tokens of an answer (128)"},
    {"num-iters", NULL, BENCH, WHOLE, AT(num_iters), 1, 1000, "N", "measured rounds (7)"},
    {"num-iters-warmup", NULL, BENCH, WHOLE, AT(num_warm), 0, 1000, "N", "rounds before (1)"},
    {"peer", NULL, BENCH, TEXT, AT(peer), NONE, "COMMAND",
     "compare: program to measure in turns, see docs/benchmarks.md"},
    {"peer-name", NULL, BENCH, TEXT, AT(peer_name), NONE, "NAME", "its name in the report (peer)"},
    {"version", NULL, ALL, FLAG, AT(version), NONE, NULL, "print the version"},
    {"help", "h", ALL, FLAG, AT(help), NONE, NULL, "print this page"},
};

void bt_options_init(bt_options *o)
{
    *o = (bt_options){.acceptance = "coupled",
                      .policy = "fixed",
                      .dtype = "auto",
                      .kv_cache_dtype = "auto",
                      .generation_config = "auto",
                      .num_speculative_tokens = -1,
                      .tensor_parallel_size = 1,
                      .draft_tensor_parallel_size = 1,
                      .max_num_seqs = 0,
                      .max_num_batched_tokens = 0,
                      .max_queued_requests = 256,
                      .max_logprobs = 20,
                      .seed = -1,
                      .gpu_memory_utilization = NAN,
                      .host = "127.0.0.1",
                      .port = 8000,
                      .max_tokens = -1,
                      .temperature = NAN,
                      .top_p = NAN,
                      .min_p = NAN,
                      .top_k = BETOKEN_UNSET_INT,
                      .input_len = 32,
                      .output_len = 128,
                      .num_iters = 7,
                      .num_warm = 1,
                      .peer_name = "peer"};
}

static bt_status read_whole(const option *opt, const char *text, int64_t *out, bt_err *err)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || v < opt->min || v > opt->max) {
        return bt_fail_param(err, BT_E_INVALID, opt->name,
                             "--%s %s: a whole number from %" PRId64 " to %" PRId64 " is expected",
                             opt->name, text, opt->min, opt->max);
    }
    *out = v;
    return BT_OK;
}

/* "1048576", "1MiB", "1M": 1024-based with "i", 1000-based "MB", plain letter 1024-based. */
static bt_status read_bytes(const option *opt, const char *text, int64_t *out, bt_err *err)
{
    static const struct {
        const char *suffix;
        double factor;
    } units[] = {{"", 1},       {"B", 1},        {"K", 0x1p10},  {"KiB", 0x1p10}, {"KB", 1e3},
                 {"M", 0x1p20}, {"MiB", 0x1p20}, {"MB", 1e6},    {"G", 0x1p30},   {"GiB", 0x1p30},
                 {"GB", 1e9},   {"T", 0x1p40},   {"TiB", 0x1p40}};
    char *end;
    double v = strtod(text, &end);
    for (size_t i = 0; i < BT_COUNT(units) && end != text && isfinite(v); i++) {
        if (strcmp(end, units[i].suffix) == 0 && v * units[i].factor >= 1 &&
            v * units[i].factor < 0x1p62) {
            *out = (int64_t)(v * units[i].factor);
            return BT_OK;
        }
    }
    return bt_fail_param(err, BT_E_INVALID, opt->name,
                         "--%s %s: bytes are expected, as 1073741824, 1GiB or 1G", opt->name, text);
}

static bt_status read_real(const option *opt, const char *text, double *out, bt_err *err)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(v)) {
        return bt_fail_param(err, BT_E_INVALID, opt->name, "--%s %s: a number is expected",
                             opt->name, text);
    }
    *out = v;
    return BT_OK;
}

static const option *find_option(bt_command command, const char *name, size_t n)
{
    char dashed[64];
    if (n >= sizeof dashed) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        dashed[i] = name[i] == '_' ? '-' : name[i];
    }
    dashed[n] = '\0';
    for (size_t i = 0; i < BT_COUNT(options); i++) {
        const option *opt = &options[i];
        if ((opt->commands & (int)command) != 0 &&
            (strcmp(dashed, opt->name) == 0 ||
             (opt->alias != NULL && strcmp(dashed, opt->alias) == 0))) {
            return opt;
        }
    }
    return NULL;
}

static bt_status store(bt_options *o, const option *opt, const char *value, bt_err *err)
{
    char *field = (char *)o + opt->offset;
    switch (opt->kind) {
    case TEXT:
        *(const char **)(void *)field = value;
        return BT_OK;
    case WHOLE:
        return read_whole(opt, value, (int64_t *)(void *)field, err);
    case BYTES:
        return read_bytes(opt, value, (int64_t *)(void *)field, err);
    case REAL:
        return read_real(opt, value, (double *)(void *)field, err);
    case TEXTS: {
        int *n = opt->offset == AT(served_name) ? &o->n_served : &o->n_keys;
        if (*n == BT_NAMES_MAX) {
            return bt_fail_param(err, BT_E_INVALID, opt->name, "--%s: at most %d values", opt->name,
                                 BT_NAMES_MAX);
        }
        ((const char **)(void *)field)[(*n)++] = value;
        return BT_OK;
    }
    case FLAG:
        break;
    }
    return BT_OK;
}

static bt_status store_flag(bt_options *o, const option *opt, const char *value, bt_err *err)
{
    bool on = value == NULL || strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
    if (!on && strcmp(value, "false") != 0 && strcmp(value, "0") != 0) {
        return bt_fail_param(err, BT_E_INVALID, opt->name, "--%s takes no value", opt->name);
    }
    *((bool *)(void *)((char *)o + opt->offset)) = on;
    return BT_OK;
}

/* The option at argv[*i]; moves *i past its values. */
static bt_status parse_one(bt_options *o, bt_command command, int argc, char **argv, int *i,
                           bt_err *err)
{
    const char *name = argv[*i] + (argv[*i][1] == '-' ? 2 : 1);
    const char *equals = strchr(name, '=');
    size_t n = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const option *opt = find_option(command, name, n);
    if (opt == NULL) {
        return bt_fail(err, BT_E_INVALID, "unknown option %.*s; --help lists them",
                       (int)(n + (size_t)(name - argv[*i])), argv[*i]);
    }
    const char *value = equals != NULL ? equals + 1 : NULL;
    if (opt->kind == FLAG) {
        return store_flag(o, opt, value, err);
    }
    if (value == NULL) {
        if (*i + 1 >= argc) {
            return bt_fail_param(err, BT_E_INVALID, opt->name, "--%s needs a value (%s)", opt->name,
                                 opt->argument);
        }
        value = argv[++*i];
    }
    BT_TRY(store(o, opt, value, err));
    /* A list goes on until the next option. */
    while (opt->kind == TEXTS && equals == NULL && *i + 1 < argc && argv[*i + 1][0] != '-') {
        BT_TRY(store(o, opt, argv[++*i], err));
    }
    return BT_OK;
}

bt_status bt_options_parse(bt_options *o, bt_command command, int argc, char **argv, bt_err *err)
{
    for (int i = 0; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1] != '\0') {
            BT_TRY(parse_one(o, command, argc, argv, &i, err));
        } else if (command == BT_CMD_BENCH && o->bench == NULL) {
            o->bench = argv[i];
        } else if (o->model == NULL) {
            o->model = argv[i];
        } else {
            return bt_fail(err, BT_E_INVALID,
                           "unexpected argument \"%s\"; --help lists the options", argv[i]);
        }
    }
    return BT_OK;
}

enum { HELP_LEFT = 34, HELP_WIDTH = 80 };

/* The words of `text` from column HELP_LEFT on, in as many lines as they need. */
static void print_wrapped(const char *text)
{
    size_t column = HELP_LEFT;
    while (*text != '\0') {
        size_t n = strcspn(text, " ");
        bool first = column == HELP_LEFT;
        if (!first && column + 1 + n > HELP_WIDTH) {
            printf("\n%*s", HELP_LEFT, "");
            column = HELP_LEFT;
            first = true;
        }
        printf("%s%.*s", first ? "" : " ", (int)n, text);
        column += n + !first;
        text += n + strspn(text + n, " ");
    }
    printf("\n");
}

void bt_options_help(bt_command command)
{
    printf("usage: betoken %s [MODEL] [options]\n\n", command == BT_CMD_SERVE ? "serve"
                                                      : command == BT_CMD_BENCH
                                                          ? "bench latency|compare"
                                                          : "generate");
    for (size_t i = 0; i < BT_COUNT(options); i++) {
        const option *opt = &options[i];
        if ((opt->commands & (int)command) == 0) {
            continue;
        }
        char left[80];
        snprintf(left, sizeof left, "--%s%s%s", opt->name, opt->argument != NULL ? " " : "",
                 opt->argument != NULL ? opt->argument : "");
        if (strlen(left) > 31) {
            printf("  %s\n%*s", left, HELP_LEFT, "");
        } else {
            printf("  %-*s", HELP_LEFT - 2, left);
        }
        print_wrapped(opt->help);
    }
}
