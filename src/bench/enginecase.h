/* SPDX-License-Identifier: MIT
 *
 * enginecase.h: what the engine does with one prompt, through <betoken.h>: time to the first token,
 * and the rate at which tokens follow it. Greedy, without an end-of-sequence stop. */
#ifndef BT_BENCH_ENGINECASE_H
#define BT_BENCH_ENGINECASE_H

#include "bench/compare.h"

#include <betoken.h>

typedef struct bt_bench_engine {
    betoken_engine *engine; /* borrowed */
    int32_t *text_ids;      /* owned: ids that prompts are cut from */
    size_t n_text_ids;
    int32_t *prompt;  /* owned: [n_prompt] */
    int n_prompt;     /* tokens of a prompt */
    int n_output;     /* tokens of an answer; 2 or more for a rate */
    uint32_t n_asked; /* prompts so far: each begins at another token */
} bt_bench_engine;

typedef struct bt_bench_answer {
    double first_token_ms; /* from the first forward pass to the first token */
    double prefill_tok_s;  /* prompt tokens over that time */
    double decode_tok_s;   /* tokens after the first over the time from first to last; 0: none */
    double total_ms;       /* from submit to the end */
    int n_tokens;          /* of the answer */
    int drafted, accepted, steps;
} bt_bench_answer;

/* text: what prompts are cut from; NULL: a paragraph of plain English. Prompts repeat the text to
 * reach n_prompt tokens (>= 1), each starting at another place, so that no two share a beginning.
 * BT_E_INVALID (lengths that the engine's context does not hold, an empty text), BT_E_NO_MEMORY, or
 * what the engine says. */
bt_status bt_bench_engine_init(bt_bench_engine *out, betoken_engine *engine, const char *text,
                               int n_prompt, int n_output, bt_err *err) BT_MUST_USE;
void bt_bench_engine_deinit(bt_bench_engine *e);

/* One prompt, one answer. */
bt_status bt_bench_engine_ask(bt_bench_engine *e, bt_bench_answer *out, bt_err *err) BT_MUST_USE;

/* bt_bench_fn with a bt_bench_engine: tokens a second after the first token, and of the prompt. */
bt_status bt_bench_engine_decode(void *e, int round, double *value, bt_err *err);
bt_status bt_bench_engine_prefill(void *e, int round, double *value, bt_err *err);

#endif
