/* SPDX-License-Identifier: MIT
 *
 * betoken serve: options into a server's configuration. */
#include "cmd/options.h"

#include "serve/serve.h"

#include <stdio.h>

int bt_cmd_serve(bt_options *o)
{
    bt_err err = {0};
    betoken_options engine;
    const char *name = o->model != NULL ? o->model : BT_DEFAULT_MODEL_NAME;
    bt_status status = bt_options_engine(o, &engine, &err);
    if (status == BT_OK) {
        bt_serve_config config = {.host = o->host,
                                  .port = (int)o->port,
                                  .model_name = o->n_served > 0 ? o->served_name : &name,
                                  .n_model_names = o->n_served > 0 ? (size_t)o->n_served : 1,
                                  .api_key = o->api_key,
                                  .n_api_keys = (size_t)o->n_keys,
                                  .options = &engine};
        status = bt_serve_run(&config, &err);
    }
    if (status != BT_OK) {
        fprintf(stderr, "betoken: %s\n", err.message);
        return 1;
    }
    return 0;
}
