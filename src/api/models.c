/* SPDX-License-Identifier: MIT
 *
 * Model cards, and the check of `model`. */
#include "api/models.h"

#include "text/json.h"
#include "text/utf8.h"

bt_status bt_api_models_find(const bt_api_models *models, bt_str asked, bt_str *out, bt_err *err)
{
    if (asked.p == NULL) {
        *out = bt_str_of(models->name[0]);
        return BT_OK;
    }
    bt_buf names;
    bt_buf_init(&names, BT_MEM_TEXT, BT_ERR_MESSAGE_MAX);
    for (size_t i = 0; i < models->n_names; i++) {
        if (bt_str_eqz(asked, models->name[i])) {
            bt_buf_deinit(&names);
            *out = bt_str_of(models->name[i]);
            return BT_OK;
        }
        bt_buf_printf(&names, "%s%s", i > 0 ? ", " : "", models->name[i]);
    }
    bt_str shown = {asked.p, BT_MIN(asked.n, 100)};
    bt_status status =
        bt_fail_param(err, BT_E_NOT_FOUND, "model", "the model '%.*s' does not exist; served: %s",
                      (int)bt_utf8_valid(shown), shown.p, names.p != NULL ? names.p : "");
    bt_buf_deinit(&names);
    return status;
}

static void write_card(const bt_api_models *models, bt_str name, bt_jsonw *w)
{
    bt_jsonw_open(w, '{');
    bt_jsonw_key(w, "id");
    bt_jsonw_str(w, name);
    bt_jsonw_key(w, "object");
    bt_jsonw_strz(w, "model");
    bt_jsonw_key(w, "created");
    bt_jsonw_int(w, models->created);
    bt_jsonw_key(w, "owned_by");
    bt_jsonw_strz(w, "betoken");
    bt_jsonw_key(w, "root");
    bt_jsonw_strz(w, models->name[0]);
    bt_jsonw_key(w, "parent");
    bt_jsonw_null(w);
    bt_jsonw_key(w, "max_model_len");
    bt_jsonw_int(w, models->max_model_len);
    bt_jsonw_close(w, '}');
}

void bt_api_models_list(const bt_api_models *models, bt_buf *out)
{
    bt_jsonw w;
    bt_jsonw_init(&w, out);
    bt_jsonw_open(&w, '{');
    bt_jsonw_key(&w, "object");
    bt_jsonw_strz(&w, "list");
    bt_jsonw_key(&w, "data");
    bt_jsonw_open(&w, '[');
    for (size_t i = 0; i < models->n_names; i++) {
        write_card(models, bt_str_of(models->name[i]), &w);
    }
    bt_jsonw_close(&w, ']');
    bt_jsonw_close(&w, '}');
}

void bt_api_models_card(const bt_api_models *models, bt_str name, bt_buf *out)
{
    bt_jsonw w;
    bt_jsonw_init(&w, out);
    write_card(models, name, &w);
}
