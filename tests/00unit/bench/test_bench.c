/* SPDX-License-Identifier: MIT
 *
 * Goal: cases take turns, the figures of pairs are right, a command's words and failures are
 * reported, reports are JSON. Method: recorded orders, known samples, small shell programs. Speeds
 * themselves are not asserted: the machine is shared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "bench/command.h"
#include "bench/compare.h"
#include "bench/report.h"

#include <string.h>

typedef struct record {
    char **end; /* of the string of calls */
    char name;
    double value; /* at round 0; grows by 1 a round */
} record;

static bt_status note(void *ctx, int round, double *value, bt_err *err)
{
    record *r = ctx;
    *(*r->end)++ = r->name;
    if (r->value < 0) {
        return bt_fail(err, BT_E_IO, "broken");
    }
    *value = r->value + round;
    return BT_OK;
}

static void cases_take_turns(void **state)
{
    (void)state;
    char calls[32] = "", *end = calls;
    record a = {&end, 'a', 10}, b = {&end, 'b', 20};
    bt_bench_case cases[] = {{"first", note, &a}, {"second", note, &b}};
    double samples[6];
    bt_err err = {0};
    assert_int_equal(bt_bench_run(cases, 2, (bt_bench_plan){1, 3}, samples, &err), BT_OK);
    assert_string_equal(calls, "abababab");
    const double expected[] = {10, 11, 12, 20, 21, 22};
    assert_memory_equal(samples, expected, sizeof expected);

    b.value = -1;
    assert_int_equal(bt_bench_run(cases, 2, (bt_bench_plan){0, 3}, samples, &err), BT_E_IO);
    assert_string_equal(err.message, "second: broken");
    b.value = 0; /* a rate of 0 would make ratios meaningless */
    assert_int_equal(bt_bench_run(cases, 2, (bt_bench_plan){0, 3}, samples, &err), BT_E_INVALID);
}

static void figures_of_pairs(void **state)
{
    (void)state;
    const double a[] = {3, 1, 2, 8, 4}, b[] = {2, 2, 2, 2, 2};
    bt_bench_stat s = bt_bench_stat_of(a, 5);
    assert_true(s.median == 3 && s.min == 1 && s.max == 8 && s.low == 2 && s.high == 4);
    assert_true(a[0] == 3 && a[3] == 8);
    bt_bench_ratio r = bt_bench_ratio_of(a, b, 5);
    assert_true(r.of_medians == 1.5 && r.of_bests == 4 && r.pairs.min == 0.5 && r.pairs.max == 4);
    /* Drift that both sides share leaves the ratio of pairs alone. */
    const double slow[] = {10, 5, 2}, twice[] = {20, 10, 4};
    r = bt_bench_ratio_of(twice, slow, 3);
    assert_true(r.pairs.min == 2 && r.pairs.max == 2 && r.of_medians == 2);
}

static bt_status ask_once(const char *program, double *value, int64_t timeout_ns, bt_err *err)
{
    bt_bench_command *command;
    assert_int_equal(bt_bench_command_open(program, &command, err), BT_OK);
    bt_status status = bt_bench_command_ask(command, "decode 4 8", timeout_ns, value, err);
    bt_bench_command_close(command);
    return status;
}

static void command_answers(void **state)
{
    (void)state;
    bt_bench_command *command;
    bt_err err = {0};
    double value = 0;
    assert_int_equal(bt_bench_command_open("while read -r what n m; do echo \"$n.5 $what\"; done",
                                           &command, &err),
                     BT_OK);
    for (int i = 0; i < 3; i++) {
        bt_bench_question q = {command, i == 1 ? "decode 7 9" : "prefill 3"};
        assert_int_equal(bt_bench_command_run(&q, i, &value, &err), BT_OK);
        assert_true(value == (i == 1 ? 7.5 : 3.5));
    }
    bt_bench_command_close(command);
    bt_bench_command_close(NULL);
}

