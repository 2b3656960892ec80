/* SPDX-License-Identifier: MIT
 *
 * betoken.h: the engine, as the server, the benchmark and any other program see it.
 *
 *   betoken_options_init(&options);
 *   options.model = "path/to/model";
 *   betoken_engine_open(&options, &engine, &error);
 *   betoken_submit(engine, &request, NULL, NULL, &stream, &error);
 *   while (betoken_stream_wait(stream, -1) && betoken_stream_next(stream, &event)) …
 *   betoken_stream_close(stream);
 *   betoken_engine_close(engine);
 *
 * Threads: all functions may be called from any thread; one stream by one thread at a time.
 * Strings are UTF-8 with a length where a NUL may occur. What is passed in is copied before the
 * call returns. Functions return BETOKEN_OK or a code and fill *error (which may be NULL). */
#ifndef BETOKEN_H
#define BETOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BETOKEN_API __attribute__((visibility("default")))

typedef enum betoken_code {
    BETOKEN_OK = 0,
    BETOKEN_INVALID,     /* an option or request field has a wrong value */
    BETOKEN_FORMAT,      /* a file breaks its format */
    BETOKEN_UNSUPPORTED, /* well-formed, but betoken does not do it */
    BETOKEN_NOT_FOUND,   /* a file or model is absent */
    BETOKEN_NO_MEMORY,
    BETOKEN_IO,
    BETOKEN_LIMIT,
    BETOKEN_BUSY,     /* the queue is full; try again */
    BETOKEN_TOO_LONG, /* prompt, or prompt + max_tokens, exceeds the context */
    BETOKEN_STOPPING, /* the engine is closing */
    BETOKEN_INTERNAL  /* betoken's own fault */
} betoken_code;

typedef struct betoken_error {
    betoken_code code;
    int64_t position;  /* byte offset or index as the message says, -1: none */
    char param[64];    /* request field or option at fault, "" when there is none */
    char message[512]; /* one line */
} betoken_error;

/* --- engine -------------------------------------------------------------------------------- */

enum { BETOKEN_SPEC_TOKENS_MAX = 64, BETOKEN_STOP_MAX = 16, BETOKEN_STOP_BYTES_MAX = 1024 };

typedef enum betoken_acceptance {
    BETOKEN_ACCEPT_COUPLED = 0, /* same text as without speculation, seed for seed */
    BETOKEN_ACCEPT_REJECTION    /* same distribution */
} betoken_acceptance;

typedef enum betoken_kv_dtype {
    BETOKEN_KV_AUTO = 0,
    BETOKEN_KV_F32,
    BETOKEN_KV_F16
} betoken_kv_dtype;

typedef struct betoken_options {
    const char *model;             /* a Hugging Face directory or a GGUF file; required */
    const char *speculative_model; /* draft model; NULL: no speculation */
    int num_speculative_tokens;    /* most candidates of a step, 0: off; default 5 */
    betoken_acceptance acceptance;
    int speculative_disable_by_batch_size; /* no candidates while more sequences run; 0: never */
    int speculative_max_model_len; /* longer sequences are not drafted for; 0: the draft's context */
    int max_model_len;             /* tokens of prompt and answer; 0: the model's, or what fits */
    int max_num_seqs;              /* sequences that run at once; default 32 */
    int max_num_batched_tokens;    /* rows of one forward pass; default 512 */
    int max_queued_requests;       /* default 256 */
    uint64_t kv_cache_memory;      /* bytes; 0: by the rules of docs/memory.md */
    double gpu_memory_utilization; /* 0: not given; else the share of memory for everything */
    betoken_kv_dtype kv_cache_dtype;
    bool seed_given; /* requests without a seed derive theirs from this one, in order of arrival */
    uint64_t seed;
    int threads;               /* 0: as many as the process may keep busy */
    int max_logprobs;          /* most top log-probabilities a request may ask for; -1: no cap */
    const char *chat_template; /* the template's text; NULL: the checkpoint's own */
    bool neutral_generation;   /* ignore the sampling defaults of generation_config.json */
} betoken_options;

/* Sets every field to its default. */
BETOKEN_API void betoken_options_init(betoken_options *options);

typedef struct betoken_engine betoken_engine;

/* Loads the models and starts the engine thread; blocks until it is ready. Progress and the memory
 * plan go to the log. */
BETOKEN_API betoken_code betoken_engine_open(const betoken_options *options,
                                             betoken_engine **engine, betoken_error *error);
