/* SPDX-License-Identifier: MIT
 *
 * Failures as HTTP. 4xx is the client's doing and 5xx is ours: a template that is at fault itself
 * is not the client's mistake, a template that raises is. 503 is for loading and stopping alone. */
#include "api/apierror.h"

#include "text/json.h"

static const struct {
    int http;
    const char *code;
} by_status[BT_STATUS_COUNT] = {
    [BT_OK] = {500, NULL},
    [BT_E_INVALID] = {400, NULL},
    [BT_E_FORMAT] = {500, NULL},
    [BT_E_UNSUPPORTED] = {500, NULL},
    [BT_E_NOT_FOUND] = {404, NULL},
    [BT_E_NO_MEMORY] = {500, "out_of_memory"},
    [BT_E_IO] = {500, NULL},
    [BT_E_LIMIT] = {400, NULL},
    [BT_E_BUSY] = {429, "queue_full"},
    [BT_E_TOO_LONG] = {400, "context_length_exceeded"},
    [BT_E_STOPPING] = {503, "stopping"},
    [BT_E_INTERNAL] = {500, NULL},
};

static const struct {
    int http;
    const char *type;
} types[] = {
    {400, "BadRequestError"},         {401, "AuthenticationError"}, {404, "NotFoundError"},
    {405, "MethodNotAllowedError"},   {408, "RequestTimeoutError"}, {413, "RequestTooLargeError"},
    {415, "UnsupportedMediaError"},   {429, "RateLimitError"},      {500, "InternalServerError"},
    {503, "ServiceUnavailableError"},
};

static_assert((int)BT_E_INVALID == (int)BETOKEN_INVALID &&
                  (int)BT_E_INTERNAL == (int)BETOKEN_INTERNAL &&
                  (int)BT_E_TOO_LONG == (int)BETOKEN_TOO_LONG,
              "betoken_code numbers its values as bt_status does");

static bt_api_error make(int status, const char *message, const char *param)
{
    int known = status >= 0 && status < BT_STATUS_COUNT ? status : (int)BT_E_INTERNAL;
    return (bt_api_error){by_status[known].http, message, param, by_status[known].code};
}

bt_api_error bt_api_error_of(const bt_err *err)
{
    return make((int)err->code, err->message, err->param);
}

bt_api_error bt_api_error_of_engine(const betoken_error *error)
{
    return make((int)error->code, error->message, error->param);
}

static const char *type_of(int http)
{
    for (size_t i = 0; i < BT_COUNT(types); i++) {
        if (types[i].http == http) {
            return types[i].type;
        }
    }
    return http < 500 ? "BadRequestError" : "InternalServerError";
}

void bt_api_error_body(const bt_api_error *error, bt_buf *out)
{
    bt_jsonw w;
    bt_jsonw_init(&w, out);
    bt_jsonw_open(&w, '{');
    bt_jsonw_key(&w, "error");
    bt_jsonw_open(&w, '{');
    bt_jsonw_key(&w, "message");
    bt_jsonw_strz(&w, error->message);
    bt_jsonw_key(&w, "type");
    bt_jsonw_strz(&w, type_of(error->http));
    bt_jsonw_key(&w, "param");
    if (error->param != NULL && error->param[0] != '\0') {
        bt_jsonw_strz(&w, error->param);
    } else {
        bt_jsonw_null(&w);
    }
    bt_jsonw_key(&w, "code");
    if (error->code != NULL) {
        bt_jsonw_strz(&w, error->code);
    } else {
        bt_jsonw_null(&w);
    }
    bt_jsonw_close(&w, '}');
    bt_jsonw_close(&w, '}');
}

void bt_api_error_event(const bt_api_error *error, bt_buf *out)
{
    bt_buf_pushz(out, "data: ");
    bt_api_error_body(error, out);
    bt_buf_pushz(out, "\n\n");
}
