/* SPDX-License-Identifier: MIT
 *
 * Goal: a request body becomes engine requests, or an error that names the field. Method: tables of
 * bodies with the field at fault; every case row as it stands in the collection of cases. */
#include "api/apiparams.h"
#include "api/apirequest.h"

#include "fakeengine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bt_status parse(bt_api_kind kind, const char *body, bt_api_request *out, bt_err *err)
{
    return bt_api_parse(kind, bt_str_of(body), out, err);
}

static void accepts(bt_api_kind kind, const char *body)
{
    bt_api_request r;
    bt_err err = {0};
    if (parse(kind, body, &r, &err) != BT_OK) {
        fail_msg("%s: %s", body, err.message);
    }
    bt_api_request_deinit(&r);
}

static void refuses(bt_api_kind kind, const char *body, const char *param)
{
    bt_api_request r;
    bt_err err = {0};
    bt_status status = parse(kind, body, &r, &err);
    if (status != BT_E_INVALID || strcmp(err.param, param) != 0 || err.message[0] == '\0' ||
        strchr(err.message, '\n') != NULL) {
        fail_msg("%s: status %s, param '%s', message '%s'", body, bt_status_name(status), err.param,
                 err.message);
    }
}

static void field_with(const char *field, const char *value, bool ok)
{
    char body[256];
    snprintf(body, sizeof body, "{\"prompt\":\"x\",\"%s\":%s}", field, value);
    ok ? accepts(BT_API_COMPLETION, body) : refuses(BT_API_COMPLETION, body, field);
}

static void test_defaults(void **state)
{
    (void)state;
    bt_api_request r;
    assert_int_equal(parse(BT_API_COMPLETION, "{\"prompt\":\"a\\u0000b\"}", &r, NULL), BT_OK);
    assert_int_equal(r.n_items, 1);
    assert_int_equal(r.item[0].prompt.n, 3);
    assert_memory_equal(r.item[0].prompt.p, "a\0b", 3);
    assert_int_equal(r.item[0].max_tokens, 16);
    assert_true(isnan(r.item[0].temperature));
    assert_int_equal(r.item[0].top_k, BETOKEN_UNSET_INT);
    assert_int_equal(r.item[0].logprobs, -1);
    assert_null(r.model.p);
    assert_false(r.stream || r.max_tokens_given);
    bt_api_request_deinit(&r);
    assert_int_equal(parse(BT_API_CHAT, "{\"messages\":[{}],\"max_tokens\":null}", &r, NULL),
                     BT_OK);
    assert_int_equal(r.item[0].max_tokens, -1);
    assert_string_equal(r.item[0].messages.p, "[{}]");
    bt_api_request_deinit(&r);
}

static void test_all_fields(void **state)
{
    (void)state;
    bt_api_request r;
    const char *body =
        "{\"model\":\"org/"
        "x.y\",\"prompt\":[[1,2],[3]],\"max_tokens\":5,\"max_completion_tokens\":7,"
        "\"temperature\":0.5,\"top_p\":0.9,\"top_k\":-1,\"min_p\":0.1,\"seed\":-3,\"stop\":[\"a\","
        "\"\\u0000\"],\"stop_token_ids\":[4],\"ignore_eos\":true,\"stream\":true,"
        "\"stream_options\":{\"include_usage\":true,\"odd\":1},\"logprobs\":0,"
        "\"return_token_ids\":true,\"add_special_tokens\":false,\"user\":\"me\",\"nosuch\":[1]}";
    bt_err err = {0};
    assert_int_equal(parse(BT_API_COMPLETION, body, &r, &err), BT_OK);
    assert_true(bt_str_eqz(r.model, "org/x.y"));
    assert_int_equal(r.n_items, 2);
    assert_int_equal(r.item[0].n_prompt_token_ids, 2);
    assert_int_equal(r.item[1].prompt_token_ids[0], 3);
    for (size_t i = 0; i < 2; i++) {
        const betoken_request *q = &r.item[i];
        assert_int_equal(q->max_tokens, 7);
        assert_true(q->temperature == 0.5 && q->top_p == 0.9 && q->min_p == 0.1);
        assert_int_equal(q->top_k, -1);
        assert_true(q->seed_given && q->seed == (uint64_t)-3);
        assert_int_equal(q->n_stop, 2);
        assert_int_equal(q->stop[1].n, 1);
        assert_int_equal(q->stop_token_ids[0], 4);
        assert_int_equal(q->logprobs, 0);
        assert_int_equal(q->add_special_tokens, 0);
        assert_true(q->ignore_eos);
    }
    assert_true(r.stream && r.include_usage && r.return_token_ids && r.max_tokens_given);
    assert_int_equal(r.n_unknown, 2);
    bt_api_request_deinit(&r);
}

