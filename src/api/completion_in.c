/* SPDX-License-Identifier: MIT
 *
 * The four forms of `prompt` in the completions API. */
#include "api/apiparams.h"
#include "api/promptforms.h"

#include <inttypes.h>
#include <stdio.h>

bt_status bt_api_items_new(bt_api_request *out, size_t n, bt_err *err)
{
    betoken_request *item = bt_arena_calloc(&out->arena, n, sizeof *item);
    if (item == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for %zu prompts", n);
    }
    for (size_t i = 0; i < n; i++) {
        betoken_request_init(&item[i]);
    }
    out->item = item;
    out->n_items = n;
    return BT_OK;
}

/* lint: allow parameters: a place and two names for the message. */
bt_status bt_api_ids_read(const bt_json *list, const char *where, const char *param,
                          bt_arena *arena, int32_t **ids, size_t *n, bt_err *err)
{
    size_t count = bt_json_count(list);
    int32_t *copy = bt_arena_calloc(arena, count + 1, sizeof *copy);
    if (copy == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for %zu token ids", count);
    }
    for (size_t i = 0; i < count; i++) {
        const bt_json *value = bt_json_at(list, i);
        char quote[BT_API_QUOTE_MAX];
        if (bt_json_kind_of(value) != BT_JSON_INT) {
            return bt_fail_param(err, BT_E_INVALID, param, "%s[%zu] is %s; token ids are integers",
                                 where, i, bt_api_quote(value, quote));
        }
        int64_t id = bt_json_int(value);
        if (id < 0 || id > INT32_MAX) {
            return bt_fail_param(err, BT_E_INVALID, param,
                                 "%s[%zu] is %" PRId64 "; token ids are 0 and up, and below the "
                                 "size of the vocabulary",
                                 where, i, id);
        }
        copy[i] = (int32_t)id;
    }
    *ids = copy;
    *n = count;
    return BT_OK;
}

static bt_status read_text(const bt_json *value, bt_arena *arena, betoken_text *out, bt_err *err)
{
    bt_str text = bt_json_str(value);
    char *copy = bt_arena_dup(arena, text.p, text.n);
    if (copy == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for a prompt of %zu bytes", text.n);
    }
    *out = (betoken_text){copy, text.n};
    return BT_OK;
}

static bt_status read_ids(const bt_json *list, const char *where, const char *name,
                          bt_api_request *out, size_t item_idx, bt_err *err)
{
    int32_t *ids = NULL;
    size_t n = 0;
    if (bt_json_count(list) == 0) {
        return bt_fail_param(err, BT_E_INVALID, name, "%s is an empty list", where);
    }
    BT_TRY(bt_api_ids_read(list, where, name, &out->arena, &ids, &n, err));
    out->item[item_idx].prompt_token_ids = ids;
    out->item[item_idx].n_prompt_token_ids = n;
    return BT_OK;
}

/* All elements are of one kind, strings or lists. */
static bt_status read_several(const bt_json *prompt, const char *name, bt_api_request *out,
                              bt_err *err)
{
    size_t n = bt_json_count(prompt);
    bt_json_kind kind = bt_json_kind_of(bt_json_at(prompt, 0));
    if (n > BT_API_PROMPTS_MAX) {
        return bt_fail_param(err, BT_E_INVALID, name,
                             "%s holds %zu prompts; at most %d are allowed", name, n,
                             BT_API_PROMPTS_MAX);
    }
    BT_TRY(bt_api_items_new(out, n, err));
    for (size_t i = 0; i < n; i++) {
        const bt_json *value = bt_json_at(prompt, i);
        char where[96], quote[BT_API_QUOTE_MAX];
        (void)snprintf(where, sizeof where, "%s[%zu]", name, i);
        if (bt_json_kind_of(value) != kind) {
            return bt_fail_param(err, BT_E_INVALID, name,
                                 "%s is %s where the first element is %s; a list of prompts is all "
                                 "texts or all lists of token ids",
                                 where, bt_api_quote(value, quote), bt_json_kind_text(kind));
        }
        if (kind == BT_JSON_STRING) {
            BT_TRY(read_text(value, &out->arena, &out->item[i].prompt, err));
        } else {
            BT_TRY(read_ids(value, where, name, out, i, err));
        }
    }
    return BT_OK;
}

bt_status bt_api_prompts_read(const bt_json *prompt, const char *name, bt_api_request *out,
                              bt_err *err)
{
    bt_json_kind kind = bt_json_kind_of(prompt);
    if (kind == BT_JSON_STRING) {
        BT_TRY(bt_api_items_new(out, 1, err));
        return read_text(prompt, &out->arena, &out->item[0].prompt, err);
    }
    if (kind == BT_JSON_ARRAY && bt_json_count(prompt) == 0) {
        return bt_fail_param(err, BT_E_INVALID, name, "%s is an empty list", name);
    }
    if (kind == BT_JSON_ARRAY) {
        bt_json_kind first = bt_json_kind_of(bt_json_at(prompt, 0));
        if (first == BT_JSON_STRING || first == BT_JSON_ARRAY) {
            return read_several(prompt, name, out, err);
        }
        BT_TRY(bt_api_items_new(out, 1, err));
        return read_ids(prompt, name, name, out, 0, err);
    }
    char quote[BT_API_QUOTE_MAX];
    return bt_fail_param(err, BT_E_INVALID, name,
                         "%s must be a text, a list of texts, a list of token ids or a list of "
                         "such lists, not %s",
                         name, bt_api_quote(prompt, quote));
}