static void command_failures(void **state)
{
    (void)state;
    bt_err err = {0};
    double value = 42;
    int64_t second = BT_NS_PER_S;
    assert_int_equal(ask_once("read -r x; echo no model", &value, second, &err), BT_E_FORMAT);
    assert_non_null(strstr(err.message, "no model"));
    assert_int_equal(ask_once("read -r x; echo nan", &value, second, &err), BT_E_FORMAT);
    assert_int_equal(ask_once("read -r x; echo 12abc", &value, second, &err), BT_E_FORMAT);
    assert_int_equal(ask_once("exit 3", &value, second, &err), BT_E_IO);
    assert_int_equal(ask_once("exec cat >/dev/null", &value, second / 20, &err), BT_E_IO);
    assert_int_equal(
        ask_once("read -r x; head -c 5000 /dev/zero | tr '\\0' 1", &value, second, &err),
        BT_E_FORMAT);
    assert_true(value == 42);
}

/* A stand-in for the engine: 3 ids for any text; an answer's tokens take 10 ms each, the first one
 * 40 ms after a wait of 5. It keeps the first id of each prompt. */
static struct {
    int32_t first_id[8];
    int n_asked;
    betoken_usage usage;
    bool is_over, refuses;
} fake;

void betoken_engine_info(const betoken_engine *engine, betoken_info *info)
{
    (void)engine;
    *info = (betoken_info){.max_model_len = 100};
}

void betoken_request_init(betoken_request *request)
{
    *request = (betoken_request){.temperature = 1, .max_tokens = -1};
}

betoken_code betoken_tokenize(betoken_engine *engine, const betoken_request *request, int32_t **ids,
                              size_t *n, betoken_error *error)
{
    static int32_t three[] = {5, 6, 7};
    (void)engine;
    (void)error;
    *n = request->prompt.n > 0 ? 3 : 0;
    *ids = three;
    return BETOKEN_OK;
}

void betoken_free(void *memory)
{
    (void)memory;
}

betoken_code betoken_submit(betoken_engine *engine, const betoken_request *r, betoken_wake *wake,
                            void *wake_ctx, betoken_stream **stream, betoken_error *error)
{
    (void)engine;
    (void)wake;
    (void)wake_ctx;
    if (fake.refuses) {
        *error = (betoken_error){.code = BETOKEN_BUSY, .message = "full"};
        return error->code;
    }
    assert_true(r->ignore_eos && r->temperature <= 0 && fake.n_asked < 8);
    fake.first_id[fake.n_asked++] = r->prompt_token_ids[0];
    int64_t ms = 1000000;
    fake.usage = (betoken_usage){.prompt_tokens = (int)r->n_prompt_token_ids,
                                 .completion_tokens = (int)r->max_tokens,
                                 .queue_ns = 5 * ms,
                                 .first_token_ns = 45 * ms,
                                 .total_ns = (45 + 10 * (r->max_tokens - 1)) * ms};
    fake.is_over = false;
    *stream = NULL;
    return BETOKEN_OK;
}

bool betoken_stream_wait(betoken_stream *stream, int64_t timeout_ns)
{
    (void)stream;
    (void)timeout_ns;
    return !fake.is_over;
}

bool betoken_stream_next(betoken_stream *stream, betoken_event *event)
{
    (void)stream;
    *event = (betoken_event){.type = BETOKEN_EVENT_DONE, .usage = fake.usage};
    fake.is_over = true;
    return true;
}

void betoken_stream_close(betoken_stream *stream)
{
    (void)stream;
}

