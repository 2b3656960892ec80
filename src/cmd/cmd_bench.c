/* SPDX-License-Identifier: MIT
 *
 * betoken bench latency: one prompt at a time through the engine, against what memory can deliver.
 * betoken bench compare: the same prompts as another program that is started with --peer, in turns. */
#include "cmd/options.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "bench/command.h"
#include "bench/report.h"

#include <stdio.h>
#include <string.h>

enum { CEILING_BYTES = 512 << 20, CEILING_ROUNDS = 5, REPORT_MAX = 16 << 20 };

typedef struct session {
    const bt_options *o;
    betoken_engine *engine;
    bt_bench_machine machine;
    bt_bench_plan plan;
    bt_buf text; /* what is printed in the end */
    bt_jsonw json;
} session;

static bt_status open_engine(session *s, const betoken_options *options, bt_err *err)
{
    betoken_error error;
    if (betoken_engine_open(options, &s->engine, &error) != BETOKEN_OK) {
        return bt_fail(err, BT_E_INVALID, "%s", error.message);
    }
    return BT_OK;
}

static void begin(session *s, const char *what)
{
    if (!s->o->json) {
        bt_bench_machine_text(&s->text, &s->machine);
        return;
    }
    bt_jsonw_init(&s->json, &s->text);
    bt_jsonw_open(&s->json, '{');
    bt_jsonw_key(&s->json, "bench");
    bt_jsonw_strz(&s->json, what);
    bt_jsonw_key(&s->json, "betoken");
    bt_jsonw_strz(&s->json, betoken_version());
    bt_jsonw_key(&s->json, "machine");
    bt_bench_machine_json(&s->json, &s->machine);
}

static bt_status measure_ceilings(const session *s, bt_ceilings *out, bt_err *err)
{
    bt_pool *pool;
    BT_TRY(bt_pool_open(s->machine.n_threads, &pool, err));
    bt_status status = bt_ceilings_measure(pool, CEILING_BYTES, CEILING_ROUNDS, out, err);
    bt_pool_close(pool);
    return status;
}

static bt_status ask_all(bt_bench_engine *e, bt_bench_plan plan, bt_bench_answer *answers,
                         bt_err *err)
{
    for (int round = -plan.n_warm; round < plan.n_rounds; round++) {
        bt_bench_answer answer;
        BT_TRY(bt_bench_engine_ask(e, &answer, err));
        if (round >= 0) {
            answers[round] = answer;
        }
    }
    return BT_OK;
}

static bt_status run_latency(session *s, bt_err *err)
{
    static bt_bench_answer answers[BT_BENCH_ROUNDS_MAX];
    const bt_options *o = s->o;
    bt_bench_engine e;
    bt_ceilings ceilings;
    betoken_info info;
    int n_output = (int)(o->output_len > 0 ? o->output_len : 128);
    if (n_output < 2) {
        return bt_fail_param(err, BT_E_INVALID, "output-len",
                             "--output-len: 2 or more is expected");
    }
    BT_TRY(bt_bench_engine_init(&e, s->engine, o->prompt, (int)o->input_len, n_output, err));
    bt_status status = ask_all(&e, s->plan, answers, err);
    bt_bench_engine_deinit(&e);
    BT_TRY(status);
    BT_TRY(measure_ceilings(s, &ceilings, err));
    betoken_engine_info(s->engine, &info);
    bt_bench_latency l = {.model = info.model,
                          .n_prompt = (int)o->input_len,
                          .n_output = n_output,
                          .weight_bytes = info.weight_bytes,
                          .answer = answers,
                          .n = s->plan.n_rounds,
                          .ceilings = &ceilings};
    begin(s, "latency");
    if (o->json) {
        bt_bench_latency_json(&s->json, &l);
    } else {
        bt_bench_latency_text(&s->text, &l);
    }
    return BT_OK;
}

typedef struct comparison {
    const char *name;
    bt_bench_fn *run;
    int n_prompt, n_output;
} comparison;

static bt_status compare_one(session *s, bt_bench_command *peer, const comparison *c,
                             double *samples, bt_err *err)
{
    char request[64];
    if (c->n_output > 1) {
        (void)snprintf(request, sizeof request, "decode %d %d", c->n_prompt, c->n_output);
    } else {
        (void)snprintf(request, sizeof request, "prefill %d", c->n_prompt);
    }
    bt_bench_engine e;
    BT_TRY(bt_bench_engine_init(&e, s->engine, s->o->prompt, c->n_prompt, c->n_output, err));
    bt_bench_question question = {.command = peer, .request = request};
    bt_bench_case sides[] = {{"betoken", c->run, &e},
                             {s->o->peer_name, bt_bench_command_run, &question}};
    bt_status status = bt_bench_run(sides, 2, s->plan, samples, err);
    bt_bench_engine_deinit(&e);
    return status;
}

