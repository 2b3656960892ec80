/* SPDX-License-Identifier: MIT
 *
 * From what a request says to token ids: text is tokenised, chat messages are checked, rendered by
 * the model's template and tokenised with their marks. Runs on the submitting thread. */
#include "engine/engine.h"

#include "base/clock.h"
#include "base/mem.h"
#include "text/json.h"

#include <stdio.h>

enum { RENDERED_MAX = 64 << 20 };

static bt_status check_role(const bt_json *message, size_t idx, bt_err *err)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
    const bt_json *role = bt_json_get(message, "role");
    if (role == NULL || bt_json_kind_of(role) != BT_JSON_STRING) {
        return bt_fail_param(err, BT_E_INVALID, "messages", "messages[%zu].role must be a string",
                             idx);
    }
    for (size_t i = 0; i < BT_COUNT(roles); i++) {
        if (bt_str_eqz(bt_json_str(role), roles[i])) {
            return BT_OK;
        }
    }
    return bt_fail_param(err, BT_E_INVALID, "messages",
                         "messages[%zu].role must be system, developer, user, assistant or tool",
                         idx);
}

/* content: a string, null, or a list of {"type":"text","text":…}, which is joined by newlines as
 * templates that know only strings expect it (what vLLM does). */
static bt_status write_content(bt_jsonw *w, const bt_json *content, size_t idx, bt_err *err)
{
    bt_buf joined;
    bt_buf_init(&joined, BT_MEM_TEXT, RENDERED_MAX);
    bt_status status = BT_OK;
    for (size_t i = 0; i < bt_json_count(content); i++) {
        const bt_json *part = bt_json_at(content, i);
        bool object = bt_json_kind_of(part) == BT_JSON_OBJECT;
        const bt_json *type = object ? bt_json_get(part, "type") : NULL;
        const bt_json *text = object ? bt_json_get(part, "text") : NULL;
        if (type == NULL || bt_json_kind_of(type) != BT_JSON_STRING ||
            !bt_str_eqz(bt_json_str(type), "text") || text == NULL ||
            bt_json_kind_of(text) != BT_JSON_STRING) {
            status = bt_fail_param(err, BT_E_INVALID, "messages",
                                   "messages[%zu].content[%zu] must be {\"type\": \"text\", "
                                   "\"text\": string}; other parts are not supported",
                                   idx, i);
            break;
        }
        bt_buf_pushz(&joined, i > 0 ? "\n" : "");
        bt_buf_push_str(&joined, bt_json_str(text));
    }
    if (status == BT_OK && bt_buf_ok(&joined) != BT_OK) {
        status = bt_fail(err, BT_E_NO_MEMORY, "no memory for the messages");
    }
    if (status == BT_OK) {
        bt_jsonw_str(w, bt_buf_str(&joined));
    }
    bt_buf_deinit(&joined);
    return status;
}

static bt_status write_message(bt_jsonw *w, const bt_json *message, size_t idx, bt_err *err)
{
    if (bt_json_kind_of(message) != BT_JSON_OBJECT) {
        return bt_fail_param(err, BT_E_INVALID, "messages",
                             "messages[%zu] must be an object, not %s", idx,
                             bt_json_kind_text(bt_json_kind_of(message)));
    }
    BT_TRY(check_role(message, idx, err));
    const bt_json *content = bt_json_get(message, "content");
    bt_json_kind kind = content == NULL ? BT_JSON_NULL : bt_json_kind_of(content);
    if (content == NULL || (kind != BT_JSON_STRING && kind != BT_JSON_ARRAY)) {
        return bt_fail_param(err, BT_E_INVALID, "messages",
                             "messages[%zu].content must be a string or a list of text parts", idx);
    }
    bt_jsonw_open(w, '{');
    void *iter = NULL;
    bt_str key;
    const bt_json *value;
    while (bt_json_next(message, &iter, &key, &value)) {
        char name[128];
        if (key.n >= sizeof name) {
            return bt_fail_param(err, BT_E_INVALID, "messages",
                                 "messages[%zu] has a key of %zu bytes", idx, key.n);
        }
        snprintf(name, sizeof name, "%.*s", (int)key.n, key.p);
        bt_jsonw_key(w, name);
        if (value == content && kind == BT_JSON_ARRAY) {
            BT_TRY(write_content(w, content, idx, err));
            continue;
        }
        bt_buf raw;
        bt_buf_init(&raw, BT_MEM_TEXT, RENDERED_MAX);
        bt_json_dump(value, &raw);
        bt_jsonw_raw(w, bt_buf_str(&raw));
        bt_status ok = bt_buf_ok(&raw);
        bt_buf_deinit(&raw);
        BT_TRY(ok);
    }
    bt_jsonw_close(w, '}');
    return BT_OK;
}