/* Ends all requests (their streams give BETOKEN_EVENT_ERROR with BETOKEN_STOPPING) and joins the
 * engine thread; memory is freed when the last stream is closed. NULL is allowed. */
BETOKEN_API void betoken_engine_close(betoken_engine *engine);
/* Refuses new requests from now on; those running go on. */
BETOKEN_API void betoken_engine_drain(betoken_engine *engine);

typedef struct betoken_info {
    const char *model;        /* as given */
    const char *architecture; /* "llama", … */
    int max_model_len;
    int vocab_size;   /* ids that the tokenizer knows: 0 … vocab_size - 1 */
    int max_logprobs; /* -1: no cap */
    int kv_blocks, kv_block_size;
    int num_speculative_tokens; /* 0: speculation is off */
    bool has_chat_template;
    uint64_t weight_bytes, kv_bytes;
} betoken_info;

/* Valid while the engine is open. */
BETOKEN_API void betoken_engine_info(const betoken_engine *engine, betoken_info *info);

/* --- requests ------------------------------------------------------------------------------ */

#define BETOKEN_UNSET_INT INT32_MIN

typedef struct betoken_text {
    const char *p;
    size_t n;
} betoken_text;

typedef struct betoken_request {
    /* Exactly one prompt: */
    betoken_text prompt;             /* p != NULL: text */
    const int32_t *prompt_token_ids; /* != NULL: ids */
    size_t n_prompt_token_ids;
    betoken_text messages; /* p != NULL: a JSON array of chat messages, for the chat template */

    int add_special_tokens; /* what the tokenizer adds (BOS): 0, 1, or -1: text yes, messages no */
    bool add_generation_prompt; /* messages; default true */

    /* NAN and BETOKEN_UNSET_INT: the model's default (generation_config.json), else neutral. */
    double temperature, top_p, min_p;
    int32_t top_k; /* -1 and 0: off */
    bool seed_given;
    uint64_t seed;
    uint32_t choice; /* index among the choices of one prompt; part of the noise */

    int64_t max_tokens; /* -1: up to the context */
    const betoken_text *stop;
    size_t n_stop;
    const int32_t *stop_token_ids;
    size_t n_stop_token_ids;
    bool ignore_eos;

    int logprobs;       /* -1: none; n >= 0: each token's, and those of the n most likely */
    bool return_drafts; /* BETOKEN_EVENT_DRAFTS once a verification step */
} betoken_request;

/* Defaults as commented; a prompt must then be set. */
BETOKEN_API void betoken_request_init(betoken_request *request);

typedef enum betoken_event_type {
    BETOKEN_EVENT_STARTED = 0, /* the request's first token follows: generation has begun */
    BETOKEN_EVENT_TOKEN,       /* one committed token; its text may be empty (held back) */
    BETOKEN_EVENT_TEXT,        /* more text of the last token, or text released at the end */
    BETOKEN_EVENT_DRAFTS,      /* the candidates of a step, before its tokens */
    BETOKEN_EVENT_DONE,        /* last event */
    BETOKEN_EVENT_ERROR        /* last event: the request failed after it had been accepted */
} betoken_event_type;

typedef enum betoken_finish { BETOKEN_FINISH_STOP = 0, BETOKEN_FINISH_LENGTH } betoken_finish;

typedef struct betoken_logprob {
    int32_t token;
    double logprob; /* of the model's own distribution, before temperature and filters */
} betoken_logprob;

typedef struct betoken_usage {
    int prompt_tokens, completion_tokens, cached_tokens;
    /* Speculation: candidates proposed, candidates kept and emitted, passes that gave tokens. */
    int drafted, accepted, steps;
    uint64_t seed;          /* that the request used: with it the text repeats */
    int64_t queue_ns;       /* from submit to the first forward pass */
    int64_t first_token_ns; /* from submit to the first token */
    int64_t total_ns;       /* from submit to the end */
} betoken_usage;

enum { BETOKEN_EVENT_TEXT_MAX = 512 };

