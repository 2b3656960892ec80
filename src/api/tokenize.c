/* SPDX-License-Identifier: MIT
 *
 * One endpoint for two clients: which form a body has is told by its key. */
#include "api/tokenize.h"

#include "api/apiparams.h"
#include "api/promptforms.h"
#include "text/utf8.h"

#define ARENA_MAX ((size_t)512 << 20)

static bt_status read_tokenize(const bt_api_fields *f, bt_api_tokenize *out, bt_err *err)
{
    int n_given = (f->prompt != NULL) + (f->messages != NULL) + (f->content != NULL);
    if (n_given != 1) {
        return bt_fail_param(err, BT_E_INVALID, "prompt",
                             "give exactly one of prompt, messages and content");
    }
    out->llama = f->content != NULL;
    out->with_pieces = f->with_pieces == 1;
    out->return_token_strs = f->return_token_strs == 1;
    if (f->messages != NULL) {
        BT_TRY(bt_api_messages_read(f->messages, &out->request, err));
        out->request.item[0].add_special_tokens = f->add_special_tokens;
        out->request.item[0].add_generation_prompt = f->add_generation_prompt != 0;
        return BT_OK;
    }
    const bt_json *text = out->llama ? f->content : f->prompt;
    if (bt_json_kind_of(text) != BT_JSON_STRING) {
        return bt_fail_param(err, BT_E_INVALID, out->llama ? "content" : "prompt",
                             "%s must be a string, not %s", out->llama ? "content" : "prompt",
                             bt_json_kind_text(bt_json_kind_of(text)));
    }
    BT_TRY(bt_api_prompts_read(text, "prompt", &out->request, err));
    int llama_special = f->add_special == 1 ? 1 : 0;
    out->request.item[0].add_special_tokens = out->llama ? llama_special : f->add_special_tokens;
    return BT_OK;
}

static bt_status read_detokenize(const bt_api_fields *f, bt_api_tokenize *out, bt_err *err)
{
    if (f->tokens == NULL || bt_json_kind_of(f->tokens) != BT_JSON_ARRAY) {
        return bt_fail_param(err, BT_E_INVALID, "tokens", "tokens must be a list of token ids");
    }
    return bt_api_ids_read(f->tokens, "tokens", "tokens", &out->request.arena, &out->ids,
                           &out->n_ids, err);
}

static bt_status read_tree(const bt_json *root, bt_api_kind kind, bt_api_tokenize *out, bt_err *err)
{
    bt_api_fields fields;
    BT_TRY(bt_api_fields_read(root, kind, &fields, err));
    out->request.n_unknown = fields.n_unknown;
    if (fields.model != NULL) {
        bt_str name = bt_json_str(fields.model);
        out->request.model = (bt_str){bt_arena_dup(&out->request.arena, name.p, name.n), name.n};
        if (out->request.model.p == NULL) {
            return bt_fail(err, BT_E_NO_MEMORY, "no memory for a model name");
        }
    }
    return kind == BT_API_TOKENIZE ? read_tokenize(&fields, out, err)
                                   : read_detokenize(&fields, out, err);
}

static bt_status parse(bt_str body, bt_api_kind kind, bt_api_tokenize *out, bt_err *err)
{
    bt_json *root = NULL;
    BT_TRY(bt_api_json(body, &root, err));
    bt_api_tokenize result = {.request.kind = kind};
    bt_arena_init(&result.request.arena, BT_MEM_ENGINE, 4096, ARENA_MAX);
    bt_status status = read_tree(root, kind, &result, err);
    bt_json_close(root);
    if (status != BT_OK) {
        bt_api_tokenize_deinit(&result);
        return status;
    }
    *out = result;
    return BT_OK;
}

bt_status bt_api_tokenize_parse(bt_str body, bt_api_tokenize *out, bt_err *err)
{
    return parse(body, BT_API_TOKENIZE, out, err);
}

bt_status bt_api_detokenize_parse(bt_str body, bt_api_tokenize *out, bt_err *err)
{
    return parse(body, BT_API_DETOKENIZE, out, err);
}

void bt_api_tokenize_deinit(bt_api_tokenize *tokenize)
{
    bt_api_request_deinit(&tokenize->request);
    *tokenize = (bt_api_tokenize){0};
}

/* llama.cpp's form of a piece: a string, or a list of bytes where it is not whole characters. */
static void write_piece(const betoken_engine *engine, int32_t id, bt_jsonw *w)
{
    betoken_text text = betoken_token_bytes(engine, id);
    bt_str s = {text.p, text.n};
    bt_jsonw_open(w, '{');
    bt_jsonw_key(w, "id");
    bt_jsonw_int(w, id);
    bt_jsonw_key(w, "piece");
    if (bt_utf8_valid(s) == s.n) {
        bt_jsonw_str(w, s);
    } else {
        bt_jsonw_open(w, '[');
        for (size_t i = 0; i < s.n; i++) {
            bt_jsonw_int(w, (unsigned char)s.p[i]);
        }
        bt_jsonw_close(w, ']');
    }
    bt_jsonw_close(w, '}');
}

void bt_api_tokenize_body(const bt_api_tokenize *tokenize, const betoken_engine *engine,
                          const int32_t *ids, size_t n, int max_model_len, bt_buf *out)
{
    bt_jsonw w;
    bt_jsonw_init(&w, out);
    bt_jsonw_open(&w, '{');
    if (!tokenize->llama) {
        bt_jsonw_key(&w, "count");
        bt_jsonw_int(&w, (int64_t)n);
        bt_jsonw_key(&w, "max_model_len");
        bt_jsonw_int(&w, max_model_len);
    }
    bt_jsonw_key(&w, "tokens");
    bt_jsonw_open(&w, '[');
    for (size_t i = 0; i < n; i++) {
        if (tokenize->llama && tokenize->with_pieces) {
            write_piece(engine, ids[i], &w);
        } else {
            bt_jsonw_int(&w, ids[i]);
        }
    }
    bt_jsonw_close(&w, ']');
    if (!tokenize->llama) {
        bt_jsonw_key(&w, "token_strs");
        if (!tokenize->return_token_strs) {
            bt_jsonw_null(&w);
        } else {
            bt_jsonw_open(&w, '[');
            for (size_t i = 0; i < n; i++) {
                betoken_text text = betoken_token_bytes(engine, ids[i]);
                bt_jsonw_str(&w, (bt_str){text.p, text.n});
            }
            bt_jsonw_close(&w, ']');
        }
    }
    bt_jsonw_close(&w, '}');
}

void bt_api_detokenize_body(bt_str text, bt_buf *out)
{
    bt_jsonw w;
    bt_jsonw_init(&w, out);
    bt_jsonw_open(&w, '{');
    bt_jsonw_key(&w, "prompt");
    bt_jsonw_str(&w, text);
    bt_jsonw_key(&w, "content");
    bt_jsonw_str(&w, text);
    bt_jsonw_close(&w, '}');
}
