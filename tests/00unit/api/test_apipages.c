/* SPDX-License-Identifier: MIT
 *
 * Goal: routes, model cards, tokenize bodies and metrics. Method: tables; the metrics page is read
 * back line by line. */
#include "api/metrics.h"
#include "api/models.h"
#include "api/route.h"
#include "api/tokenize.h"

#include "fakeengine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_case_64_routes(void **state)
{
    (void)state;
    bt_str rest;
    const bt_api_route *chat = bt_api_route_find(BT_STR("/v1/chat/completions"), &rest);
    assert_non_null(chat);
    assert_true(bt_api_route_allows(chat, BT_STR("POST")));
    assert_false(bt_api_route_allows(chat, BT_STR("GET")));
    assert_false(bt_api_route_allows(chat, BT_STR("post")));
    assert_false(bt_api_route_allows(chat, BT_STR("")));
    assert_null(bt_api_route_find(BT_STR("/v1/nosuch"), &rest));
    assert_null(bt_api_route_find(BT_STR("/v1/models/"), &rest));
    assert_null(bt_api_route_find(BT_STR("/health/"), &rest));
    const bt_api_route *models = bt_api_route_find(BT_STR("/v1/models"), &rest);
    assert_true(bt_api_route_allows(models, BT_STR("HEAD")));
    const bt_api_route *card = bt_api_route_find(BT_STR("/v1/models/org/x.y"), &rest);
    assert_int_equal(card->endpoint, BT_ENDPOINT_MODEL);
    assert_true(bt_str_eqz(rest, "org/x.y"));
    const bt_api_route *ping = bt_api_route_find(BT_STR("/ping"), &rest);
    assert_true(bt_api_route_allows(ping, BT_STR("POST")) && ping->open);
}

static void test_percent(void **state)
{
    (void)state;
    const struct {
        const char *in, *out;
    } rows[] = {{"a%2Fb", "a/b"}, {"%7e%7E", "~~"}, {"x", "x"},    {"%", NULL},
                {"%4", NULL},     {"%zz", NULL},    {"a%41", "aA"}};
    for (size_t i = 0; i < BT_COUNT(rows); i++) {
        bt_buf out;
        bt_buf_init(&out, BT_MEM_TEXT, 64);
        bool ok = bt_api_percent_decode(bt_str_of(rows[i].in), &out);
        assert_int_equal(ok, rows[i].out != NULL);
        if (ok) {
            assert_true(bt_str_eqz(bt_buf_str(&out), rows[i].out));
        }
        bt_buf_deinit(&out);
    }
}

static void test_case_64_models(void **state)
{
    (void)state;
    const char *names[] = {"org/x.y", "alias"};
    bt_api_models models = {names, 2, 5, 64};
    bt_str found;
    bt_err err = {0};
    assert_int_equal(bt_api_models_find(&models, (bt_str){0}, &found, &err), BT_OK);
    assert_true(bt_str_eqz(found, "org/x.y"));
    assert_int_equal(bt_api_models_find(&models, BT_STR("alias"), &found, &err), BT_OK);
    assert_int_equal(bt_api_models_find(&models, BT_STR("nope"), &found, &err), BT_E_NOT_FOUND);
    assert_string_equal(err.param, "model");
    assert_non_null(strstr(err.message, "org/x.y, alias"));
    assert_int_equal(bt_api_models_find(&models, BT_STR(""), &found, &err), BT_E_NOT_FOUND);
    bt_buf out;
    bt_buf_init(&out, BT_MEM_TEXT, 1 << 16);
    bt_api_models_list(&models, &out);
    bt_json *json = NULL;
    assert_int_equal(bt_json_parse(bt_buf_str(&out), &json, &err), BT_OK);
    assert_int_equal(bt_json_count(bt_json_get(json, "data")), 2);
    bt_json_close(json);
    bt_buf_deinit(&out);
}

static void check_page(const char *body, const char *wanted)
{
    bt_api_tokenize t;
    bt_err err = {0};
    bt_buf out;
    int32_t ids[] = {256, 226};
    bt_buf_init(&out, BT_MEM_TEXT, 1 << 16);
    if (bt_api_tokenize_parse(bt_str_of(body), &t, &err) != BT_OK) {
        fail_msg("%s: %s", body, err.message);
    }
    bt_api_tokenize_body(&t, NULL, ids, 2, 64, &out);
    assert_string_equal(out.p, wanted);
    bt_api_tokenize_deinit(&t);
    bt_buf_deinit(&out);
}

