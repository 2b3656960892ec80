/* SPDX-License-Identifier: MIT
 *
 * models.h: the names under which the model is served. */
#ifndef BT_API_MODELS_H
#define BT_API_MODELS_H

#include "base/buf.h"
#include "base/status.h"

typedef struct bt_api_models {
    const char *const *name; /* at least one; the first is the one that answers name by default */
    size_t n_names;
    int64_t created;
    int max_model_len;
} bt_api_models;

/* The served name that a request means; `asked` with p == NULL means the first. *out borrows from
 * models. BT_E_NOT_FOUND names the served ones. */
bt_status bt_api_models_find(const bt_api_models *models, bt_str asked, bt_str *out,
                             bt_err *err) BT_MUST_USE;
/* Appends the body of GET /v1/models. */
void bt_api_models_list(const bt_api_models *models, bt_buf *out);
/* Appends the body of GET /v1/models/{id} for a name that is served. */
void bt_api_models_card(const bt_api_models *models, bt_str name, bt_buf *out);

#endif
