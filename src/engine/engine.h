/* SPDX-License-Identifier: MIT
 *
 * engine.h: what the files of this folder share. Nobody above the fence sees it.
 *
 * Threads. A stream is made by the submitting thread, travels to the engine thread through the inbox
 * and is then owned by it, but for: `events` (ring, consumer side), `cancelled` and `paused`
 * (atomics), and what submit wrote, which nobody changes any more. Engine fields below "engine
 * thread" are touched by nobody else while it runs. */
#ifndef BT_ENGINE_ENGINE_H
#define BT_ENGINE_ENGINE_H

#include "base/bell.h"
#include "base/ring.h"
#include "base/status.h"
#include "betoken.h"
#include "file/weightfile.h"
#include "jinja/jinja.h"
#include "model/model.h"
#include "sample/logprob.h"
#include "sample/verify.h"
#include "spec/policy.h"
#include "spec/proposer.h"
#include "token/tokenizer.h"

#include <pthread.h>

/* Event rings hold at least this many events, so that a consumer may lag some steps behind. */
enum { BT_EVENTS_MIN = 256, BT_STOP_IDS_MAX = 64, BT_EOS_MAX = 32 };

typedef enum bt_seq_state {
    BT_SEQ_WAITING = 0, /* in the queue: no blocks */
    BT_SEQ_PREFILL,     /* part of the prompt is not in the cache yet */
    BT_SEQ_DECODE,      /* all but the last token are in the cache */
    BT_SEQ_ENDED
} bt_seq_state;

/* One request: prompt, answer so far, and its way out. */
struct betoken_stream {
    betoken_engine *engine; /* holds a reference */
    _Atomic int n_refs;     /* client and engine; whoever lets go last frees */
    uint64_t id;

    /* Written by submit, constant afterwards. */
    int32_t *token; /* [n_tok_max] prompt, then answer */
    int n_prompt, n_tok_max;
    bt_sampling sampling;
    betoken_text stop[BETOKEN_STOP_MAX]; /* copies */
    int n_stop;
    size_t stop_bytes_max; /* longest stop string */
    int32_t stop_id[BT_STOP_IDS_MAX];
    int n_stop_ids;
    bool ignore_eos, return_drafts;
    int n_logprobs; /* -1: none */
    betoken_wake *wake;
    void *wake_ctx;
    int64_t submitted_ns;

    /* The way out. */
    bt_ring events;           /* betoken_event; pushed by the engine thread */
    betoken_logprob *tops;    /* [ring capacity, n_logprobs] one row an event place */
    betoken_logprob *top_row; /* [n_logprobs] engine thread's scratch */
    betoken_logprob *top_out; /* [n_logprobs] consumer's copy of the event taken last */
    uint32_t n_pushed;        /* engine thread: selects the row of tops */
    uint32_t n_popped;        /* consumer */
    bt_bell bell;             /* rung when events arrive */
    _Atomic bool cancelled;   /* set by the consumer; the engine reads it once a step */
    _Atomic bool waking;      /* the engine is inside wake() */
    _Atomic bool paused;      /* set by the engine when the ring is too full to go on */
    bool ended_seen;          /* consumer has taken the last event */

    /* Engine thread. */
    bt_seq_state state;
    int seq_idx;        /* place among the running ones, -1: none */
    bt_kv_table *table; /* of that place */
    int n_tok;          /* committed tokens, prompt included */
    int n_computed;     /* positions in the target's cache */
    bt_detok detok;
    char *text; /* held back, not yet emitted: may become a stop string */
    size_t n_text, text_max;
    betoken_usage usage;
    int64_t started_ns, first_token_ns, last_token_ns;
    bool begun; /* STARTED has been emitted */
    bool news;  /* has events that its consumer was not told of */
};

/* What one step does with one running sequence. */
typedef struct bt_plan_item {
    betoken_stream *seq;
    int n_rows;  /* decode: 1 + candidates; prefill: tokens of the chunk */
    int n_draft; /* most candidates */
    bool decode;
    bool samples;         /* the last row(s) give a token */
    int first_row;        /* in the batch */
    int first_logits_row; /* among the rows that want logits */
    int range;            /* of bt_candidates, -1: none */
    bt_accept accept;
    bt_status status;
} bt_plan_item;

typedef struct bt_plan {
    int n_items;
    int n_rows;
    bt_plan_item *items; /* [max_num_seqs] */
} bt_plan;

struct betoken_engine {
    _Atomic int n_refs; /* the owner and every stream */
    betoken_options opt;
    char *model_name, *draft_name, *template_text; /* owned copies of strings in opt */

