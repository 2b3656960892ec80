/* SPDX-License-Identifier: MIT
 *
 * Goal: events become answers in which the stream, joined, equals the whole; roles, reasons, usage
 * and token ids stand where clients look for them. Method: hand-made events, cut into chunks at
 * random places; the output is read back by the JSON parser. */
#include "api/apierror.h"
#include "api/reply.h"
#include "base/rng.h"

#include "fakeengine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct script {
    betoken_event event[16];
    int n;
} script;

static betoken_event token(int32_t id, const char *text)
{
    static const betoken_logprob top[2] = {{256, -0.5}, {226, -INFINITY}};
    betoken_event e = {.type = BETOKEN_EVENT_TOKEN, .token = id, .n = (int32_t)strlen(text)};
    memcpy(e.u.text, text, strlen(text));
    e.logprob = -0.25;
    e.n_top = 2;
    e.top = top;
    return e;
}

static script a_script(betoken_finish finish, int stop_idx, int stop_token)
{
    script s = {.n = 0};
    s.event[s.n++] = (betoken_event){.type = BETOKEN_EVENT_STARTED};
    s.event[s.n++] = token(256, "Once");
    s.event[s.n++] = token(257, "");
    s.event[s.n++] = token(226, " upon\n\"");
    s.event[s.n++] = (betoken_event){.type = BETOKEN_EVENT_TEXT, .n = 3, .u.text = "\xE2\x82\xAC"};
    s.event[s.n++] = (betoken_event){
        .type = BETOKEN_EVENT_DONE,
        .finish = finish,
        .stop_idx = stop_idx,
        .stop_token = stop_token,
        .usage = {
            .prompt_tokens = 5, .completion_tokens = 3, .drafted = 4, .accepted = 1, .steps = 2}};
    return s;
}

typedef struct answer {
    bt_api_request request;
    bt_api_reply reply;
    bt_buf out;
} answer;

static void open_answer(answer *a, bt_api_kind kind, const char *body)
{
    bt_err err = {0};
    assert_int_equal(bt_api_parse(kind, bt_str_of(body), &a->request, &err), BT_OK);
    assert_int_equal(bt_api_reply_open(&a->reply, &a->request, NULL, BT_STR("tiny"), 7, &err),
                     BT_OK);
    bt_buf_init(&a->out, BT_MEM_TEXT, 1 << 20);
}

static void close_answer(answer *a)
{
    bt_buf_deinit(&a->out);
    bt_api_reply_close(&a->reply);
    bt_api_request_deinit(&a->request);
}

/* Feeds the script to every choice; in a stream a chunk is taken after an event with chance 1/2. */
static void play(answer *a, const script *s, uint64_t seed)
{
    uint64_t rng = seed;
    for (int i = 0; i < s->n; i++) {
        for (size_t c = 0; c < a->reply.n_choices; c++) {
            assert_int_equal(bt_api_reply_event(&a->reply, c, &s->event[i]), BT_OK);
            if (a->request.stream && (bt_rng_next(&rng) & 1) != 0) {
                bt_api_reply_chunk(&a->reply, c, &a->out);
            }
        }
    }
    assert_true(bt_api_reply_is_done(&a->reply));
    if (!a->request.stream) {
        bt_api_reply_body(&a->reply, &a->out);
        return;
    }
    for (size_t c = 0; c < a->reply.n_choices; c++) {
        bt_api_reply_chunk(&a->reply, c, &a->out);
        bt_api_reply_chunk(&a->reply, c, &a->out);
    }
    bt_api_reply_end(&a->reply, &a->out);
}

static bt_json *read_json(bt_str text)
{
    bt_json *json = NULL;
    bt_err err = {0};
    if (bt_json_parse(text, &json, &err) != BT_OK) {
        fail_msg("%s in %.*s", err.message, (int)text.n, text.p);
    }
    return json;
}