static void engine_rates(void **state)
{
    (void)state;
    bt_bench_engine e;
    bt_err err = {0};
    double value = 0;
    assert_int_equal(bt_bench_engine_init(&e, NULL, NULL, 8, 93, &err), BT_E_INVALID);
    assert_int_equal(bt_bench_engine_init(&e, NULL, "", 8, 11, &err), BT_E_INVALID);
    assert_int_equal(bt_bench_engine_init(&e, NULL, NULL, 8, 11, &err), BT_OK);
    assert_int_equal(bt_bench_engine_decode(&e, 0, &value, &err), BT_OK);
    assert_true(value > 99.9 && value < 100.1); /* the wait and the prompt do not count */
    assert_int_equal(bt_bench_engine_prefill(&e, 0, &value, &err), BT_OK);
    assert_true(value > 199.9 && value < 200.1); /* 8 tokens in 40 ms */
    assert_true(fake.first_id[0] == 5 && fake.first_id[1] == 6);
    fake.refuses = true;
    assert_int_equal(bt_bench_engine_decode(&e, 0, &value, &err), BT_E_INVALID);
    assert_string_equal(err.message, "full");
    bt_bench_engine_deinit(&e);
}

/* A report of two answers: 100 and 300 tokens a second, of 3 and 1 tokens a step. */
static bt_bench_latency example(const bt_bench_answer answers[2], const bt_ceilings *ceilings)
{
    return (bt_bench_latency){.model = "a \"model\"",
                              .n_prompt = 4,
                              .n_output = 8,
                              .weight_bytes = 50000000,
                              .answer = answers,
                              .n = 2,
                              .ceilings = ceilings};
}

static void reports(void **state)
{
    (void)state;
    const bt_bench_answer answers[2] = {
        {.first_token_ms = 1, .prefill_tok_s = 9, .decode_tok_s = 100, .n_tokens = 30, .steps = 10},
        {.first_token_ms = 3,
         .prefill_tok_s = 9,
         .decode_tok_s = 300,
         .n_tokens = 30,
         .steps = 20}};
    const bt_ceilings ceilings = {.n_threads = 2, .bytes = 1 << 20, .read_all_gbs = 10};
    bt_bench_latency l = example(answers, &ceilings);
    /* 200 tokens a second at 2 tokens a step: 100 passes of 50 MB out of 10 GB a second. */
    assert_true(bt_bench_bandwidth_share(&l) == 0.5);

    const double a[] = {2, 4, 6}, b[] = {1, 2, 3};
    bt_bench_pair pair = {"decode", "betoken", "other", a, b, 3};
    bt_bench_machine machine = bt_bench_machine_of(2);
    bt_buf buf;
    bt_buf_init(&buf, BT_MEM_BASE, 1 << 20);
    bt_jsonw w;
    bt_jsonw_init(&w, &buf);
    bt_jsonw_open(&w, '{');
    bt_jsonw_key(&w, "machine");
    bt_bench_machine_json(&w, &machine);
    bt_jsonw_key(&w, "pair");
    bt_bench_pair_json(&w, &pair);
    bt_bench_latency_json(&w, &l);
    bt_jsonw_close(&w, '}');
    bt_json *root;
    bt_err err = {0};
    assert_int_equal(bt_json_parse(bt_buf_str(&buf), &root, &err), BT_OK);
    const bt_json *ratio = bt_json_get(bt_json_get(root, "pair"), "ratio");
    assert_true(bt_json_real(bt_json_get(ratio, "of_medians")) == 2);
    assert_true(bt_json_real(bt_json_get(root, "ms_per_token")) == 5);
    bt_json_close(root);

    bt_buf_clear(&buf);
    bt_bench_pair_line(&buf, &pair);
    assert_string_equal(buf.p, "decode: betoken 4.0 tok/s, other 2.0 tok/s, ratio 2.00 "
                               "(pairs 2.00…2.00)\n");
    bt_bench_machine_text(&buf, &machine);
    bt_bench_latency_text(&buf, &l);
    bt_bench_pair_row(&buf, &pair, true);
    bt_bench_pair_row(&buf, &pair, false);
    assert_int_equal(bt_buf_ok(&buf), BT_OK);
    bt_buf_deinit(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_take_turns), cmocka_unit_test(figures_of_pairs),
        cmocka_unit_test(command_answers),  cmocka_unit_test(command_failures),
        cmocka_unit_test(engine_rates),     cmocka_unit_test(reports),
    };
    return cmocka_run_group_tests_name("bench", tests, NULL, NULL);
}