/* The decode line comes last: it is the one that people and scripts look for. */
static void report_pairs(session *s, const comparison *cases, const double *samples, size_t n)
{
    bt_bench_pair pair = {.a_name = "betoken", .b_name = s->o->peer_name, .n = s->plan.n_rounds};
    size_t per_case = 2 * (size_t)s->plan.n_rounds;
    begin(s, "compare");
    if (s->o->json) {
        bt_jsonw_key(&s->json, "pairs");
        bt_jsonw_open(&s->json, '[');
    } else {
        bt_bench_pair_row(&s->text, &pair, true);
    }
    for (int pass = 0; pass < (s->o->json ? 1 : 2); pass++) {
        for (size_t i = n; i-- > 0;) {
            pair.name = cases[i].name;
            pair.a = samples + i * per_case;
            pair.b = pair.a + s->plan.n_rounds;
            if (s->o->json) {
                bt_bench_pair_json(&s->json, &pair);
            } else if (pass == 0) {
                bt_bench_pair_row(&s->text, &pair, false);
            } else {
                bt_bench_pair_line(&s->text, &pair);
            }
        }
    }
    if (s->o->json) {
        bt_jsonw_close(&s->json, ']');
    }
}

static bt_status run_compare(session *s, bt_err *err)
{
    const comparison cases[] = {
        {"decode", bt_bench_engine_decode, (int)s->o->input_len,
         (int)(s->o->output_len > 1 ? s->o->output_len : 128)},
        {"pp512", bt_bench_engine_prefill, 512, 1},
        {"pp128", bt_bench_engine_prefill, 128, 1},
    };
    bt_bench_command *peer;
    if (s->o->peer == NULL) {
        return bt_fail_param(err, BT_E_INVALID, "peer", "bench compare needs --peer COMMAND");
    }
    size_t per_case = 2 * (size_t)s->plan.n_rounds;
    double *samples = bt_mem_calloc(BT_MEM_BASE, BT_COUNT(cases) * per_case, sizeof *samples);
    if (samples == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for %d rounds", s->plan.n_rounds);
    }
    bt_status status = bt_bench_command_open(s->o->peer, &peer, err);
    if (status == BT_OK) {
        for (size_t i = 0; i < BT_COUNT(cases) && status == BT_OK; i++) {
            status = compare_one(s, peer, &cases[i], samples + i * per_case, err);
        }
        bt_bench_command_close(peer);
    }
    if (status == BT_OK) {
        report_pairs(s, cases, samples, BT_COUNT(cases));
    }
    bt_mem_free(samples);
    return status;
}

static bt_status run(bt_options *o, session *s, bt_err *err)
{
    betoken_options options;
    bool latency = o->bench == NULL || strcmp(o->bench, "latency") == 0;
    if (!latency && strcmp(o->bench, "compare") != 0) {
        return bt_fail(err, BT_E_INVALID,
                       "unknown benchmark \"%.60s\"; latency and compare are known", o->bench);
    }
    BT_TRY(bt_options_engine(o, &options, err));
    BT_TRY(open_engine(s, &options, err));
    s->machine = bt_bench_machine_of(options.threads > 0 ? options.threads : bt_cpu_threads());
    return latency ? run_latency(s, err) : run_compare(s, err);
}

int bt_cmd_bench(bt_options *o)
{
    session s = {.o = o, .plan = {.n_warm = (int)o->num_warm, .n_rounds = (int)o->num_iters}};
    bt_err err = {0};
    bt_buf_init(&s.text, BT_MEM_BASE, REPORT_MAX);
    bt_status status = run(o, &s, &err);
    if (status == BT_OK && o->json) {
        bt_jsonw_close(&s.json, '}');
        bt_buf_push_char(&s.text, '\n');
    }
    if (status == BT_OK && bt_buf_ok(&s.text) == BT_OK) {
        fwrite(s.text.p, 1, s.text.n, stdout);
        (void)fflush(stdout);
    } else if (status == BT_OK) {
        status = bt_fail(&err, bt_buf_ok(&s.text), "no memory for the report");
    }
    if (status != BT_OK) {
        fprintf(stderr, "betoken: %s\n", err.message);
    }
    betoken_engine_close(s.engine);
    bt_buf_deinit(&s.text);
    return status == BT_OK ? 0 : 1;
}
