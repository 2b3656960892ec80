/* SPDX-License-Identifier: MIT
 *
 * Goal: what a request or an option says is honoured or refused with the field's name, and memory that
 * runs out anywhere is an error, not a crash. Method: each field with values at and beyond its edges;
 * then opening and submitting again and again while the n-th allocation fails, for n = 1, 2, 3, … */
#include "harness.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

static const int32_t prompt[] = {40, 41, 42};

typedef struct refusal {
    const char *param;
    void (*change)(betoken_request *r);
} refusal;

static int32_t bad_ids[2], many_ids[65];
static betoken_text stops[17];
static char long_stop[1025];

static void no_prompt(betoken_request *r)
{
    r->prompt_token_ids = NULL;
}
static void empty_ids(betoken_request *r)
{
    r->n_prompt_token_ids = 0;
}
static void id_too_high(betoken_request *r)
{
    bad_ids[0] = 40;
    bad_ids[1] = 411; /* the model's vocabulary */
    r->prompt_token_ids = bad_ids;
    r->n_prompt_token_ids = 2;
}
static void negative_id(betoken_request *r)
{
    id_too_high(r);
    bad_ids[1] = -1;
}
static void not_utf8(betoken_request *r)
{
    no_prompt(r);
    r->prompt = (betoken_text){"a\xC3(b", 4};
}
static void empty_text(betoken_request *r)
{
    no_prompt(r);
    r->prompt = (betoken_text){"", 0};
}
static void negative_temperature(betoken_request *r)
{
    r->temperature = -0.5;
}
static void infinite_temperature(betoken_request *r)
{
    r->temperature = INFINITY;
}
static void top_p_zero(betoken_request *r)
{
    r->top_p = 0;
}
static void top_p_high(betoken_request *r)
{
    r->top_p = 1.01;
}
static void min_p_high(betoken_request *r)
{
    r->min_p = 1.5;
}
static void top_k_low(betoken_request *r)
{
    r->top_k = -2;
}
static void no_tokens(betoken_request *r)
{
    r->max_tokens = 0;
}
static void negative_tokens(betoken_request *r)
{
    r->max_tokens = -2;
}
static void too_many_tokens(betoken_request *r)
{
    r->max_tokens = 510; /* 3 + 510 > 512 */
}
static void absurd_tokens(betoken_request *r)
{
    r->max_tokens = INT64_MAX;
}
static void seventeen_stops(betoken_request *r)
{
    for (int i = 0; i < 17; i++) {
        stops[i] = (betoken_text){"x", 1};
    }
    r->stop = stops;
    r->n_stop = 17;
}
static void empty_stop(betoken_request *r)
{
    seventeen_stops(r);
    stops[1].n = 0;
    r->n_stop = 2;
}
static void endless_stop(betoken_request *r)
{
    seventeen_stops(r);
    memset(long_stop, 'x', sizeof long_stop);
    stops[0] = (betoken_text){long_stop, sizeof long_stop};
    r->n_stop = 1;
}
static void stop_id_too_high(betoken_request *r)
{
    id_too_high(r);
    r->prompt_token_ids = prompt;
    r->stop_token_ids = bad_ids;
    r->n_stop_token_ids = 2;
}
static void many_stop_ids(betoken_request *r)
{
    r->stop_token_ids = many_ids;
    r->n_stop_token_ids = 65;
}
static void many_logprobs(betoken_request *r)
{
    r->logprobs = 21;
}

static void fields_at_fault(void **state)
{
    (void)state;
    static const refusal refusals[] = {
        {"prompt", no_prompt},
        {"prompt", empty_ids},
        {"prompt", id_too_high},
        {"prompt", negative_id},
        {"prompt", not_utf8},
        {"prompt", empty_text},
        {"temperature", negative_temperature},
        {"temperature", infinite_temperature},
        {"top_p", top_p_zero},
        {"top_p", top_p_high},
        {"min_p", min_p_high},
        {"top_k", top_k_low},
        {"max_tokens", no_tokens},
        {"max_tokens", negative_tokens},
        {"max_tokens", too_many_tokens},
        {"max_tokens", absurd_tokens},
        {"stop", seventeen_stops},
        {"stop", empty_stop},
        {"stop", endless_stop},
        {"stop_token_ids", stop_id_too_high},
        {"stop_token_ids", many_stop_ids},
        {"logprobs", many_logprobs},
    };
    betoken_options o = options_for("llama-f32", NULL, 0);
    betoken_engine *e = open_engine(&o);
    betoken_stats stats;
    answer got;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        betoken_request r = request_for(prompt, 3, 8);
        betoken_stream *s = NULL;
        betoken_error error = {0};
        refusals[i].change(&r);
        betoken_code code = betoken_submit(e, &r, NULL, NULL, &s, &error);
        if (code != BETOKEN_INVALID && code != BETOKEN_TOO_LONG) {
            fail_msg("case %zu (%s): code %d", i, refusals[i].param, code);
        }
        assert_null(s);
        assert_string_equal(error.param, refusals[i].param);
        assert_int_equal(error.code, code);
        assert_true(error.message[0] != '\0' && strchr(error.message, '\n') == NULL);
        assert_int_equal(betoken_submit(e, &r, NULL, NULL, &s, NULL), code);
    }
    betoken_request r = request_for(prompt, 3, 509); /* just fits */
    ask(e, &r, &got);
    assert_int_equal(got.n_tokens, 509);
    wait_stats(e, is_idle, 0, &stats);
    assert_int_equal(stats.finished_length, 1); /* nothing of the refused was counted */
    assert_int_equal(stats.prompt_tokens, 3);
    betoken_engine_close(e);
}