static const bt_json *at(const bt_json *json, const char *a, const char *b)
{
    const bt_json *v = bt_json_get(json, a);
    assert_non_null(v);
    if (b != NULL && bt_json_kind_of(v) == BT_JSON_ARRAY) {
        v = bt_json_get(bt_json_at(v, 0), b);
    } else if (b != NULL) {
        v = bt_json_get(v, b);
    }
    return v;
}

/* What a stream says, joined. */
typedef struct stream_sum {
    bt_buf text[2];
    int n_roles[2], n_finish[2], n_usage, n_done, n_ids, n_logprobs;
    char finish[16];
} stream_sum;

static void sum_choice(stream_sum *sum, const bt_json *choice)
{
    size_t idx = (size_t)bt_json_int(bt_json_get(choice, "index"));
    const bt_json *delta = bt_json_get(choice, "delta");
    const bt_json *text =
        delta != NULL ? bt_json_get(delta, "content") : bt_json_get(choice, "text");
    const bt_json *finish = bt_json_get(choice, "finish_reason");
    const bt_json *ids = bt_json_get(choice, "token_ids");
    const bt_json *lp = bt_json_get(choice, "logprobs");
    assert_int_equal(sum->n_finish[idx], 0); /* nothing after the last chunk */
    if (text != NULL) {
        bt_buf_push_str(&sum->text[idx], bt_json_str(text));
    }
    sum->n_roles[idx] += delta != NULL && bt_json_get(delta, "role") != NULL;
    if (bt_json_kind_of(finish) == BT_JSON_STRING) {
        sum->n_finish[idx]++;
        snprintf(sum->finish, sizeof sum->finish, "%.*s", (int)bt_json_str(finish).n,
                 bt_json_str(finish).p);
        if (delta != NULL) {
            assert_int_equal(bt_json_count(delta), 0);
        }
    }
    sum->n_ids += ids != NULL ? (int)bt_json_count(ids) : 0;
    if (bt_json_kind_of(lp) == BT_JSON_OBJECT) {
        const bt_json *list = bt_json_get(lp, delta != NULL ? "content" : "tokens");
        sum->n_logprobs += (int)bt_json_count(list);
    }
}

static void sum_stream(const bt_buf *out, stream_sum *sum)
{
    memset(sum, 0, sizeof *sum);
    bt_buf_init(&sum->text[0], BT_MEM_TEXT, 1 << 20);
    bt_buf_init(&sum->text[1], BT_MEM_TEXT, 1 << 20);
    bt_str all = bt_buf_str(out);
    while (all.n > 0) {
        int64_t end = bt_str_find(all, BT_STR("\n\n"), 0);
        assert_true(end > 0 && bt_str_starts(all, BT_STR("data: ")));
        assert_int_equal(sum->n_done, 0);
        bt_str data = {all.p + 6, (size_t)end - 6};
        all = (bt_str){all.p + end + 2, all.n - (size_t)end - 2};
        if (bt_str_eqz(data, "[DONE]")) {
            sum->n_done++;
            continue;
        }
        bt_json *json = read_json(data);
        const bt_json *choices = bt_json_get(json, "choices");
        if (bt_json_count(choices) == 0) {
            sum->n_usage++;
            assert_int_equal(bt_json_int(at(json, "usage", "completion_tokens")), 3);
        } else {
            sum_choice(sum, bt_json_at(choices, 0));
        }
        bt_json_close(json);
    }
    assert_int_equal(sum->n_done, 1);
}

static void close_sum(stream_sum *sum)
{
    bt_buf_deinit(&sum->text[0]);
    bt_buf_deinit(&sum->text[1]);
}

#define TEXT "Once upon\n\"\xE2\x82\xAC"

