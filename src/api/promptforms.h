/* SPDX-License-Identifier: MIT
 *
 * promptforms.h: what a request asks to be continued, in each of its forms. Internal to api. */
#ifndef BT_API_PROMPTFORMS_H
#define BT_API_PROMPTFORMS_H

#include "api/apirequest.h"

/* `prompt`: a text, a list of texts, a list of token ids, or a list of such lists. Fills
 * out->item and out->n_items (items set up by betoken_request_init). `name` is the field's name, for
 * errors. */
bt_status bt_api_prompts_read(const bt_json *prompt, const char *name, bt_api_request *out,
                              bt_err *err) BT_MUST_USE;

/* `messages`: a list of at least one. What is in it is the engine's to check. */
bt_status bt_api_messages_read(const bt_json *messages, bt_api_request *out,
                               bt_err *err) BT_MUST_USE;

/* lint: allow parameters: a place and two names for the message. */
/* A list of token ids, copied to the arena. `where` names it in errors: "prompt[3]". *ids is not
 * NULL on success. */
bt_status bt_api_ids_read(const bt_json *list, const char *where, const char *param,
                          bt_arena *arena, int32_t **ids, size_t *n, bt_err *err) BT_MUST_USE;

/* The tree of a body; malformed JSON is BT_E_INVALID here. *out: bt_json_close. */
bt_status bt_api_json(bt_str body, bt_json **out, bt_err *err) BT_MUST_USE;

/* n items on the arena; BT_E_NO_MEMORY. */
bt_status bt_api_items_new(bt_api_request *out, size_t n, bt_err *err) BT_MUST_USE;

#endif