    /* Read-only once open. */
    bt_tokenizer *tok;
    bt_jinja *tmpl; /* NULL: the checkpoint has none */
    bt_pool *pool;
    bt_device *dev;
    bt_model *model, *draft;
    bt_proposer *proposer;
    bt_policy policy;
    bt_sampling defaults; /* generation_config.json */
    int32_t eos[BT_EOS_MAX];
    int n_eos;
    int n_vocab; /* logits */
    int max_model_len, n_blocks;
    size_t kv_bytes;
    int events_per_token; /* most events that one committed token gives */
    size_t ring_events;   /* capacity of a stream's ring */

    /* Into the engine thread. */
    pthread_t thread;
    bool thread_started;
    pthread_mutex_t submit_lock; /* producers of the inbox */
    bt_ring inbox;               /* betoken_stream * */
    bt_bell bell;
    _Atomic int n_live;    /* accepted and not ended */
    _Atomic bool draining; /* refuses new requests */
    _Atomic bool stopping; /* the thread ends */
    uint64_t n_arrived;    /* under submit_lock */

    /* Engine thread. */
    bt_kv_pool kv;
    bt_kv_table *tables;      /* [max_num_seqs] */
    betoken_stream **running; /* [max_num_seqs] by place, NULL: free */
    betoken_stream **order;   /* [max_num_seqs] running ones in order of admission */
    int n_running;
    betoken_stream **waiting; /* [n_waiting_max] ring in order of arrival */
    int n_waiting, n_waiting_max, waiting_head;
    bt_plan plan;
    bt_batch *batch;
    bt_candidates *candidates;
    bt_propose_seq *propose_seqs; /* [max_num_seqs] */
    bt_sampler **samplers;        /* [threads] */
    const float *logits;          /* of the last pass */
    bt_logprob *top_scratch;      /* [n_vocab] */
    betoken_stats stats;          /* private copy */
    pthread_mutex_t stats_lock;   /* guards stats_shared */
    betoken_stats stats_shared;
};

/* stream.c */
void bt_stream_push(betoken_stream *s, const betoken_event *event, const betoken_logprob *top);
bool bt_stream_has_space(const betoken_engine *e, const betoken_stream *s, int n_tokens);
/* Tells the consumer that events have arrived. */
void bt_stream_wake(betoken_stream *s);
void bt_stream_release(betoken_stream *s);
void bt_engine_release(betoken_engine *e);

/* memplan.c: decides max_model_len and n_blocks, prints the plan. */
bt_status bt_memplan(betoken_engine *e, bt_err *err) BT_MUST_USE;
bt_dtype bt_memplan_kv_dtype(const betoken_engine *e, const bt_model *m);
bt_model_limits bt_memplan_limits(const betoken_engine *e, const bt_model *m, bool is_draft);

/* stopset.c: end-of-sequence ids and sampling defaults from the checkpoint's files. */
bt_status bt_stopset_read(betoken_engine *e, const bt_weightfile *file, bt_err *err) BT_MUST_USE;
bt_status bt_defaults_read(betoken_engine *e, const bt_weightfile *file, bt_err *err) BT_MUST_USE;

/* prompt.c: from a request to ids; runs on the submitting thread. */
bt_status bt_prompt_ids(betoken_engine *e, const betoken_request *req, bt_ids *ids,
                        bt_err *err) BT_MUST_USE;

/* queue.c: who waits, who runs. */
void bt_queue_drain_inbox(betoken_engine *e);
void bt_queue_admit(betoken_engine *e);
void bt_queue_sweep_cancelled(betoken_engine *e);
void bt_queue_end(betoken_engine *e, betoken_stream *s); /* frees its place and blocks */

/* plan.c */
void bt_plan_make(betoken_engine *e, bt_plan *plan);

/* step.c: one step; false when there was nothing to do. */
bool bt_step(betoken_engine *e);

/* commit.c: the one routine that commits a token. `row`: the logits that it was drawn from. Returns
 * true when the sequence has ended. */
bool bt_commit_token(betoken_engine *e, betoken_stream *s, int32_t token, const float *row);
/* Ends a sequence with an error event. */
void bt_commit_error(betoken_engine *e, betoken_stream *s, bt_status status, const char *message);

/* counters.c */
void bt_counters_init(betoken_stats *stats);
void bt_counters_add(betoken_histogram *h, double value);
void bt_counters_publish(betoken_engine *e, bool wait);

/* The public form of a failure; an error that nobody has described is named by its status. */
betoken_code bt_public_error(bt_status status, const bt_err *err, betoken_error *out);

#endif
