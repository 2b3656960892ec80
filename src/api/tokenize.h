/* SPDX-License-Identifier: MIT
 *
 * tokenize.h: bodies of /tokenize and /detokenize, in vLLM's form (prompt or messages) and in
 * llama.cpp's (content). */
#ifndef BT_API_TOKENIZE_H
#define BT_API_TOKENIZE_H

#include "api/apirequest.h"

typedef struct bt_api_tokenize {
    bt_api_request request; /* item[0] is what betoken_tokenize takes; none for detokenize */
    bool llama;             /* answer in llama.cpp's form */
    bool with_pieces, return_token_strs;
    int32_t *ids; /* detokenize: on the request's arena */
    size_t n_ids;
} bt_api_tokenize;

/* Errors as bt_api_parse. *out: bt_api_tokenize_deinit. */
bt_status bt_api_tokenize_parse(bt_str body, bt_api_tokenize *out, bt_err *err) BT_MUST_USE;
bt_status bt_api_detokenize_parse(bt_str body, bt_api_tokenize *out, bt_err *err) BT_MUST_USE;
void bt_api_tokenize_deinit(bt_api_tokenize *tokenize);

/* Appends the answer. `engine` gives the texts of tokens. */
void bt_api_tokenize_body(const bt_api_tokenize *tokenize, const betoken_engine *engine,
                          const int32_t *ids, size_t n, int max_model_len, bt_buf *out);
void bt_api_detokenize_body(bt_str text, bt_buf *out);

#endif
