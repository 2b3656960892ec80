/* SPDX-License-Identifier: MIT */
#include "token/hfparts.h"

#include <stdio.h>

const bt_json *bt_hf_object(const bt_json *object, const char *key)
{
    const bt_json *v = bt_json_get(object, key);
    return v != NULL && bt_json_kind_of(v) == BT_JSON_OBJECT ? v : NULL;
}

bt_str bt_hf_text(const bt_json *object, const char *key)
{
    const bt_json *v = bt_json_get(object, key);
    return v != NULL && bt_json_kind_of(v) == BT_JSON_STRING ? bt_json_str(v) : (bt_str){"", 0};
}

bool bt_hf_flag(const bt_json *object, const char *key, bool otherwise)
{
    const bt_json *v = bt_json_get(object, key);
    return v != NULL && bt_json_kind_of(v) == BT_JSON_BOOL ? bt_json_bool(v) : otherwise;
}

static bool is_absent(const bt_json *value)
{
    return value == NULL || bt_json_kind_of(value) == BT_JSON_NULL;
}

static bt_status unsupported(const char *part, bt_str type, bt_err *err)
{
    return bt_fail(err, BT_E_UNSUPPORTED, "%s \"%.*s\" is not supported", part,
                   (int)BT_MIN(type.n, (size_t)60), type.p);
}

/* Calls `one` for the value itself, or for each member of a Sequence (one level, as the library
 * writes them). */
typedef bt_status part_fn(bt_tokenizer *t, const bt_json *part, bt_str type, bt_err *err);

static bt_status each(bt_tokenizer *t, const bt_json *value, const char *list_key, part_fn *one,
                      bt_err *err)
{
    if (bt_json_kind_of(value) != BT_JSON_OBJECT) {
        return bt_fail(err, BT_E_FORMAT, "an object with a type is expected");
    }
    if (!bt_str_eqz(bt_hf_text(value, "type"), "Sequence")) {
        return one(t, value, bt_hf_text(value, "type"), err);
    }
    const bt_json *list = bt_json_get(value, list_key);
    if (list == NULL || bt_json_kind_of(list) != BT_JSON_ARRAY) {
        return bt_fail(err, BT_E_FORMAT, "a Sequence lacks its \"%s\"", list_key);
    }
    for (size_t i = 0; i < bt_json_count(list); i++) {
        const bt_json *part = bt_json_at(list, i);
        if (bt_json_kind_of(part) != BT_JSON_OBJECT) {
            return bt_fail(err, BT_E_FORMAT, "%s[%zu] is not an object", list_key, i);
        }
        BT_TRY(one(t, part, bt_hf_text(part, "type"), err));
    }
    return BT_OK;
}

bt_status bt_hf_load_added(bt_tokenizer *t, const bt_json *list, int64_t id_max, bt_err *err)
{
    if (is_absent(list)) {
        return BT_OK;
    }
    if (bt_json_kind_of(list) != BT_JSON_ARRAY) {
        return bt_fail(err, BT_E_FORMAT, "added_tokens must be a list");
    }
    for (size_t i = 0; i < bt_json_count(list); i++) {
        const bt_json *item = bt_json_at(list, i);
        bool object = bt_json_kind_of(item) == BT_JSON_OBJECT;
        const bt_json *id = object ? bt_json_get(item, "id") : NULL;
        bt_str text = object ? bt_hf_text(item, "content") : (bt_str){"", 0};
        if (id == NULL || bt_json_kind_of(id) != BT_JSON_INT || text.n == 0) {
            return bt_fail(err, BT_E_FORMAT, "added_tokens[%zu] lacks an id or its content", i);
        }
        BT_TRY(bt_vocab_set(&t->vocab, bt_json_int(id), text, id_max, err));
        bt_vocab_entry *e = &t->vocab.entries[bt_json_int(id)];
        e->is_added = true;
        e->is_special = bt_hf_flag(item, "special", false);
        bt_added added = {.text = e->written,
                          .id = (int32_t)bt_json_int(id),
                          .special = e->is_special,
                          .normalized = bt_hf_flag(item, "normalized", !e->is_special),
                          .single_word = bt_hf_flag(item, "single_word", false),
                          .lstrip = bt_hf_flag(item, "lstrip", false),
                          .rstrip = bt_hf_flag(item, "rstrip", false)};
        BT_TRY(bt_added_push(&t->added, &added, err));
    }
    return BT_OK;
}

