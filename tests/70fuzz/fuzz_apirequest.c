/* SPDX-License-Identifier: MIT
 *
 * Feeds any bytes as the body of each endpoint. What is accepted keeps its promises: at least one
 * prompt, exactly one form each, stop strings of allowed length; what is refused says why in one
 * line of UTF-8. */
#include "api/apirequest.h"
#include "api/tokenize.h"
#include "text/utf8.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refusal(bt_status status, const bt_err *err)
{
    bt_str message = bt_str_of(err->message);
    BT_ASSERT(status == BT_E_INVALID);
    BT_ASSERT(message.n > 0 && bt_utf8_valid(message) == message.n);
    BT_ASSERT(strchr(err->message, '\n') == NULL);
}

static void check_items(const bt_api_request *r)
{
    BT_ASSERT(r->n_items > 0 && r->n_items <= BT_API_PROMPTS_MAX);
    for (size_t i = 0; i < r->n_items; i++) {
        const betoken_request *item = &r->item[i];
        BT_ASSERT((item->prompt.p != NULL) + (item->prompt_token_ids != NULL) +
                      (item->messages.p != NULL) ==
                  1);
        BT_ASSERT(item->n_stop <= BETOKEN_STOP_MAX);
        BT_ASSERT(item->max_tokens == -1 || item->max_tokens >= 1);
        BT_ASSERT(!(item->temperature < 0) && !(item->top_p <= 0) && !(item->min_p > 1));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const bt_api_kind kinds[] = {BT_API_COMPLETION, BT_API_CHAT, BT_API_OFFLINE};
    bt_str body = {(const char *)data, size};
    for (size_t i = 0; i < BT_COUNT(kinds); i++) {
        bt_api_request r;
        bt_err err = {0};
        bt_status status = bt_api_parse(kinds[i], body, &r, &err);
        if (status == BT_OK) {
            check_items(&r);
            bt_api_request_deinit(&r);
        } else {
            check_refusal(status, &err);
        }
    }
    bt_api_tokenize t;
    bt_err err = {0};
    bt_status status = bt_api_tokenize_parse(body, &t, &err);
    if (status == BT_OK) {
        check_items(&t.request);
        bt_api_tokenize_deinit(&t);
    } else {
        check_refusal(status, &err);
    }
    status = bt_api_detokenize_parse(body, &t, &err);
    if (status == BT_OK) {
        bt_api_tokenize_deinit(&t);
    } else {
        check_refusal(status, &err);
    }
    return 0;
}
