/* SPDX-License-Identifier: MIT
 *
 * Goal: the server keeps its promises whatever the engine does: while it loads, when it refuses,
 * fails in the middle or hangs, and when clients leave. Method: bt_serve_run on a thread with an
 * engine that plays scripts, and betoken's own HTTP client. */
#include "http/client.h"
#include "serve/serve.h"

#include "scriptengine.h"

#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct fixture {
    betoken_options options;
    bt_serve_config config;
    pthread_t thread;
    bt_status status;
    bt_err err;
    _Atomic bool ready;
    bt_http_client *client;
    char text[4096]; /* of the last answer */
} fixture;

static void on_ready(void *ctx, const bt_serve_ready *ready)
{
    fixture *f = ctx;
    assert_int_equal(ready->port, f->config.port);
    atomic_store(&f->ready, true);
}

static void on_end(void *ctx, int status)
{
    (void)ctx;
    _exit(status + 100); /* no test here may come to this */
}

static void *serve_main(void *arg)
{
    fixture *f = arg;
    f->status = bt_serve_run(&f->config, &f->err);
    return NULL;
}

static int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    close(fd);
    return ntohs(a.sin_port);
}

static bool wait_for(_Atomic bool *flag)
{
    for (int i = 0; i < 2000 && !atomic_load(flag); i++) {
        bt_clock_sleep_ns(1000000);
    }
    return atomic_load(flag);
}

static bool wait_streams(int n)
{
    for (int i = 0; i < 2000 && atomic_load(&fake.n_streams) != n; i++) {
        bt_clock_sleep_ns(1000000);
    }
    return atomic_load(&fake.n_streams) == n;
}

static void start(fixture *f, bool hold_load, bool fail_load)
{
    static const char *names[] = {"m"};
    static const char *keys[] = {"secret"};
    char url[64];
    *f = (fixture){.options = {.model = "m", .max_num_seqs = 32, .max_queued_requests = 256}};
    f->config = (bt_serve_config){.host = "127.0.0.1",
                                  .port = free_port(),
                                  .model_name = names,
                                  .n_model_names = 1,
                                  .api_key = keys,
                                  .n_api_keys = 1,
                                  .options = &f->options,
                                  .ctx = f,
                                  .ready = on_ready,
                                  .end_now = on_end};
    atomic_store(&fake.hold_load, hold_load);
    atomic_store(&fake.fail_load, fail_load);
    assert_int_equal(pthread_create(&f->thread, NULL, serve_main, f), 0);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", f->config.port);
    assert_int_equal(bt_http_client_open(url, &f->client, NULL), BT_OK);
    if (!hold_load && !fail_load) {
        assert_true(wait_for(&f->ready));
    }
}

static void stop(fixture *f)
{
    bt_http_client_close(f->client);
    assert_int_equal(kill(getpid(), SIGTERM), 0);
    pthread_join(f->thread, NULL);
    assert_int_equal(f->status, BT_OK);
    assert_int_equal(atomic_load(&fake.n_streams), 0);
    assert_true(atomic_load(&fake.draining));
}

static bool collect(void *ctx, bt_str data)
{
    fixture *f = ctx;
    size_t n = strlen(f->text);
    snprintf(f->text + n, sizeof f->text - n, "%.*s\n", (int)data.n, data.p);
    return true;
}

/* The status of one call; its text is in f->text. 0: the connection failed. */
static int call(fixture *f, const char *path, const char *body, bool with_key)
{
    bt_http_field key = {BT_STR("Authorization"), BT_STR("Bearer secret")};
    bt_http_call c = {.path = path,
                      .body = bt_str_of(body),
                      .fields = &key,
                      .n_fields = with_key ? 1 : 0,
                      .event = collect,
                      .event_ctx = f,
                      .timeout_ns = 5 * BT_NS_PER_S};
    bt_http_reply reply;
    f->text[0] = '\0';
    if (bt_http_client_call(f->client, &c, &reply, NULL) != BT_OK) {
        return 0;
    }
    if (!reply.streamed) {
        snprintf(f->text, sizeof f->text, "%.*s", (int)reply.body.n, reply.body.p);
    }
    int status = reply.status;
    bt_http_reply_deinit(&reply);
    return status;
}