static void test_case_35_stream_equals_whole(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        answer a;
        stream_sum sum;
        script s = a_script(BETOKEN_FINISH_LENGTH, -1, -1);
        open_answer(&a, BT_API_COMPLETION,
                    "{\"prompt\":[\"a\",\"b\"],\"stream\":true,\"return_token_ids\":true,"
                    "\"logprobs\":2}");
        play(&a, &s, seed);
        sum_stream(&a.out, &sum);
        for (int c = 0; c < 2; c++) {
            assert_true(bt_str_eqz(bt_buf_str(&sum.text[c]), TEXT));
            assert_int_equal(sum.n_finish[c], 1);
        }
        assert_int_equal(sum.n_ids, 6);
        assert_int_equal(sum.n_logprobs, 6);
        assert_string_equal(sum.finish, "length");
        close_sum(&sum);
        close_answer(&a);
    }
    answer a;
    script s = a_script(BETOKEN_FINISH_LENGTH, -1, -1);
    open_answer(&a, BT_API_COMPLETION, "{\"prompt\":\"a\"}");
    play(&a, &s, 1);
    bt_json *json = read_json(bt_buf_str(&a.out));
    assert_true(bt_str_eqz(bt_json_str(at(json, "choices", "text")), TEXT));
    assert_int_equal(bt_json_kind_of(at(json, "choices", "logprobs")), BT_JSON_NULL);
    assert_int_equal(bt_json_int(at(json, "usage", "total_tokens")), 8);
    const bt_json *spec = at(json, "usage", "speculation");
    assert_int_equal(bt_json_int(bt_json_get(spec, "drafted")), 4);
    assert_true(bt_json_real(bt_json_get(spec, "tokens_per_step")) == 1.5);
    bt_json_close(json);
    close_answer(&a);
}

static void test_case_37_usage_chunk(void **state)
{
    (void)state;
    const char *options[] = {"", ",\"stream_options\":{\"include_usage\":false}",
                             ",\"stream_options\":{\"include_usage\":true}"};
    for (int i = 0; i < 3; i++) {
        answer a;
        stream_sum sum;
        char body[256];
        script s = a_script(BETOKEN_FINISH_STOP, -1, -1);
        snprintf(body, sizeof body, "{\"messages\":[{}],\"stream\":true%s}", options[i]);
        open_answer(&a, BT_API_CHAT, body);
        play(&a, &s, 5);
        sum_stream(&a.out, &sum);
        assert_int_equal(sum.n_usage, i == 2);
        close_sum(&sum);
        close_answer(&a);
    }
}

static void test_case_38_role_once_and_only_after_begin(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        answer a;
        stream_sum sum;
        script s = a_script(BETOKEN_FINISH_STOP, -1, 2);
        open_answer(&a, BT_API_CHAT,
                    "{\"messages\":[{}],\"stream\":true,\"logprobs\":true,\"top_logprobs\":2}");
        bt_api_reply_chunk(&a.reply, 0, &a.out);
        assert_int_equal(a.out.n, 0);
        play(&a, &s, seed);
        sum_stream(&a.out, &sum);
        assert_int_equal(sum.n_roles[0], 1);
        assert_int_equal(sum.n_logprobs, 3);
        assert_true(bt_str_eqz(bt_buf_str(&sum.text[0]), TEXT));
        assert_string_equal(sum.finish, "stop");
        close_sum(&sum);
        close_answer(&a);
    }
}

static void test_stop_reason(void **state)
{
    (void)state;
    const struct {
        int stop_idx, stop_token;
        bool eos;
        bt_json_kind kind;
    } rows[] = {
        {1, -1, false, BT_JSON_STRING}, {-1, 9, false, BT_JSON_INT}, {-1, 2, true, BT_JSON_NULL}};
    for (size_t i = 0; i < BT_COUNT(rows); i++) {
        answer a;
        script s = a_script(BETOKEN_FINISH_STOP, rows[i].stop_idx, rows[i].stop_token);
        s.event[s.n - 1].stop_is_eos = rows[i].eos;
        open_answer(&a, BT_API_CHAT, "{\"messages\":[{}],\"stop\":[\"x\",\"y\\u0000\"]}");
        play(&a, &s, 1);
        bt_json *json = read_json(bt_buf_str(&a.out));
        const bt_json *reason = at(json, "choices", "stop_reason");
        assert_int_equal(bt_json_kind_of(reason), rows[i].kind);
        if (rows[i].kind == BT_JSON_STRING) {
            assert_int_equal(bt_json_str(reason).n, 2);
        }
        const bt_json *message = at(json, "choices", "message");
        assert_true(bt_str_eqz(bt_json_str(bt_json_get(message, "content")), TEXT));
        bt_json_close(json);
        close_answer(&a);
    }
}