typedef struct betoken_event {
    betoken_event_type type;
    int32_t token;              /* TOKEN */
    int32_t n;                  /* TOKEN, TEXT: bytes of u.text; DRAFTS: ids in u.draft */
    int32_t n_top;              /* TOKEN: entries of top */
    double logprob;             /* TOKEN, when asked for */
    const betoken_logprob *top; /* TOKEN; valid until the next betoken_stream_next */
    betoken_finish finish;      /* DONE */
    int32_t stop_token;         /* DONE by a stop or EOS id: that id, else -1 */
    int32_t stop_idx;           /* DONE by a stop string: its index, else -1 */
    bool stop_is_eos;           /* stop_token belongs to the model's EOS set */
    betoken_usage usage;        /* DONE, ERROR */
    union {
        char text[BETOKEN_EVENT_TEXT_MAX]; /* whole UTF-8 characters, not NUL-terminated */
        int32_t draft[BETOKEN_SPEC_TOKENS_MAX];
        betoken_error error;
    } u;
} betoken_event;

typedef struct betoken_stream betoken_stream;

/* Called by the engine thread when events have arrived; must return at once (set a flag, write to
 * an eventfd). */
typedef void betoken_wake(void *ctx);

/* Renders, tokenises, checks and queues a request. wake may be NULL. Errors: BETOKEN_INVALID with
 * the field in error->param, BETOKEN_TOO_LONG, BETOKEN_BUSY, BETOKEN_STOPPING. */
BETOKEN_API betoken_code betoken_submit(betoken_engine *engine, const betoken_request *request,
                                        betoken_wake *wake, void *wake_ctx, betoken_stream **stream,
                                        betoken_error *error);

/* Takes the oldest event; false when there is none now. */
BETOKEN_API bool betoken_stream_next(betoken_stream *stream, betoken_event *event);
/* Waits until an event is there; timeout_ns < 0: for ever. False after the timeout, or when the
 * last event has been taken. */
BETOKEN_API bool betoken_stream_wait(betoken_stream *stream, int64_t timeout_ns);
/* Ids of the prompt; valid until the stream is closed. */
BETOKEN_API const int32_t *betoken_stream_prompt(const betoken_stream *stream, size_t *n);
/* Cancels what still runs (its blocks are free within one step) and gives the stream back. NULL is
 * allowed. The wake function is not called after this returns. */
BETOKEN_API void betoken_stream_close(betoken_stream *stream);

/* --- tokens -------------------------------------------------------------------------------- */

/* Ids of request->prompt, or of the rendered request->messages. *ids: betoken_free. */
BETOKEN_API betoken_code betoken_tokenize(betoken_engine *engine, const betoken_request *request,
                                          int32_t **ids, size_t *n, betoken_error *error);
/* The text of ids, control tokens in their written form. *text: betoken_free, NUL-terminated. */
BETOKEN_API betoken_code betoken_detokenize(betoken_engine *engine, const int32_t *ids, size_t n,
                                            char **text, size_t *n_text, betoken_error *error);
/* The bytes of one token (may be part of a character); borrowed from the engine. */
BETOKEN_API betoken_text betoken_token_bytes(const betoken_engine *engine, int32_t id);
BETOKEN_API void betoken_free(void *memory);

/* --- counters ------------------------------------------------------------------------------ */

enum { BETOKEN_BUCKETS_MAX = 20 };

/* Cumulative counts, Prometheus style: count[i] observations were <= bound[i]. */
typedef struct betoken_histogram {
    int n_buckets;
    double bound[BETOKEN_BUCKETS_MAX];
    uint64_t count[BETOKEN_BUCKETS_MAX];
    uint64_t n;
    double sum;
} betoken_histogram;

typedef struct betoken_stats {
    int running, waiting;
    double kv_usage; /* share of blocks in use, 0 … 1 */
    uint64_t prompt_tokens, generation_tokens;
    uint64_t finished_stop, finished_length, finished_abort, finished_error;
    uint64_t drafts;             /* verification steps with candidates, counted per sequence */
    uint64_t draft_tokens;       /* candidates proposed */
    uint64_t accepted_tokens;    /* candidates kept and emitted */
    uint64_t accepted_discarded; /* kept by the verifier, then cut by a stop or limit */
    uint64_t accepted_per_pos[BETOKEN_SPEC_TOKENS_MAX];
    uint64_t steps; /* forward passes of the target */
    betoken_histogram time_to_first_token_s, inter_token_s, e2e_s, queue_s, prefill_s, decode_s;
    betoken_histogram prompt_length, generation_length, iteration_tokens;
} betoken_stats;

BETOKEN_API void betoken_engine_stats(betoken_engine *engine, betoken_stats *stats);
BETOKEN_API const char *betoken_version(void);

#ifdef __cplusplus
}
#endif

#endif
