/* SPDX-License-Identifier: MIT
 *
 * route.h: which endpoint a method and a path mean. */
#ifndef BT_API_ROUTE_H
#define BT_API_ROUTE_H

#include "base/buf.h"

typedef enum bt_api_endpoint {
    BT_ENDPOINT_HEALTH,
    BT_ENDPOINT_PING,
    BT_ENDPOINT_VERSION,
    BT_ENDPOINT_METRICS,
    BT_ENDPOINT_MODELS,
    BT_ENDPOINT_MODEL, /* /v1/models/{id} */
    BT_ENDPOINT_COMPLETIONS,
    BT_ENDPOINT_CHAT,
    BT_ENDPOINT_TOKENIZE,
    BT_ENDPOINT_DETOKENIZE
} bt_api_endpoint;

typedef struct bt_api_route {
    const char *path;
    const char *allow; /* methods, as the Allow field names them */
    bt_api_endpoint endpoint;
    bool open;          /* needs no API key */
    bool while_loading; /* is answered before the model is there */
    bool work;          /* is done by the intake thread, from a body */
    uint64_t body_max;  /* bytes */
} bt_api_route;

/* NULL when nothing lives there. *rest is what follows a path that ends in '/' ({id}, not decoded),
 * else empty. */
const bt_api_route *bt_api_route_find(bt_str path, bt_str *rest);
/* True when the route answers the method. */
bool bt_api_route_allows(const bt_api_route *route, bt_str method);
/* Undoes %XX; false when the text breaks that form. */
bool bt_api_percent_decode(bt_str text, bt_buf *out) BT_MUST_USE;

#endif