/* Checks the messages and gives them in the form that templates expect. *out: bt_json_close. */
static bt_status parse_messages(betoken_text text, bt_json **out, bt_err *err)
{
    bt_json *raw = NULL;
    bt_buf buf;
    bt_jsonw w;
    bt_buf_init(&buf, BT_MEM_TEXT, RENDERED_MAX);
    bt_jsonw_init(&w, &buf);
    bt_status status = bt_json_parse((bt_str){text.p, text.n}, &raw, err);
    if (status != BT_OK) {
        goto fail;
    }
    if (bt_json_kind_of(raw) != BT_JSON_ARRAY || bt_json_count(raw) == 0) {
        status = bt_fail_param(err, BT_E_INVALID, "messages",
                               "messages must be a list of at least one message");
        goto fail;
    }
    bt_jsonw_open(&w, '[');
    for (size_t i = 0; i < bt_json_count(raw); i++) {
        BT_TRY_GOTO(status, write_message(&w, bt_json_at(raw, i), i, err));
    }
    bt_jsonw_close(&w, ']');
    status = bt_buf_ok(&buf) == BT_OK ? bt_json_parse(bt_buf_str(&buf), out, err)
                                      : bt_fail(err, BT_E_NO_MEMORY, "no memory for the messages");
fail:
    bt_json_close(raw);
    bt_buf_deinit(&buf);
    return status;
}

static bt_status render(betoken_engine *e, const betoken_request *req, bt_jinja_output *out,
                        bt_err *err)
{
    if (e->tmpl == NULL) {
        return bt_fail_param(err, BT_E_INVALID, "messages",
                             "the model has no chat template; give one with --chat-template");
    }
    bt_json *messages = NULL, *generate = NULL, *null = NULL;
    bt_status status = parse_messages(req->messages, &messages, err);
    if (status == BT_OK) {
        status = bt_json_parse(req->add_generation_prompt ? BT_STR("true") : BT_STR("false"),
                               &generate, err);
    }
    if (status == BT_OK) {
        status = bt_json_parse(BT_STR("null"), &null, err);
    }
    if (status == BT_OK) {
        const bt_jinja_var vars[] = {
            {.name = "messages", .json = messages},
            {.name = "add_generation_prompt", .json = generate},
            {.name = "bos_token", .text = bt_tokenizer_bos_text(e->tok), .trusted = true},
            {.name = "eos_token", .text = bt_tokenizer_eos_text(e->tok), .trusted = true},
            {.name = "tools", .json = null},
            {.name = "documents", .json = null},
        };
        bt_jinja_args args = {.vars = vars,
                              .n_vars = BT_COUNT(vars),
                              .now_unix_s = bt_clock_unix_s(),
                              .output_max = RENDERED_MAX};
        status = bt_jinja_render(e->tmpl, &args, out, err);
    }
    bt_json_close(messages);
    bt_json_close(generate);
    bt_json_close(null);
    return status;
}

static bt_status check_ids(const betoken_engine *e, const betoken_request *req, bt_ids *ids,
                           bt_err *err)
{
    int32_t n_known = BT_MIN((int32_t)e->model->hp.vocab_size, bt_tokenizer_count(e->tok));
    for (size_t i = 0; i < req->n_prompt_token_ids; i++) {
        int32_t id = req->prompt_token_ids[i];
        if (id < 0 || id >= n_known) {
            return bt_fail_param(err, BT_E_INVALID, "prompt",
                                 "prompt[%zu] is %d; token ids are 0 to %d", i, (int)id,
                                 (int)n_known - 1);
        }
        BT_TRY(bt_ids_push(ids, id));
    }
    return BT_OK;
}

/* A tokenizer may know more tokens than the model has rows for (a token added without resizing). */
static bt_status check_rows(const betoken_engine *e, const bt_ids *ids, bt_err *err)
{
    for (size_t i = 0; i < ids->n; i++) {
        if (ids->id[i] >= e->n_vocab) {
            return bt_fail_param(err, BT_E_INVALID, "prompt",
                                 "the prompt holds token id %d; the model has rows for 0 to %d",
                                 (int)ids->id[i], e->n_vocab - 1);
        }
    }
    return BT_OK;
}

