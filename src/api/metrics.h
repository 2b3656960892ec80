/* SPDX-License-Identifier: MIT
 *
 * metrics.h: counters as Prometheus text, under vLLM's names where vLLM has one. */
#ifndef BT_API_METRICS_H
#define BT_API_METRICS_H

#include "base/buf.h"

#include <betoken.h>

/* What the HTTP side counts. */
typedef struct bt_api_http_counts {
    uint64_t connections, requests, bad, gone, timeouts;
    int connections_now, requests_now;
} bt_api_http_counts;

/* Appends the body of GET /metrics. `model` becomes the label model_name. */
void bt_api_metrics_body(const betoken_stats *stats, const betoken_info *info,
                         const bt_api_http_counts *http, const char *model, bt_buf *out);

enum { BT_API_METRICS_MAX = 1 << 20 }; /* bytes that the body may need */
#define BT_API_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

#endif