/* Bytes that are no character, minus infinity and offsets in the lists of log-probabilities. */
static void test_completion_logprobs(void **state)
{
    (void)state;
    answer a;
    script s = a_script(BETOKEN_FINISH_STOP, -1, -1);
    open_answer(&a, BT_API_COMPLETION, "{\"prompt\":[1],\"logprobs\":2,\"return_token_ids\":true}");
    int32_t prompt[] = {1};
    bt_api_reply_prompt(&a.reply, 0, prompt, 1);
    play(&a, &s, 1);
    bt_json *json = read_json(bt_buf_str(&a.out));
    const bt_json *lp = at(json, "choices", "logprobs");
    assert_true(bt_str_eqz(bt_json_str(bt_json_at(bt_json_get(lp, "tokens"), 2)), "bytes:\\xe2"));
    assert_int_equal(bt_json_int(bt_json_at(bt_json_get(lp, "text_offset"), 2)), 9);
    const bt_json *top = bt_json_at(bt_json_get(lp, "top_logprobs"), 1);
    assert_int_equal(bt_json_count(top), 3); /* the two, and the token itself */
    assert_true(bt_json_real(bt_json_get(top, "bytes:\\xe2")) == -9999.0);
    assert_int_equal(bt_json_count(at(json, "choices", "prompt_token_ids")), 1);
    bt_json_close(json);
    close_answer(&a);
}

static void test_case_40_error_event(void **state)
{
    (void)state;
    bt_buf out;
    bt_buf_init(&out, BT_MEM_TEXT, 1 << 16);
    betoken_error e = {.code = BETOKEN_INTERNAL, .message = "a row of logits is not finite"};
    bt_api_error error = bt_api_error_of_engine(&e);
    assert_int_equal(error.http, 500);
    bt_api_error_event(&error, &out);
    bt_str all = bt_buf_str(&out);
    assert_true(bt_str_starts(all, BT_STR("data: {\"error\":{")) &&
                bt_str_ends(all, BT_STR("}}\n\n")));
    bt_json *json = read_json((bt_str){all.p + 6, all.n - 8});
    assert_int_equal(bt_json_count(bt_json_get(json, "error")), 4);
    bt_json_close(json);
    bt_buf_deinit(&out);
    e.code = BETOKEN_TOO_LONG;
    assert_string_equal(bt_api_error_of_engine(&e).code, "context_length_exceeded"); /* case 65 */
    assert_int_equal(bt_api_error_of_engine(&e).http, 400);
    e.code = BETOKEN_BUSY;
    assert_int_equal(bt_api_error_of_engine(&e).http, 429);
    e.code = BETOKEN_STOPPING;
    assert_int_equal(bt_api_error_of_engine(&e).http, 503);
}

static void test_no_memory(void **state)
{
    (void)state;
    script s = a_script(BETOKEN_FINISH_STOP, -1, -1);
    for (uint64_t n = 1; n < 40; n++) {
        answer a;
        open_answer(&a, BT_API_COMPLETION, "{\"prompt\":\"a\",\"logprobs\":2}");
        bt_mem_fail_after(n);
        for (int i = 0; i < s.n; i++) {
            bt_status status = bt_api_reply_event(&a.reply, 0, &s.event[i]);
            assert_true(status == BT_OK || status == BT_E_NO_MEMORY);
        }
        bt_api_reply_body(&a.reply, &a.out);
        bt_mem_fail_after(0);
        close_answer(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_case_35_stream_equals_whole),
        cmocka_unit_test(test_case_37_usage_chunk),
        cmocka_unit_test(test_case_38_role_once_and_only_after_begin),
        cmocka_unit_test(test_stop_reason),
        cmocka_unit_test(test_completion_logprobs),
        cmocka_unit_test(test_case_40_error_event),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("apireply", tests, NULL, NULL);
}