static bt_status find_ids(betoken_engine *e, const betoken_request *req, bt_ids *ids, bt_err *err)
{
    int n_given =
        (req->prompt.p != NULL) + (req->prompt_token_ids != NULL) + (req->messages.p != NULL);
    if (n_given != 1) {
        return bt_fail_param(err, BT_E_INVALID, "prompt",
                             "exactly one of prompt, prompt_token_ids and messages must be given");
    }
    if (req->prompt_token_ids != NULL) {
        return check_ids(e, req, ids, err);
    }
    if (req->prompt.p != NULL) {
        bt_encode_args args = {.text = {req->prompt.p, req->prompt.n},
                               .parse_special = true,
                               .add_special = req->add_special_tokens != 0};
        bt_status status = bt_tokenizer_encode(e->tok, &args, ids, err);
        if (status != BT_OK && err != NULL && err->param[0] == '\0') {
            return bt_fail_param(err, status, "prompt", "%s", err->message);
        }
        return status;
    }
    bt_jinja_output text;
    BT_TRY(render(e, req, &text, err));
    bt_encode_args args = {.text = {text.text, text.n},
                           .runs = text.runs,
                           .n_runs = text.n_runs,
                           .add_special = req->add_special_tokens == 1};
    bt_status status = bt_tokenizer_encode(e->tok, &args, ids, err);
    bt_jinja_output_deinit(&text);
    return status;
}

bt_status bt_prompt_ids(betoken_engine *e, const betoken_request *req, bt_ids *ids, bt_err *err)
{
    BT_TRY(find_ids(e, req, ids, err));
    return check_rows(e, ids, err);
}

betoken_code betoken_tokenize(betoken_engine *e, const betoken_request *req, int32_t **ids,
                              size_t *n, betoken_error *error)
{
    bt_ids list = {0};
    bt_err err = {0};
    bt_status status = bt_prompt_ids(e, req, &list, &err);
    int32_t *copy = status == BT_OK ? bt_mem_calloc(BT_MEM_TOKEN, list.n + 1, sizeof *copy) : NULL;
    if (status == BT_OK && copy == NULL) {
        status = bt_fail(&err, BT_E_NO_MEMORY, "no memory for %zu ids", list.n);
    }
    if (status == BT_OK) {
        for (size_t i = 0; i < list.n; i++) {
            copy[i] = list.id[i];
        }
        *ids = copy;
        *n = list.n;
    }
    bt_ids_deinit(&list);
    return status == BT_OK ? BETOKEN_OK : bt_public_error(status, &err, error);
}

betoken_code betoken_detokenize(betoken_engine *e, const int32_t *ids, size_t n, char **text,
                                size_t *n_text, betoken_error *error)
{
    bt_buf out;
    bt_err err = {0};
    bt_buf_init(&out, BT_MEM_TEXT, RENDERED_MAX);
    size_t room = bt_tokenizer_bytes_max(e->tok) * 3 + 16;
    bt_detok d;
    bt_detok_init(&d, e->tok, true);
    bt_status status = BT_OK;
    for (size_t i = 0; i < n && status == BT_OK; i++) {
        if (ids[i] < 0 || ids[i] >= bt_tokenizer_count(e->tok)) {
            status = bt_fail_param(&err, BT_E_INVALID, "tokens",
                                   "tokens[%zu] is %d; token ids are 0 to %d", i, (int)ids[i],
                                   (int)bt_tokenizer_count(e->tok) - 1);
        } else {
            status = bt_buf_reserve(&out, room);
        }
        if (status == BT_OK) {
            out.n += bt_detok_push(&d, ids[i], false, out.p + out.n);
        }
    }
    if (status == BT_OK) {
        status = bt_buf_reserve(&out, room);
    }
    if (status == BT_OK) {
        out.n += bt_detok_flush(&d, out.p + out.n);
        out.p[out.n] = '\0';
        *n_text = out.n;
        *text = bt_buf_take(&out);
        return BETOKEN_OK;
    }
    if (err.code == BT_OK) {
        bt_fail(&err, status, "no memory for the text of %zu tokens", n);
    }
    bt_buf_deinit(&out);
    return bt_public_error(status, &err, error);
}