static void test_case_22_temperature_range(void **state)
{
    (void)state;
    const char *good[] = {"0", "1e-12", "1e-6", "0.001", "2", "2.0", "null"};
    const char *bad[] = {"-1", "2.1", "\"x\"", "true", "[]", "{}", "1e30"};
    for (size_t i = 0; i < BT_COUNT(good); i++) {
        field_with("temperature", good[i], true);
    }
    for (size_t i = 0; i < BT_COUNT(bad); i++) {
        field_with("temperature", bad[i], false);
    }
    refuses(BT_API_COMPLETION, "{\"prompt\":\"x\",\"temperature\":NaN}", "");
    field_with("top_p", "1e-4", true);
}

static void test_case_23_top_k(void **state)
{
    (void)state;
    field_with("top_k", "0", true);
    field_with("top_k", "-1", true);
    field_with("top_k", "1", true);
    field_with("top_k", "100000", true);
    field_with("top_k", "-2", false);
    field_with("top_k", "\"5\"", false);
    field_with("top_k", "1.5", false);
    field_with("top_p", "0", false);
    field_with("top_p", "1.1", false);
    field_with("top_p", "1", true);
    field_with("min_p", "0", true);
    field_with("min_p", "-0.1", false);
}

static void test_case_31_prompt_forms(void **state)
{
    (void)state;
    const char *bad[] = {"[-1]",      "[[-1]]",    "[4294967294]", "[1.5]",  "[true]",
                         "[\"a\",1]", "[1,\"a\"]", "[]",           "[[]]",   "5",
                         "{}",        "[[1],2]",   "[[[1]]]",      "[null]", "[[1],[]]"};
    const char *good[] = {"[1,2,3]", "[[1,2],[3]]", "[\"a\",\"b\"]", "\"\""};
    for (size_t i = 0; i < BT_COUNT(bad) + BT_COUNT(good); i++) {
        char body[128];
        bool is_good = i >= BT_COUNT(bad);
        snprintf(body, sizeof body, "{\"prompt\":%s}", is_good ? good[i - BT_COUNT(bad)] : bad[i]);
        is_good ? accepts(BT_API_COMPLETION, body) : refuses(BT_API_COMPLETION, body, "prompt");
    }
    bt_api_request r;
    bt_err err = {0};
    assert_int_equal(parse(BT_API_COMPLETION, "{\"prompt\":[[1],[2,4294967294]]}", &r, &err),
                     BT_E_INVALID);
    assert_non_null(strstr(err.message, "prompt[1][1] is 4294967294"));
    refuses(BT_API_COMPLETION, "{}", "prompt");
    refuses(BT_API_COMPLETION, "{\"prompt\":null}", "prompt");
}

static void test_case_37_stream_options(void **state)
{
    (void)state;
    refuses(BT_API_COMPLETION, "{\"prompt\":\"x\",\"stream_options\":{\"include_usage\":true}}",
            "stream_options");
    refuses(BT_API_COMPLETION,
            "{\"prompt\":\"x\",\"stream\":true,\"stream_options\":{\"include_usage\":\"x\"}}",
            "stream_options");
    accepts(BT_API_COMPLETION,
            "{\"prompt\":\"x\",\"stream\":true,\"stream_options\":{\"include_usage\":false}}");
    accepts(BT_API_COMPLETION, "{\"prompt\":\"x\",\"stream_options\":null}");
}

