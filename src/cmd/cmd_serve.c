/* SPDX-License-Identifier: MIT
 *
 * betoken serve: options into a server's configuration. */
#include "cmd/options.h"

#include "serve/serve.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The host in a URL; one that means all addresses becomes one that can be connected to. */
static void url_host(const char *host, char *out, size_t n)
{
    bool all = host == NULL || host[0] == '\0' || strcmp(host, "0.0.0.0") == 0;
    const char *to = all ? "127.0.0.1" : strcmp(host, "::") == 0 ? "::1" : host;
    (void)snprintf(out, n, strchr(to, ':') != NULL ? "[%s]" : "%s", to);
}

static void say_ready(void *ctx, const bt_serve_ready *ready)
{
    (void)ctx;
    char host[256];
    url_host(ready->host, host, sizeof host);
    printf("betoken %s serving %s on http://%s:%d\n", betoken_version(), ready->name, host,
           ready->port);
    printf("curl http://%s:%d/v1/%scompletions -H 'Content-Type: application/json'%s -d '{%s, "
           "\"max_tokens\": 100}'\n",
           host, ready->port, ready->has_chat_template ? "chat/" : "",
           ready->asks_key ? " -H \"Authorization: Bearer $API_KEY\"" : "",
           ready->has_chat_template
               ? "\"messages\": [{\"role\": \"user\", \"content\": \"What is a llama?\"}]"
               : "\"prompt\": \"Once upon a time\"");
    (void)fflush(stdout);
}

static void end_now(void *ctx, int status)
{
    (void)ctx;
    _exit(status);
}

int bt_cmd_serve(bt_options *o)
{
    bt_err err = {0};
    static betoken_options engine; /* owns strings that live until the process ends */
    const char *name = o->model != NULL ? o->model : BT_DEFAULT_MODEL_NAME;
    bt_status status = bt_options_engine(o, &engine, &err);
    if (status == BT_OK) {
        bt_serve_config config = {.host = o->host,
                                  .port = (int)o->port,
                                  .model_name = o->n_served > 0 ? o->served_name : &name,
                                  .n_model_names = o->n_served > 0 ? (size_t)o->n_served : 1,
                                  .api_key = o->api_key,
                                  .n_api_keys = (size_t)o->n_keys,
                                  .options = &engine,
                                  .ready = say_ready,
                                  .end_now = end_now};
        status = bt_serve_run(&config, &err);
    }
    if (status != BT_OK) {
        fprintf(stderr, "betoken: %s\n", err.message);
        return 1;
    }
    return 0;
}
