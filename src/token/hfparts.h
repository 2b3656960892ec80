/* SPDX-License-Identifier: MIT
 *
 * hfparts.h: the parts of tokenizer.json around its model, and small look-ups for them. */
#ifndef BT_TOKEN_HFPARTS_H
#define BT_TOKEN_HFPARTS_H

#include "text/json.h"
#include "token/tokimpl.h"

/* A member that is an object, else NULL. */
const bt_json *bt_hf_object(const bt_json *object, const char *key);
/* A member that is a string, else the empty string. */
bt_str bt_hf_text(const bt_json *object, const char *key);
/* A member that is a boolean, else `otherwise`. */
bool bt_hf_flag(const bt_json *object, const char *key, bool otherwise);

/* Parses a file of the checkpoint's directory that must be an object. */
bt_status bt_hf_read_json(const char *dir, const char *name, bt_json **out,
                          bt_err *err) BT_MUST_USE;

/* Each takes the value of its key (NULL or null: absent). */
bt_status bt_hf_load_added(bt_tokenizer *t, const bt_json *list, int64_t id_max,
                           bt_err *err) BT_MUST_USE;
/* Makes the added tokens findable, once the normalizers are known and the vocabulary is decoded. One that
 * is sought after normalisation is sought, and decoded, in its normalised form, as in the library. */
bt_status bt_hf_index_added(bt_tokenizer *t, bt_err *err) BT_MUST_USE;
bt_status bt_hf_load_normalizer(bt_tokenizer *t, const bt_json *value, bt_err *err) BT_MUST_USE;
bt_status bt_hf_load_pretok(bt_tokenizer *t, const bt_json *value, bt_err *err) BT_MUST_USE;
bt_status bt_hf_load_decoder(bt_tokenizer *t, const bt_json *value, bt_err *err) BT_MUST_USE;
bt_status bt_hf_load_post(bt_tokenizer *t, const bt_json *value, bt_err *err) BT_MUST_USE;

#endif
