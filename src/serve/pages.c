/* SPDX-License-Identifier: MIT
 *
 * Answers that the I/O thread gives by itself: health, version, model cards, metrics. */
#include "serve/serving.h"

#include "api/metrics.h"
#include "text/json.h"

static void answer_health(const bt_serve *serve, bt_http_request *request)
{
    if (serve->state == BT_SERVE_READY) {
        bt_gate_respond(request, 200, "application/json", BT_STR("{\"status\":\"ok\"}"));
    } else if (serve->state == BT_SERVE_LOADING) {
        bt_gate_refuse(request, 503, NULL, "loading", "the model is being loaded");
    } else {
        bt_gate_refuse(request, 503, NULL, "stopping", "the server is stopping");
    }
}

static void answer_metrics(bt_serve *serve, bt_http_request *request)
{
    betoken_stats stats;
    bt_http_stats http;
    bt_buf body;
    betoken_engine_stats(serve->engine, &stats);
    bt_http_server_stats(serve->http, &http);
    bt_api_http_counts counts = {.connections = http.n_accepted,
                                 .requests = http.n_requests,
                                 .bad = http.n_bad,
                                 .gone = http.n_gone,
                                 .timeouts = http.n_timeout,
                                 .connections_now = http.n_connections,
                                 .requests_now = http.n_running};
    bt_buf_init(&body, BT_MEM_HTTP, BT_API_METRICS_MAX);
    bt_api_metrics_body(&stats, &serve->info, &counts, serve->models.name[0], &body);
    if (bt_buf_ok(&body) == BT_OK) {
        bt_gate_respond(request, 200, BT_API_METRICS_TYPE, bt_buf_str(&body));
    } else {
        bt_gate_refuse(request, 500, NULL, NULL, "no memory for the metrics");
    }
    bt_buf_deinit(&body);
}

static void answer_models(bt_serve *serve, bt_http_request *request, const bt_str *encoded)
{
    bt_buf body, name;
    bt_buf_init(&body, BT_MEM_HTTP, 1 << 20);
    bt_buf_init(&name, BT_MEM_HTTP, 1 << 16);
    bt_err err = {0};
    bt_str found;
    if (encoded == NULL) {
        bt_api_models_list(&serve->models, &body);
        bt_gate_respond(request, 200, "application/json", bt_buf_str(&body));
    } else if (!bt_api_percent_decode(*encoded, &name) || name.n == 0) {
        bt_gate_refuse(request, 400, "model", NULL, "the model's name is not well encoded");
    } else if (bt_api_models_find(&serve->models, bt_buf_str(&name), &found, &err) != BT_OK) {
        bt_gate_refuse(request, 404, "model", "model_not_found", err.message);
    } else {
        bt_api_models_card(&serve->models, found, &body);
        bt_gate_respond(request, 200, "application/json", bt_buf_str(&body));
    }
    bt_buf_deinit(&name);
    bt_buf_deinit(&body);
}

static void answer_version(bt_http_request *request)
{
    bt_buf body;
    bt_jsonw w;
    bt_buf_init(&body, BT_MEM_HTTP, 4096);
    bt_jsonw_init(&w, &body);
    bt_jsonw_open(&w, '{');
    bt_jsonw_key(&w, "version");
    bt_jsonw_strz(&w, betoken_version());
    bt_jsonw_close(&w, '}');
    bt_gate_respond(request, 200, "application/json", bt_buf_str(&body));
    bt_buf_deinit(&body);
}

void bt_pages_answer(bt_serve *serve, bt_http_request *request, const bt_api_route *route,
                     bt_str rest)
{
    switch (route->endpoint) {
    case BT_ENDPOINT_HEALTH:
    case BT_ENDPOINT_PING:
        answer_health(serve, request);
        break;
    case BT_ENDPOINT_VERSION:
        answer_version(request);
        break;
    case BT_ENDPOINT_METRICS:
        answer_metrics(serve, request);
        break;
    case BT_ENDPOINT_MODELS:
        answer_models(serve, request, NULL);
        break;
    case BT_ENDPOINT_MODEL:
        answer_models(serve, request, &rest);
        break;
    default:
        BT_ASSERT(false); /* work goes to intake */
    }
}