bt_status bt_hf_index_added(bt_tokenizer *t, bt_err *err)
{
    bt_buf work[2];
    bt_buf_init(&work[0], BT_MEM_TOKEN, 1 << 20);
    bt_buf_init(&work[1], BT_MEM_TOKEN, 1 << 20);
    bt_status status = BT_OK;
    for (int i = 0; i < t->added.n && status == BT_OK; i++) {
        bt_added *added = &t->added.token[i];
        bt_str text = added->text;
        if (added->normalized && t->n_norm > 0) {
            status = bt_tokenizer_normalise(t, added->text, work, &text);
            text = status == BT_OK ? bt_tokenizer_keep(t, text) : text;
            if (status == BT_OK && text.p == NULL) {
                status = BT_E_NO_MEMORY;
            }
            if (status == BT_OK && !t->byte_level) {
                status = bt_vocab_decode_marks(&t->vocab, added->id, text);
            }
        }
        if (status != BT_OK || text.n == 0) {
            status = bt_fail(err, status != BT_OK ? status : BT_E_FORMAT,
                             "added token %d cannot be normalised", added->id);
            break;
        }
        added->text = text;
    }
    bt_buf_deinit(&work[0]);
    bt_buf_deinit(&work[1]);
    if (status == BT_OK) {
        bt_added_sort(&t->added);
    }
    return status;
}

static bt_status add_norm(bt_tokenizer *t, bt_norm_kind kind, bt_str from, bt_str to, bt_err *err)
{
    if (t->n_norm == BT_NORM_STEPS_MAX) {
        return bt_fail(err, BT_E_LIMIT, "more than %d normalizers", BT_NORM_STEPS_MAX);
    }
    bt_norm_step step = {
        .kind = kind, .from = bt_tokenizer_keep(t, from), .to = bt_tokenizer_keep(t, to)};
    if (step.from.p == NULL || step.to.p == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for a normalizer");
    }
    t->norm[t->n_norm++] = step;
    return BT_OK;
}

static bt_status load_norm(bt_tokenizer *t, const bt_json *part, bt_str type, bt_err *err)
{
    if (bt_str_eqz(type, "NFC")) {
        return add_norm(t, BT_NORM_NFC, BT_STR(""), BT_STR(""), err);
    }
    if (bt_str_eqz(type, "Prepend")) {
        return add_norm(t, BT_NORM_PREPEND, BT_STR(""), bt_hf_text(part, "prepend"), err);
    }
    const bt_json *pattern = bt_hf_object(part, "pattern");
    if (bt_str_eqz(type, "Replace") && pattern != NULL && bt_hf_text(pattern, "String").n > 0) {
        return add_norm(t, BT_NORM_REPLACE, bt_hf_text(pattern, "String"),
                        bt_hf_text(part, "content"), err);
    }
    return unsupported("normalizer", type, err);
}

bt_status bt_hf_load_normalizer(bt_tokenizer *t, const bt_json *value, bt_err *err)
{
    return is_absent(value) ? BT_OK : each(t, value, "normalizers", load_norm, err);
}

static bt_status load_split(bt_tokenizer *t, const bt_json *part, bt_str type, bt_err *err)
{
    if (t->byte_level) {
        return bt_fail(err, BT_E_UNSUPPORTED, "pre-tokenizer \"%.*s\" after ByteLevel",
                       (int)BT_MIN(type.n, (size_t)60), type.p);
    }
    if (bt_str_eqz(type, "ByteLevel")) {
        t->byte_level = true;
        t->add_prefix_space = bt_hf_flag(part, "add_prefix_space", true);
        if (t->add_prefix_space && t->pretok.n > 0) {
            return bt_fail(err, BT_E_UNSUPPORTED, "add_prefix_space after other pre-tokenizers");
        }
        return bt_hf_flag(part, "use_regex", true)
                   ? bt_pretok_add(&t->pretok, BT_STR(BT_PRETOK_GPT2), true, err)
                   : BT_OK;
    }
    if (bt_str_eqz(type, "Digits")) {
        return bt_pretok_add(&t->pretok,
                             bt_hf_flag(part, "individual_digits", false) ? BT_STR("\\p{N}")
                                                                          : BT_STR("\\p{N}+"),
                             true, err);
    }
    const bt_json *pattern = bt_hf_object(part, "pattern");
    bt_str regex = pattern == NULL ? (bt_str){"", 0} : bt_hf_text(pattern, "Regex");
    if (bt_str_eqz(type, "Split") && regex.n > 0) {
        bt_str behavior = bt_hf_text(part, "behavior");
        bool inverted = bt_hf_flag(part, "invert", false);
        if (bt_str_eqz(behavior, "Isolated") || (bt_str_eqz(behavior, "Removed") && inverted)) {
            return bt_pretok_add(&t->pretok, regex, bt_str_eqz(behavior, "Isolated"), err);
        }
        return unsupported("Split behavior", behavior, err);
    }
    return unsupported("pre-tokenizer", type, err);
}

bt_status bt_hf_load_pretok(bt_tokenizer *t, const bt_json *value, bt_err *err)
{
    return is_absent(value) ? BT_OK : each(t, value, "pretokenizers", load_split, err);
}

