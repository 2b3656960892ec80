/* SPDX-License-Identifier: MIT
 *
 * `messages` of a chat, handed on as JSON text: the engine checks roles and contents, because it is
 * the engine that renders them, whoever submits. */
#include "api/apiparams.h"
#include "api/promptforms.h"

bt_status bt_api_messages_read(const bt_json *messages, bt_api_request *out, bt_err *err)
{
    char quote[BT_API_QUOTE_MAX];
    if (bt_json_kind_of(messages) != BT_JSON_ARRAY) {
        return bt_fail_param(err, BT_E_INVALID, "messages",
                             "messages must be a list of messages, not %s",
                             bt_api_quote(messages, quote));
    }
    if (bt_json_count(messages) == 0) {
        return bt_fail_param(err, BT_E_INVALID, "messages",
                             "messages is empty; at least one message is needed");
    }
    BT_TRY(bt_api_items_new(out, 1, err));
    bt_buf text;
    bt_buf_init(&text, BT_MEM_TEXT, SIZE_MAX / 4);
    bt_json_dump(messages, &text);
    char *copy = bt_buf_ok(&text) == BT_OK ? bt_arena_dup(&out->arena, text.p, text.n) : NULL;
    size_t n = text.n;
    bt_buf_deinit(&text);
    if (copy == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for the messages");
    }
    out->item[0].messages = (betoken_text){copy, n};
    return BT_OK;
}