static void test_case_50_messages(void **state)
{
    (void)state;
    refuses(BT_API_CHAT, "{}", "messages");
    refuses(BT_API_CHAT, "{\"messages\":[]}", "messages");
    refuses(BT_API_CHAT, "{\"messages\":null}", "messages");
    refuses(BT_API_CHAT, "{\"messages\":\"x\"}", "messages");
    accepts(BT_API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}]}");
}

/* Each known field with each kind of value: accepted, or refused by its name. */
static void test_case_61_each_field_each_value(void **state)
{
    (void)state;
    const char *fields[] = {"max_tokens",  "temperature",     "top_p",
                            "top_k",       "min_p",           "seed",
                            "stop",        "stop_token_ids",  "ignore_eos",
                            "stream",      "logprobs",        "return_token_ids",
                            "n",           "best_of",         "echo",
                            "suffix",      "logit_bias",      "presence_penalty",
                            "user",        "response_format", "guided_json",
                            "min_tokens",  "model",           "stream_options",
                            "speculation", "grammar",         "prompt_logprobs"};
    const char *values[] = {"null", "true", "\"x\"", "[]", "{}", "-1", "1e30", "[[]]", "0.5"};
    for (size_t i = 0; i < BT_COUNT(fields); i++) {
        for (size_t k = 0; k < BT_COUNT(values); k++) {
            char body[256];
            snprintf(body, sizeof body, "{\"prompt\":\"x\",\"%s\":%s}", fields[i], values[k]);
            bt_api_request r;
            bt_err err = {0};
            bt_status status = parse(BT_API_COMPLETION, body, &r, &err);
            if (k == 0) {
                assert_int_equal(status, BT_OK);
            }
            if (status == BT_OK) {
                bt_api_request_deinit(&r);
            } else {
                assert_int_equal(status, BT_E_INVALID);
                assert_string_equal(err.param, fields[i]);
                assert_non_null(strstr(err.message, fields[i]));
            }
        }
    }
}

static void test_case_61_malformed_bodies(void **state)
{
    (void)state;
    const char *bodies[] = {"{:",
                            "",
                            "[]",
                            "null",
                            "{\"a\":1}x",
                            "\xEF\xBB\xBF{}",
                            "{\"a\":\"\xFF\"}",
                            "{\"a\":NaN}",
                            "{\"a\":1e999}",
                            "{\"prompt\":\"x\",\"prompt\":\"y\"}"};
    for (size_t i = 0; i < BT_COUNT(bodies); i++) {
        refuses(BT_API_COMPLETION, bodies[i], "");
        refuses(BT_API_CHAT, bodies[i], "");
    }
}

static void test_case_62_depth(void **state)
{
    (void)state;
    const int depths[] = {60, 70, 10000, 1000000};
    for (size_t i = 0; i < BT_COUNT(depths); i++) {
        size_t n = (size_t)depths[i];
        char *body = malloc(2 * n + 64);
        assert_non_null(body);
        size_t at = (size_t)sprintf(body, "{\"prompt\":\"x\",\"ignored\":");
        memset(body + at, '[', n);
        memset(body + at + n, ']', n);
        strcpy(body + at + 2 * n, "}");
        if (i == 0) {
            accepts(BT_API_COMPLETION, body);
        } else {
            refuses(BT_API_COMPLETION, body, "");
        }
        free(body);
    }
}

static void test_case_71_text_and_stops(void **state)
{
    (void)state;
    field_with("stop", "\"\"", false);
    field_with("stop", "[\"\"]", false);
    field_with("stop", "[\"a\",\"\"]", false);
    field_with("stop", "[1]", false);
    field_with("stop", "[]", true);
    field_with("stop", "null", true);
    field_with("stop", "\"a\\u0000b\"", true);
    char body[1024] = "{\"prompt\":\"x\",\"stop\":[\"a\"";
    for (int i = 0; i < 99; i++) {
        strcat(body, ",\"a\"");
    }
    strcat(body, "]}");
    refuses(BT_API_COMPLETION, body, "stop");
    accepts(BT_API_COMPLETION, "{\"prompt\":\"\\ud83d\\ude00\"}");
    bt_api_request r;
    bt_err err = {0};
    /* A lone surrogate is an error of the text, never a crash. */
    assert_int_equal(parse(BT_API_COMPLETION, "{\"prompt\":\"\\ud83d\"}", &r, &err), BT_E_INVALID);
    assert_int_equal(parse(BT_API_COMPLETION, "{\"prompt\":\"\\ude00\\ud83d\"}", &r, &err),
                     BT_E_INVALID);
}