static void test_tokenize(void **state)
{
    (void)state;
    check_page("{\"prompt\":\"x\"}",
               "{\"count\":2,\"max_model_len\":64,\"tokens\":[256,226],\"token_strs\":null}");
    check_page("{\"prompt\":\"x\",\"return_token_strs\":true}",
               "{\"count\":2,\"max_model_len\":64,\"tokens\":[256,226],\"token_strs\":[\"Once\","
               "\"\xEF\xBF\xBD\"]}");
    check_page("{\"content\":\"x\"}", "{\"tokens\":[256,226]}");
    check_page("{\"content\":\"x\",\"with_pieces\":true}",
               "{\"tokens\":[{\"id\":256,\"piece\":\"Once\"},{\"id\":226,\"piece\":[226]}]}");
    bt_api_tokenize t;
    bt_err err = {0};
    const char *bad[] = {
        "{}", "{\"prompt\":5}",    "{\"prompt\":\"x\",\"content\":\"y\"}",       "[]",
        "{:", "{\"messages\":[]}", "{\"content\":\"x\",\"parse_special\":false}"};
    for (size_t i = 0; i < BT_COUNT(bad); i++) {
        assert_int_equal(bt_api_tokenize_parse(bt_str_of(bad[i]), &t, &err), BT_E_INVALID);
    }
    assert_int_equal(bt_api_tokenize_parse(BT_STR("{\"content\":\"x\"}"), &t, &err), BT_OK);
    assert_int_equal(t.request.item[0].add_special_tokens, 0);
    bt_api_tokenize_deinit(&t);
    assert_int_equal(bt_api_tokenize_parse(BT_STR("{\"prompt\":\"x\"}"), &t, &err), BT_OK);
    assert_int_equal(t.request.item[0].add_special_tokens, -1);
    bt_api_tokenize_deinit(&t);
    assert_int_equal(bt_api_detokenize_parse(BT_STR("{\"tokens\":[1,2]}"), &t, &err), BT_OK);
    assert_int_equal(t.n_ids, 2);
    bt_api_tokenize_deinit(&t);
    assert_int_equal(bt_api_detokenize_parse(BT_STR("{\"tokens\":[-1]}"), &t, &err), BT_E_INVALID);
    assert_int_equal(bt_api_detokenize_parse(BT_STR("{}"), &t, &err), BT_E_INVALID);
}

/* Every sample has a family announced before it, names and labels are well-formed, and the counters
 * are the ones given. */
static void test_case_83_metrics(void **state)
{
    (void)state;
    betoken_stats stats = {.drafts = 3,
                           .draft_tokens = 12,
                           .accepted_tokens = 7,
                           .accepted_per_pos = {3, 2, 2, 0},
                           .generation_tokens = 10};
    stats.e2e_s =
        (betoken_histogram){.n_buckets = 2, .bound = {0.5, 1}, .count = {1, 2}, .n = 3, .sum = 4.5};
    betoken_info info = {.num_speculative_tokens = 4};
    bt_api_http_counts http = {.requests = 9};
    bt_buf out;
    bt_buf_init(&out, BT_MEM_TEXT, BT_API_METRICS_MAX);
    bt_api_metrics_body(&stats, &info, &http, "a\"b\\", &out);
    assert_int_equal(bt_buf_ok(&out), BT_OK);
    const char *label = "{model_name=\"a\\\"b\\\\\",engine=\"0\"";
    const struct {
        const char *name, *tail;
    } rows[] = {{"vllm:spec_decode_num_drafts_total", "} 3\n"},
                {"vllm:spec_decode_num_draft_tokens_total", "} 12\n"},
                {"vllm:spec_decode_num_accepted_tokens_total", "} 7\n"},
                {"vllm:spec_decode_num_accepted_tokens_per_pos_total", ",position=\"1\"} 2\n"},
                {"vllm:e2e_request_latency_seconds_bucket", ",le=\"+Inf\"} 3\n"},
                {"vllm:e2e_request_latency_seconds_bucket", ",le=\"0.5\"} 1\n"},
                {"vllm:generation_tokens_total", "} 10\n"}};
    for (size_t i = 0; i < BT_COUNT(rows); i++) {
        char line[256];
        snprintf(line, sizeof line, "%s%s%s", rows[i].name, label, rows[i].tail);
        assert_non_null(strstr(out.p, line));
    }
    char family[128] = "";
    for (char *line = strtok(out.p, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (strncmp(line, "# TYPE ", 7) == 0) {
            assert_int_equal(sscanf(line, "# TYPE %127s", family), 1);
        } else if (line[0] != '#') {
            assert_int_equal(strncmp(line, family, strlen(family)), 0);
        }
    }
    bt_buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_case_64_routes),  cmocka_unit_test(test_percent),
        cmocka_unit_test(test_case_64_models),  cmocka_unit_test(test_tokenize),
        cmocka_unit_test(test_case_83_metrics),
    };
    return cmocka_run_group_tests_name("apipages", tests, NULL, NULL);
}
