/* SPDX-License-Identifier: MIT
 *
 * Puts the fields of a request together: which prompt, which defaults, what goes with what. */
#include "api/apirequest.h"

#include "api/apiparams.h"
#include "api/promptforms.h"

enum { COMPLETION_TOKENS = 16 };      /* max_tokens of the completions API where it is not given */
#define ARENA_MAX ((size_t)512 << 20) /* far above what the largest body can ask for */

void bt_api_request_deinit(bt_api_request *request)
{
    bt_arena_deinit(&request->arena);
    *request = (bt_api_request){0};
}

static bt_status read_stop(const bt_json *stop, bt_api_request *out, bt_err *err)
{
    bt_json_kind kind = bt_json_kind_of(stop);
    if (kind != BT_JSON_STRING && kind != BT_JSON_ARRAY) {
        return bt_fail_param(err, BT_E_INVALID, "stop",
                             "stop must be a string or a list of strings, not %s",
                             bt_json_kind_text(kind));
    }
    size_t n = kind == BT_JSON_STRING ? 1 : bt_json_count(stop);
    if (n > BETOKEN_STOP_MAX) {
        return bt_fail_param(err, BT_E_INVALID, "stop", "at most %d stop strings, not %zu",
                             BETOKEN_STOP_MAX, n);
    }
    betoken_text *list = bt_arena_calloc(&out->arena, n + 1, sizeof *list);
    for (size_t i = 0; list != NULL && i < n; i++) {
        const bt_json *value = kind == BT_JSON_STRING ? stop : bt_json_at(stop, i);
        if (bt_json_kind_of(value) != BT_JSON_STRING) {
            return bt_fail_param(err, BT_E_INVALID, "stop", "stop[%zu] must be a string, not %s", i,
                                 bt_json_kind_text(bt_json_kind_of(value)));
        }
        bt_str text = bt_json_str(value);
        if (text.n == 0 || text.n > BETOKEN_STOP_BYTES_MAX) {
            return bt_fail_param(err, BT_E_INVALID, "stop",
                                 "stop[%zu] has %zu bytes; 1 to %d are allowed", i, text.n,
                                 BETOKEN_STOP_BYTES_MAX);
        }
        char *copy = bt_arena_dup(&out->arena, text.p, text.n);
        if (copy == NULL) {
            list = NULL;
            break;
        }
        list[i] = (betoken_text){copy, text.n};
    }
    if (list == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for %zu stop strings", n);
    }
    for (size_t i = 0; i < out->n_items; i++) {
        out->item[i].stop = list;
        out->item[i].n_stop = n;
    }
    return BT_OK;
}

static bt_status read_stop_ids(const bt_json *list, bt_api_request *out, bt_err *err)
{
    int32_t *ids = NULL;
    size_t n = 0;
    if (bt_json_kind_of(list) != BT_JSON_ARRAY) {
        return bt_fail_param(err, BT_E_INVALID, "stop_token_ids",
                             "stop_token_ids must be a list of token ids, not %s",
                             bt_json_kind_text(bt_json_kind_of(list)));
    }
    BT_TRY(bt_api_ids_read(list, "stop_token_ids", "stop_token_ids", &out->arena, &ids, &n, err));
    for (size_t i = 0; i < out->n_items; i++) {
        out->item[i].stop_token_ids = ids;
        out->item[i].n_stop_token_ids = n;
    }
    return BT_OK;
}

static bt_status read_stream_options(const bt_api_fields *fields, bt_api_request *out, bt_err *err)
{
    const char *name = "stream_options";
    if (fields->stream_options == NULL) {
        return BT_OK;
    }
    if (!out->stream) {
        return bt_fail_param(err, BT_E_INVALID, name, "stream_options needs \"stream\": true");
    }
    void *iter = NULL;
    bt_str key;
    const bt_json *value;
    while (bt_json_next(fields->stream_options, &iter, &key, &value)) {
        bool usage = bt_str_eqz(key, "include_usage");
        bool running = bt_str_eqz(key, "continuous_usage_stats");
        bt_json_kind kind = bt_json_kind_of(value);
        if (!usage && !running) {
            out->n_unknown++;
        } else if (kind != BT_JSON_NULL && kind != BT_JSON_BOOL) {
            return bt_fail_param(err, BT_E_INVALID, name,
                                 "stream_options.%.*s must be true or false, not %s", (int)key.n,
                                 key.p, bt_json_kind_text(kind));
        } else if (running && kind == BT_JSON_BOOL && bt_json_bool(value)) {
            return bt_fail_param(err, BT_E_INVALID, name,
                                 "stream_options.continuous_usage_stats is not supported yet");
        } else if (usage && kind == BT_JSON_BOOL) {
            out->include_usage = bt_json_bool(value);
        }
    }
    return BT_OK;
}

/* Completions: a count. Chats: a boolean, and a count beside it. */
static bt_status read_logprobs(const bt_api_fields *fields, bt_api_request *out, int *n_logprobs,
                               bt_err *err)
{
    const bt_json *value = fields->logprobs;
    char quote[BT_API_QUOTE_MAX];
    int64_t n = -1;
    if (out->kind == BT_API_CHAT) {
        if (value != NULL && bt_json_kind_of(value) != BT_JSON_BOOL) {
            return bt_fail_param(err, BT_E_INVALID, "logprobs",
                                 "logprobs must be true or false, not %s",
                                 bt_api_quote(value, quote));
        }
        bool on = value != NULL && bt_json_bool(value);
        if (!on && fields->top_logprobs > 0) {
            return bt_fail_param(err, BT_E_INVALID, "top_logprobs",
                                 "top_logprobs needs \"logprobs\": true");
        }
        n = on ? BT_MAX(fields->top_logprobs, 0) : -1;
    } else if (value != NULL) {
        if (!bt_api_integer(value, &n) || n < 0 || n > INT32_MAX) {
            return bt_fail_param(err, BT_E_INVALID, "logprobs",
                                 "logprobs must be an integer, at least 0, not %s",
                                 bt_api_quote(value, quote));
        }
    }
    *n_logprobs = (int)n;
    return BT_OK;
}