static int post(fixture *f, const char *body)
{
    return call(f, "/v1/completions", body, true);
}

static int get_retrying(fixture *f, const char *path)
{
    int status = 0;
    for (int i = 0; i < 500 && status == 0; i++) {
        status = call(f, path, NULL, true);
        bt_clock_sleep_ns(status == 0 ? 2000000 : 0);
    }
    return status;
}

static void test_case_79_answers_while_loading(void **state)
{
    (void)state;
    fixture f;
    start(&f, true, false);
    assert_int_equal(get_retrying(&f, "/health"), 503);
    assert_int_equal(call(&f, "/version", NULL, true), 200);
    assert_int_equal(call(&f, "/v1/models", NULL, true), 503);
    assert_int_equal(post(&f, "{\"prompt\":\"a.\"}"), 503);
    assert_non_null(strstr(f.text, "\"loading\""));
    assert_false(atomic_load(&f.ready));
    atomic_store(&fake.hold_load, false);
    assert_true(wait_for(&f.ready));
    assert_int_equal(call(&f, "/health", NULL, false), 200);
    assert_int_equal(post(&f, "{\"prompt\":\"ab.\"}"), 200);
    stop(&f);
}

static void test_failed_load_is_returned(void **state)
{
    (void)state;
    fixture f;
    start(&f, false, true);
    pthread_join(f.thread, NULL);
    bt_http_client_close(f.client);
    assert_int_equal(f.status, BT_E_FORMAT);
    assert_string_equal(f.err.message, "refused by the script");
}

static void test_case_79_port_in_use(void **state)
{
    (void)state;
    fixture f;
    start(&f, false, false);
    bt_err err = {0};
    atomic_store(&fake.hold_load, true); /* loading must not even begin */
    assert_int_equal(bt_serve_run(&f.config, &err), BT_E_IO);
    assert_non_null(strstr(err.message, "127.0.0.1"));
    atomic_store(&fake.hold_load, false);
    stop(&f);
}

static void test_whole_and_streamed(void **state)
{
    (void)state;
    fixture f;
    start(&f, false, false);
    assert_int_equal(post(&f, "{\"prompt\":[\"abc.\",\"d.\"]}"), 200);
    assert_non_null(strstr(f.text, "\"text\":\"abc\""));
    assert_non_null(strstr(f.text, "\"index\":1,\"text\":\"d\""));
    assert_int_equal(post(&f, "{\"prompt\":\"abc.\",\"stream\":true}"), 200);
    assert_non_null(strstr(f.text, "\"text\":\"abc\""));
    assert_non_null(strstr(f.text, "[DONE]\n"));
    assert_int_equal(call(&f, "/tokenize", "{\"prompt\":\"abc\"}", true), 200);
    assert_non_null(strstr(f.text, "\"count\":3"));
    stop(&f);
}

static void test_refusals_of_the_engine(void **state)
{
    (void)state;
    fixture f;
    start(&f, false, false);
    assert_int_equal(post(&f, "{\"prompt\":\"busy\",\"stream\":true}"), 429);
    assert_int_equal(post(&f, "{\"prompt\":\"long\"}"), 400);
    assert_non_null(strstr(f.text, "context_length_exceeded"));
    /* The first of two hangs, the second is refused: the first is cancelled. */
    assert_int_equal(post(&f, "{\"prompt\":[\"abc\",\"long\"]}"), 400);
    assert_non_null(strstr(f.text, "prompt 1: "));
    assert_true(wait_streams(0));
    assert_int_equal(call(&f, "/detokenize", "{\"tokens\":[1]}", true), 500);
    assert_int_equal(call(&f, "/detokenize", "{\"tokens\":[1,2,3]}", true), 400);
    stop(&f);
}