static bt_status load_decoder(bt_tokenizer *t, const bt_json *part, bt_str type, bt_err *err)
{
    if (bt_str_eqz(type, "ByteLevel") == t->byte_level && t->byte_level) {
        return BT_OK;
    }
    if (t->byte_level || bt_str_eqz(type, "ByteLevel")) {
        return bt_fail(err, BT_E_UNSUPPORTED,
                       "ByteLevel must be both the pre-tokenizer and the decoder, or neither "
                       "(decoder \"%.*s\")",
                       (int)BT_MIN(type.n, (size_t)60), type.p);
    }
    t->each_byte = t->each_byte || bt_str_eqz(type, "ByteFallback");
    const bt_json *pattern = bt_hf_object(part, "pattern");
    if (bt_str_eqz(type, "ByteFallback") || bt_str_eqz(type, "Fuse") ||
        (bt_str_eqz(type, "Replace") && pattern != NULL &&
         bt_str_eqz(bt_hf_text(pattern, "String"), "\xE2\x96\x81") &&
         bt_str_eqz(bt_hf_text(part, "content"), " "))) {
        return BT_OK; /* done by the vocabulary's bytes */
    }
    const bt_json *start = bt_json_get(part, "start"), *stop = bt_json_get(part, "stop");
    if (bt_str_eqz(type, "Strip") && bt_str_eqz(bt_hf_text(part, "content"), " ") &&
        start != NULL && bt_json_kind_of(start) == BT_JSON_INT && bt_json_int(start) <= 1 &&
        stop != NULL && bt_json_kind_of(stop) == BT_JSON_INT && bt_json_int(stop) == 0) {
        t->strip_start = bt_json_int(start) == 1;
        return BT_OK;
    }
    return unsupported("decoder", type, err);
}

bt_status bt_hf_load_decoder(bt_tokenizer *t, const bt_json *value, bt_err *err)
{
    if (is_absent(value)) {
        return bt_fail(err, BT_E_UNSUPPORTED, "a tokenizer without decoder is not supported");
    }
    return each(t, value, "decoders", load_decoder, err);
}

static bt_status push_special(bt_tokenizer *t, bt_str name, const bt_json *tokens, bool before,
                              bt_err *err)
{
    char key[128];
    if (name.n >= sizeof key) {
        return bt_fail(err, BT_E_FORMAT, "a special token of %zu bytes", name.n);
    }
    snprintf(key, sizeof key, "%.*s", (int)name.n, name.p);
    const bt_json *token = bt_hf_object(tokens, key);
    const bt_json *ids = token == NULL ? NULL : bt_json_get(token, "ids");
    if (ids == NULL || bt_json_kind_of(ids) != BT_JSON_ARRAY) {
        return bt_fail(err, BT_E_FORMAT, "post_processor: special token \"%s\" has no ids", key);
    }
    int32_t *list = before ? t->before : t->after;
    int n = before ? t->n_before : t->n_after;
    for (size_t i = 0; i < bt_json_count(ids); i++) {
        const bt_json *id = bt_json_at(ids, i);
        if (bt_json_kind_of(id) != BT_JSON_INT || bt_json_int(id) < 0 ||
            bt_json_int(id) >= t->vocab.n || n >= BT_POST_IDS_MAX) {
            return bt_fail(err, BT_E_FORMAT, "post_processor: bad id of \"%s\"", key);
        }
        list[n++] = (int32_t)bt_json_int(id);
    }
    *(before ? &t->n_before : &t->n_after) = n;
    return BT_OK;
}

static bt_status load_template(bt_tokenizer *t, const bt_json *part, bt_err *err)
{
    const bt_json *single = bt_json_get(part, "single");
    const bt_json *tokens = bt_hf_object(part, "special_tokens");
    if (single == NULL || bt_json_kind_of(single) != BT_JSON_ARRAY || tokens == NULL) {
        return bt_fail(err, BT_E_FORMAT, "TemplateProcessing lacks single or special_tokens");
    }
    bool before = true;
    for (size_t i = 0; i < bt_json_count(single); i++) {
        const bt_json *item = bt_json_at(single, i);
        bool object = bt_json_kind_of(item) == BT_JSON_OBJECT;
        if (object && bt_hf_object(item, "Sequence") != NULL) {
            before = false;
            continue;
        }
        const bt_json *special = object ? bt_hf_object(item, "SpecialToken") : NULL;
        if (special == NULL) {
            return bt_fail(err, BT_E_FORMAT, "TemplateProcessing: unknown piece %zu", i);
        }
        BT_TRY(push_special(t, bt_hf_text(special, "id"), tokens, before, err));
    }
    return BT_OK;
}

static bt_status load_post(bt_tokenizer *t, const bt_json *part, bt_str type, bt_err *err)
{
    if (bt_str_eqz(type, "ByteLevel")) {
        return BT_OK; /* moves offsets only */
    }
    return bt_str_eqz(type, "TemplateProcessing") ? load_template(t, part, err)
                                                  : unsupported("post-processor", type, err);
}

bt_status bt_hf_load_post(bt_tokenizer *t, const bt_json *value, bt_err *err)
{
    return is_absent(value) ? BT_OK : each(t, value, "processors", load_post, err);
}