static bt_status read_prompt(const bt_api_fields *fields, bt_api_request *out, bt_err *err)
{
    int n_given =
        (fields->prompt != NULL) + (fields->prompt_token_ids != NULL) + (fields->messages != NULL);
    if (n_given > 1) {
        return bt_fail_param(err, BT_E_INVALID, "prompt",
                             "give one of prompt, prompt_token_ids and messages, not several");
    }
    if (fields->messages != NULL) {
        return bt_api_messages_read(fields->messages, out, err);
    }
    if (fields->prompt_token_ids != NULL) {
        const bt_json *list = fields->prompt_token_ids;
        bool array = bt_json_kind_of(list) == BT_JSON_ARRAY;
        if (!array ||
            (bt_json_count(list) > 0 && bt_json_kind_of(bt_json_at(list, 0)) == BT_JSON_STRING)) {
            return bt_fail_param(err, BT_E_INVALID, "prompt_token_ids",
                                 "prompt_token_ids must be a list of token ids");
        }
        return bt_api_prompts_read(list, "prompt_token_ids", out, err);
    }
    if (fields->prompt != NULL) {
        return bt_api_prompts_read(fields->prompt, "prompt", out, err);
    }
    const char *name = out->kind == BT_API_CHAT ? "messages" : "prompt";
    return bt_fail_param(err, BT_E_INVALID, name, "%s is missing", name);
}

static void fill_items(const bt_api_fields *fields, int n_logprobs, bt_api_request *out)
{
    int64_t max_tokens =
        fields->max_completion_tokens >= 0 ? fields->max_completion_tokens : fields->max_tokens;
    out->max_tokens_given = max_tokens >= 0;
    if (max_tokens < 0 && out->kind == BT_API_COMPLETION) {
        max_tokens = COMPLETION_TOKENS;
    }
    for (size_t i = 0; i < out->n_items; i++) {
        betoken_request *item = &out->item[i];
        item->temperature = fields->temperature;
        item->top_p = fields->top_p;
        item->min_p = fields->min_p;
        item->top_k = (int32_t)fields->top_k;
        item->seed_given = fields->seed_json != NULL;
        item->seed = (uint64_t)fields->seed;
        item->max_tokens = max_tokens;
        item->ignore_eos = fields->ignore_eos == 1;
        item->logprobs = n_logprobs;
        item->return_drafts = fields->return_drafts == 1;
        item->add_special_tokens = fields->add_special_tokens;
        item->add_generation_prompt = fields->add_generation_prompt != 0;
    }
}

static bt_status read_object(const bt_json *object, bt_api_request *out, bt_err *err)
{
    bt_api_fields fields;
    int n_logprobs = -1;
    BT_TRY(bt_api_fields_read(object, out->kind, &fields, err));
    out->n_unknown = fields.n_unknown;
    out->stream = fields.stream == 1;
    out->return_token_ids = fields.return_token_ids == 1;
    BT_TRY(read_prompt(&fields, out, err));
    BT_TRY(read_logprobs(&fields, out, &n_logprobs, err));
    BT_TRY(read_stream_options(&fields, out, err));
    fill_items(&fields, n_logprobs, out);
    if (fields.stop != NULL) {
        BT_TRY(read_stop(fields.stop, out, err));
    }
    if (fields.stop_token_ids != NULL) {
        BT_TRY(read_stop_ids(fields.stop_token_ids, out, err));
    }
    if (fields.model != NULL) {
        bt_str name = bt_json_str(fields.model);
        out->model = (bt_str){bt_arena_dup(&out->arena, name.p, name.n), name.n};
        if (out->model.p == NULL) {
            return bt_fail(err, BT_E_NO_MEMORY, "no memory for a model name");
        }
    }
    return BT_OK;
}

static bt_status parse_object(bt_api_kind kind, const bt_json *object, bt_api_request *out,
                              bt_err *err)
{
    bt_api_request request = {.kind = kind};
    bt_arena_init(&request.arena, BT_MEM_ENGINE, 4096, ARENA_MAX);
    bt_status status = read_object(object, &request, err);
    if (status != BT_OK) {
        bt_api_request_deinit(&request);
        return status;
    }
    *out = request;
    return BT_OK;
}

bt_status bt_api_json(bt_str body, bt_json **out, bt_err *err)
{
    bt_status status = bt_json_parse(body, out, err);
    if (status == BT_E_FORMAT) {
        if (err != NULL) {
            err->code = BT_E_INVALID;
        }
        bt_err_prefix(err, "the request is not valid JSON");
        return BT_E_INVALID;
    }
    return status;
}

bt_status bt_api_parse(bt_api_kind kind, bt_str body, bt_api_request *out, bt_err *err)
{
    bt_json *root = NULL;
    BT_TRY(bt_api_json(body, &root, err));
    bt_status status = parse_object(kind, root, out, err);
    bt_json_close(root);
    return status;
}

bt_status bt_api_offline_parse(const bt_json *object, bt_api_request *out, bt_err *err)
{
    return parse_object(BT_API_OFFLINE, object, out, err);
}
