/* SPDX-License-Identifier: MIT
 *
 * Compiles any bytes as a chat template and renders it over a small chat. What comes out must be
 * valid UTF-8 with runs that alternate and cover it. Seeds: the templates of the shared collection. */
#include "jinja/jinja.h"
#include "text/utf8.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bt_json *parse(const char *text)
{
    bt_json *root = NULL;
    if (bt_json_parse(bt_str_of(text), &root, NULL) != BT_OK) {
        abort();
    }
    return root;
}

static void check(const bt_jinja_output *out)
{
    size_t start = 0;
    BT_ASSERT(bt_utf8_valid((bt_str){out->text, out->n}) == out->n);
    for (size_t i = 0; i < out->n_runs; i++) {
        BT_ASSERT(out->runs[i].end > start);
        BT_ASSERT(i == 0 || out->runs[i].trusted != out->runs[i - 1].trusted);
        start = out->runs[i].end;
    }
    BT_ASSERT(start == out->n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bt_json *messages;
    static bt_json *tools;
    if (messages == NULL) {
        messages = parse("[{\"role\":\"system\",\"content\":\"Be br\xC3\xA9\"},{\"role\":\"user\","
                         "\"content\":\"a <|x|> b\\n c\",\"n\":[1,2.5,null,true]}]");
        tools = parse("[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}]");
    }
    const bt_jinja_var vars[] = {
        {.name = "messages", .json = messages},
        {.name = "tools", .json = tools},
        {.name = "bos_token", .text = BT_STR("<s>"), .trusted = true},
        {.name = "x", .text = BT_STR("data \xE4\xB8\xAD")},
    };
    const bt_jinja_args args = {
        .vars = vars, .n_vars = BT_COUNT(vars), .now_unix_s = 1752148800, .output_max = 1 << 16};
    bt_jinja *tmpl = NULL;
    bt_jinja_output out;
    bt_err err;
    bt_status status = bt_jinja_open((bt_str){(const char *)data, size}, &tmpl, &err);
    if (status != BT_OK) {
        BT_ASSERT(status == BT_E_FORMAT || status == BT_E_UNSUPPORTED || status == BT_E_LIMIT);
        return 0;
    }
    status = bt_jinja_render(tmpl, &args, &out, &err);
    if (status == BT_OK) {
        check(&out);
        bt_jinja_output_deinit(&out);
    } else {
        BT_ASSERT(status == BT_E_FORMAT || status == BT_E_INVALID || status == BT_E_LIMIT);
    }
    bt_jinja_close(tmpl);
    return 0;
}
