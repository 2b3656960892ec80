/* SPDX-License-Identifier: MIT
 *
 * Refusals before a body is read: no such path, no key, wrong method, not ready. */
#include "serve/serving.h"

#include "api/apierror.h"

#include <stdio.h>
#include <strings.h>

void bt_gate_respond(bt_http_request *request, int http_status, const char *type, bt_str body)
{
    const bt_http_field retry = {BT_STR("Retry-After"), BT_STR("1")};
    bool later = http_status == 429 || http_status == 503;
    bt_http_answer answer = {.status = http_status,
                             .content_type = type,
                             .fields = &retry,
                             .n_fields = later ? 1 : 0,
                             .body = body};
    bt_http_respond(request, &answer);
}

static void refuse_with(bt_http_request *request, const bt_api_error *error,
                        const bt_http_field *field)
{
    bt_buf body;
    bt_buf_init(&body, BT_MEM_HTTP, 1 << 16);
    bt_api_error_body(error, &body);
    if (field == NULL) {
        bt_gate_respond(request, error->http, "application/json", bt_buf_str(&body));
    } else {
        bt_http_answer answer = {.status = error->http,
                                 .content_type = "application/json",
                                 .fields = field,
                                 .n_fields = 1,
                                 .body = bt_buf_str(&body)};
        bt_http_respond(request, &answer);
    }
    bt_buf_deinit(&body);
}

void bt_gate_refuse(bt_http_request *request, int http_status, const char *param, const char *code,
                    const char *message)
{
    bt_api_error error = {http_status, message, param, code};
    refuse_with(request, &error, NULL);
}

void bt_gate_error_body(void *ctx, int status, const char *text, bt_buf *out)
{
    (void)ctx;
    bt_api_error error = {status, text, NULL, NULL};
    bt_api_error_body(&error, out);
}

/* Takes as long for a key that is nearly right as for one that is all wrong. */
static bool same_secret(bt_str given, const char *key)
{
    bt_str own = bt_str_of(key);
    unsigned char differs = given.n != own.n;
    for (size_t i = 0; i < given.n; i++) {
        char k = i < own.n ? own.p[i] : '\0';
        differs = (unsigned char)(differs | (unsigned char)(given.p[i] ^ k));
    }
    return differs == 0;
}

static bool has_key(const bt_serve_config *config, bt_http_request *request)
{
    bt_str value = {0};
    bt_str scheme = BT_STR("Bearer ");
    if (config->n_api_keys == 0) {
        return true;
    }
    if (bt_http_request_find(request, "Authorization", &value) != 1 || value.n <= scheme.n ||
        strncasecmp(value.p, scheme.p, scheme.n) != 0) {
        return false;
    }
    bt_str given = {value.p + scheme.n, value.n - scheme.n};
    bool any = false;
    for (size_t i = 0; i < config->n_api_keys; i++) {
        any = same_secret(given, config->api_key[i]) | any;
    }
    return any;
}

/* curl -d says application/x-www-form-urlencoded, so the type is not looked at; a multipart form
 * alone can never be JSON. */
static bool is_form(bt_http_request *request)
{
    bt_str type = {0};
    return bt_http_request_find(request, "Content-Type", &type) > 0 && type.n >= 10 &&
           strncasecmp(type.p, "multipart/", 10) == 0;
}

void bt_gate_head(void *ctx, bt_http_request *request, uint64_t *body_max)
{
    bt_serve *serve = ctx;
    bt_str rest;
    const bt_api_route *route = bt_api_route_find(bt_http_request_path(request), &rest);
    char message[256];
    if (route == NULL) {
        bt_str path = bt_http_request_path(request);
        (void)snprintf(message, sizeof message, "no endpoint is at %.*s",
                       (int)BT_MIN(path.n, (size_t)150), path.p);
        bt_gate_refuse(request, 404, NULL, "unknown_url", message);
    } else if (!route->open && !has_key(serve->config, request)) {
        bt_api_error error = {401, "a valid API key is needed: Authorization: Bearer KEY", NULL,
                              "invalid_api_key"};
        refuse_with(request, &error,
                    &(bt_http_field){BT_STR("WWW-Authenticate"), BT_STR("Bearer")});
    } else if (!bt_api_route_allows(route, bt_http_request_method(request))) {
        (void)snprintf(message, sizeof message, "%s answers %s only", route->path, route->allow);
        bt_api_error error = {405, message, NULL, NULL};
        refuse_with(request, &error, &(bt_http_field){BT_STR("Allow"), bt_str_of(route->allow)});
    } else if (serve->state == BT_SERVE_LOADING && !route->while_loading) {
        bt_gate_refuse(request, 503, NULL, "loading", "the model is being loaded");
    } else if (serve->state == BT_SERVE_STOPPING && route->work) {
        bt_gate_refuse(request, 503, NULL, "stopping", "the server is stopping");
    } else if (route->work && is_form(request)) {
        bt_gate_refuse(request, 415, NULL, NULL, "the body must be JSON, not a multipart form");
    } else {
        *body_max = route->body_max;
    }
}