static void options_at_fault(void **state)
{
    (void)state;
    const betoken_options good = options_for("llama-f32", "llama-small", 3);
    for (int i = 0; i < 15; i++) {
        betoken_options o = good;
        switch (i) {
        case 0:
            o.model = NULL;
            break;
        case 1:
            o.max_num_seqs = 0;
            break;
        case 2:
            o.max_num_seqs = 1 << 20;
            break;
        case 3:
            o.max_num_batched_tokens = 4;
            break; /* under max_num_seqs */
        case 4:
            o.max_num_batched_tokens = -1;
            break;
        case 5:
            o.num_speculative_tokens = 65;
            break;
        case 6:
            o.num_speculative_tokens = -1;
            break;
        case 7:
            o.max_model_len = 513;
            break;
        case 8:
            o.kv_cache_memory = 1;
            break;
        case 9:
            o.kv_cache_memory = UINT64_MAX;
            break;
        case 10:
            o.gpu_memory_utilization = NAN;
            break;
        case 11:
            o.gpu_memory_utilization = 1.5;
            break;
        case 12:
            o.threads = -1;
            break;
        case 13:
            o.chat_template = "{% if";
            break;
        case 14:
            o.speculative_model = "/nonexistent/draft";
            break;
        default:
            break;
        }
        betoken_engine *e = NULL;
        betoken_error error = {0};
        if (betoken_engine_open(&o, &e, &error) == BETOKEN_OK) {
            fail_msg("option %d was accepted", i);
        }
        assert_null(e);
        assert_true(error.message[0] != '\0' && strchr(error.message, '\n') == NULL);
    }
}

/* Style 30: the n-th allocation and all later ones fail, for growing n until opening succeeds. */
static void open_with_failing_memory(const betoken_options *o)
{
    size_t before[BT_MEM_TAG_COUNT];
    for (int t = 0; t < BT_MEM_TAG_COUNT; t++) {
        before[t] = bt_mem_used((bt_mem_tag)t);
    }
    betoken_engine *e = NULL;
    for (uint64_t n = 1; e == NULL; n += 1 + n / 100) {
        betoken_error error = {0};
        bt_mem_fail_after(n);
        betoken_code code = betoken_engine_open(o, &e, &error);
        bt_mem_fail_after(0);
        assert_true(n < 100000);
        if (code == BETOKEN_OK) {
            break;
        }
        if (code != BETOKEN_NO_MEMORY) {
            fail_msg("allocation %d: code %d, %s", (int)n, code, error.message);
        }
        assert_null(e);
        for (int t = 0; t < BT_MEM_TAG_COUNT; t++) {
            if (bt_mem_used((bt_mem_tag)t) != before[t]) {
                fail_msg("allocation %d: %s keeps memory", (int)n, bt_mem_tag_name((bt_mem_tag)t));
            }
        }
    }
    betoken_engine_close(e);
}

static void memory_runs_out_while_opening(void **state)
{
    (void)state;
    betoken_options o = options_for("chain", "chain-draft", 3);
    o.max_num_seqs = 2;
    o.threads = 1;
    open_with_failing_memory(&o);
    o.model = o.speculative_model = fixture("gguf-q8_0/model.gguf");
    o.acceptance = BETOKEN_ACCEPT_REJECTION;
    open_with_failing_memory(&o);
}

static void memory_runs_out_while_submitting(void **state)
{
    (void)state;
    betoken_options o = options_for("chain", "chain-draft", 3);
    o.chat_template = "{{ messages[0].content }}";
    betoken_engine *e = open_engine(&o);
    betoken_stats stats;
    static const char *const messages = "[{\"role\": \"user\", \"content\": \"hello world!\"}]";
    for (int form = 0; form < 3; form++) {
        const betoken_text stop = {"ld", 2};
        betoken_request r = request_for(form == 0 ? prompt : NULL, form == 0 ? 3 : 0, 20);
        r.prompt = form == 1 ? (betoken_text){"hello world!", 12} : (betoken_text){0};
        r.messages = form == 2 ? (betoken_text){messages, strlen(messages)} : (betoken_text){0};
        r.stop = &stop;
        r.n_stop = 1;
        r.logprobs = 2;
        betoken_code code = BETOKEN_NO_MEMORY;
        for (uint64_t n = 1; code != BETOKEN_OK; n++) {
            betoken_stream *s = NULL;
            betoken_error error = {0};
            bt_mem_fail_after(n);
            code = betoken_submit(e, &r, NULL, NULL, &s, &error);
            bt_mem_fail_after(0);
            assert_true(n < 10000);
            if (code != BETOKEN_OK && code != BETOKEN_NO_MEMORY) {
                fail_msg("form %d, allocation %d: code %d, %s", form, (int)n, code, error.message);
            }
            assert_int_equal(s != NULL, code == BETOKEN_OK);
            if (s != NULL) {
                answer got = {0};
                take_all(s, &got);
                assert_string_equal(got.text, "hello wor");
                betoken_stream_close(s);
            }
        }
    }
    wait_stats(e, is_idle, 0, &stats);
    assert_int_equal(stats.finished_stop, 3);
    betoken_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_at_fault),
        cmocka_unit_test(options_at_fault),
        cmocka_unit_test(memory_runs_out_while_opening),
        cmocka_unit_test(memory_runs_out_while_submitting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