static void test_neutral_values(void **state)
{
    (void)state;
    accepts(BT_API_CHAT,
            "{\"messages\":[{}],\"n\":1,\"presence_penalty\":0,\"frequency_penalty\":0.0,"
            "\"repetition_penalty\":1.0,\"logit_bias\":{},\"tools\":[],\"tool_choice\":\"none\","
            "\"response_format\":{\"type\":\"text\"},\"logprobs\":false,\"top_logprobs\":0,"
            "\"best_of\":1,\"echo\":false,\"parallel_tool_calls\":true,\"service_tier\":\"auto\"}");
    refuses(BT_API_CHAT, "{\"messages\":[{}],\"n\":2}", "n");
    refuses(BT_API_CHAT, "{\"messages\":[{}],\"n\":0}", "n");
    refuses(BT_API_CHAT, "{\"messages\":[{}],\"tools\":[{}]}", "tools");
    refuses(BT_API_CHAT, "{\"messages\":[{}],\"response_format\":{\"type\":\"json_object\"}}",
            "response_format");
    refuses(BT_API_CHAT, "{\"messages\":[{}],\"top_logprobs\":2}", "top_logprobs");
    refuses(BT_API_CHAT, "{\"messages\":[{}],\"logprobs\":3}", "logprobs");
}

static void test_offline(void **state)
{
    (void)state;
    bt_json *json = NULL;
    bt_api_request r;
    const char *text = "{\"prompt_token_ids\":[5,6],\"logprobs\":3,\"return_drafts\":true}";
    assert_int_equal(bt_json_parse(bt_str_of(text), &json, NULL), BT_OK);
    assert_int_equal(bt_api_offline_parse(json, &r, NULL), BT_OK);
    bt_json_close(json);
    assert_int_equal(r.n_items, 1);
    assert_int_equal(r.item[0].prompt_token_ids[1], 6);
    assert_int_equal(r.item[0].logprobs, 3);
    assert_true(r.item[0].return_drafts);
    assert_int_equal(r.item[0].max_tokens, -1);
    bt_api_request_deinit(&r);
    refuses(BT_API_OFFLINE, "{\"prompt\":\"x\",\"messages\":[{}]}", "prompt");
    refuses(BT_API_OFFLINE, "{\"prompt_token_ids\":[\"x\"]}", "prompt_token_ids");
}

/* Every allocation in turn fails: an error, no leak, no crash. */
static void test_no_memory(void **state)
{
    (void)state;
    const char *body = "{\"model\":\"m\",\"prompt\":[\"a\",\"b\"],\"stop\":[\"x\"],"
                       "\"stop_token_ids\":[1]}";
    for (uint64_t n = 1; n < 64; n++) {
        bt_api_request r;
        bt_err err = {0};
        bt_mem_fail_after(n);
        bt_status status = parse(BT_API_COMPLETION, body, &r, &err);
        bt_mem_fail_after(0);
        if (status == BT_OK) {
            bt_api_request_deinit(&r);
            return;
        }
    }
    fail_msg("it never succeeded");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_all_fields),
        cmocka_unit_test(test_case_22_temperature_range),
        cmocka_unit_test(test_case_23_top_k),
        cmocka_unit_test(test_case_31_prompt_forms),
        cmocka_unit_test(test_case_37_stream_options),
        cmocka_unit_test(test_case_50_messages),
        cmocka_unit_test(test_case_61_each_field_each_value),
        cmocka_unit_test(test_case_61_malformed_bodies),
        cmocka_unit_test(test_case_62_depth),
        cmocka_unit_test(test_case_71_text_and_stops),
        cmocka_unit_test(test_neutral_values),
        cmocka_unit_test(test_offline),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("apirequest", tests, NULL, NULL);
}