static void test_case_40_failure_before_and_after_the_begin(void **state)
{
    (void)state;
    fixture f;
    start(&f, false, false);
    assert_int_equal(post(&f, "{\"prompt\":\"E\",\"stream\":true}"), 500);
    assert_int_equal(post(&f, "{\"prompt\":\"abE\"}"), 500);
    assert_int_equal(post(&f, "{\"prompt\":\"abE\",\"stream\":true}"), 200);
    assert_non_null(strstr(f.text, "{\"error\":{"));
    assert_null(strstr(f.text, "[DONE]"));
    assert_null(strstr(f.text, "\"finish_reason\":\""));
    /* One of two fails: the other is cancelled, the answer is an error. */
    assert_int_equal(post(&f, "{\"prompt\":[\"ab\",\"abE\"]}"), 500);
    assert_true(wait_streams(0));
    stop(&f);
}

typedef struct leaver {
    fixture *f;
    const char *body;
} leaver;

static void *leave_main(void *arg)
{
    leaver *l = arg;
    bt_http_client *client;
    char url[64];
    bt_http_field key = {BT_STR("Authorization"), BT_STR("Bearer secret")};
    bt_http_call c = {.path = "/v1/completions",
                      .body = bt_str_of(l->body),
                      .fields = &key,
                      .n_fields = 1,
                      .timeout_ns = BT_NS_PER_S / 5};
    bt_http_reply reply;
    snprintf(url, sizeof url, "http://127.0.0.1:%d", l->f->config.port);
    if (bt_http_client_open(url, &client, NULL) == BT_OK) {
        if (bt_http_client_call(client, &c, &reply, NULL) == BT_OK) {
            bt_http_reply_deinit(&reply);
        }
        bt_http_client_close(client);
    }
    return NULL;
}

/* A request that hangs, whole, streamed and with several prompts; its client gives up. */
static void test_leaving_cancels(void **state)
{
    (void)state;
    static const char *bodies[] = {"{\"prompt\":\"abc\"}", "{\"prompt\":\"abc\",\"stream\":true}",
                                   "{\"prompt\":[\"a\",\"b\"]}"};
    fixture f;
    start(&f, false, false);
    for (size_t i = 0; i < BT_COUNT(bodies); i++) {
        leaver l = {&f, bodies[i]};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, leave_main, &l), 0);
        assert_true(wait_streams(i == 2 ? 2 : 1));
        pthread_join(thread, NULL);
        assert_true(wait_streams(0));
    }
    assert_int_equal(post(&f, "{\"prompt\":\"a.\"}"), 200);
    stop(&f);
}

static void test_keys(void **state)
{
    (void)state;
    fixture f;
    start(&f, false, false);
    assert_int_equal(call(&f, "/v1/models", NULL, false), 401);
    assert_int_equal(call(&f, "/metrics", NULL, false), 401);
    assert_int_equal(call(&f, "/v1/completions", "{\"prompt\":\"a.\"}", false), 401);
    assert_int_equal(call(&f, "/v1/models", NULL, true), 200);
    assert_int_equal(call(&f, "/ping", NULL, false), 200);
    stop(&f);
}

int main(void)
{
    /* The server's signals must not end the thread that runs the tests. */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_case_79_answers_while_loading),
        cmocka_unit_test(test_failed_load_is_returned),
        cmocka_unit_test(test_case_79_port_in_use),
        cmocka_unit_test(test_whole_and_streamed),
        cmocka_unit_test(test_refusals_of_the_engine),
        cmocka_unit_test(test_case_40_failure_before_and_after_the_begin),
        cmocka_unit_test(test_leaving_cancels),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests_name("serve", tests, NULL, NULL);
}
