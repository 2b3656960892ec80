/* SPDX-License-Identifier: MIT
 *
 * The table of request fields. A field that betoken knows but does not do yet stands here with the
 * value that changes nothing: that value is accepted, any other is an error that names the field,
 * so that nobody gets an answer that silently lacks what was asked for. */
#include "api/apiparams.h"

#include <math.h>
#include <string.h>

typedef enum param_type {
    T_JSON,   /* kept for the caller, any kind */
    T_STRING, /* const bt_json *, a string */
    T_OBJECT,
    T_BOOL,
    T_INT,
    T_REAL,
    T_SEED,
    /* Not done: only these values are accepted. */
    N_NULL,  /* none but null */
    N_ANY,   /* every value: it asks for nothing that changes the answer */
    N_NUM,   /* the number in `min` */
    N_FALSE, /* false */
    N_TRUE,  /* true */
    N_EMPTY, /* an empty list, object or string */
    N_TEXT,  /* "text" or {"type": "text"} */
    N_WORD   /* the strings "auto", "none", "default" */
} param_type;

typedef struct param {
    const char *name;
    param_type type;
    unsigned kinds; /* bt_api_kind bits that know the field */
    size_t offset;  /* in bt_api_fields */
    double min, max;
    bool min_open; /* min itself is out */
} param;

#define AT(field) offsetof(bt_api_fields, field)
#define ANY_KIND (BT_API_COMPLETION | BT_API_CHAT | BT_API_OFFLINE)
#define TEXT_KIND (BT_API_COMPLETION | BT_API_OFFLINE)
#define CHAT_KIND (BT_API_CHAT | BT_API_OFFLINE)
#define RENDER_KIND (CHAT_KIND | BT_API_TOKENIZE) /* what renders a chat template */
#define INT_FIELD_MAX 9007199254740992.0 /* 2^53: every integer below is exact in a double */

static const param params[] = {
    {"model", T_STRING, ANY_KIND | BT_API_TOKENIZE | BT_API_DETOKENIZE, AT(model)},
    {"prompt", T_JSON, TEXT_KIND | BT_API_TOKENIZE, AT(prompt)},
    {"prompt_token_ids", T_JSON, BT_API_OFFLINE, AT(prompt_token_ids)},
    {"messages", T_JSON, RENDER_KIND, AT(messages)},
    {"max_tokens", T_INT, ANY_KIND, AT(max_tokens), 1, INT_FIELD_MAX},
    {"max_completion_tokens", T_INT, ANY_KIND, AT(max_completion_tokens), 1, INT_FIELD_MAX},
    {"temperature", T_REAL, ANY_KIND, AT(temperature), 0, 2},
    {"top_p", T_REAL, ANY_KIND, AT(top_p), 0, 1, true},
    {"min_p", T_REAL, ANY_KIND, AT(min_p), 0, 1},
    {"top_k", T_INT, ANY_KIND, AT(top_k), -1, INT32_MAX},
    {"seed", T_SEED, ANY_KIND, AT(seed)},
    {"stop", T_JSON, ANY_KIND, AT(stop)},
    {"stop_token_ids", T_JSON, ANY_KIND, AT(stop_token_ids)},
    {"ignore_eos", T_BOOL, ANY_KIND, AT(ignore_eos)},
    {"stream", T_BOOL, ANY_KIND, AT(stream)},
    {"stream_options", T_OBJECT, ANY_KIND, AT(stream_options)},
    {"logprobs", T_JSON, ANY_KIND, AT(logprobs)},
    {"top_logprobs", T_INT, BT_API_CHAT, AT(top_logprobs), 0, INT32_MAX},
    {"return_token_ids", T_BOOL, ANY_KIND, AT(return_token_ids)},
    {"return_drafts", T_BOOL, BT_API_OFFLINE, AT(return_drafts)},
    {"add_special_tokens", T_BOOL, ANY_KIND | BT_API_TOKENIZE, AT(add_special_tokens)},
    {"add_generation_prompt", T_BOOL, RENDER_KIND, AT(add_generation_prompt)},
    {"content", T_JSON, BT_API_TOKENIZE, AT(content)},
    {"add_special", T_BOOL, BT_API_TOKENIZE, AT(add_special)},
    {"with_pieces", T_BOOL, BT_API_TOKENIZE, AT(with_pieces)},
    {"return_token_strs", T_BOOL, BT_API_TOKENIZE, AT(return_token_strs)},
    {"parse_special", N_TRUE, BT_API_TOKENIZE},
    {"tokens", T_JSON, BT_API_DETOKENIZE, AT(tokens)},

    {"user", N_ANY, ANY_KIND},
    {"truncation_side", N_ANY, ANY_KIND},
    {"parallel_tool_calls", N_ANY, BT_API_CHAT},
    {"n", N_NUM, ANY_KIND, 0, 1},
    {"best_of", N_NUM, ANY_KIND, 0, 1},
    {"frequency_penalty", N_NUM, ANY_KIND, 0, 0},
    {"presence_penalty", N_NUM, ANY_KIND, 0, 0},
    {"repetition_penalty", N_NUM, ANY_KIND, 0, 1},
    {"length_penalty", N_NUM, ANY_KIND, 0, 1},
    {"min_tokens", N_NUM, ANY_KIND, 0, 0},
    {"priority", N_NUM, ANY_KIND, 0, 0},
    {"echo", N_FALSE, ANY_KIND},
    {"use_beam_search", N_FALSE, ANY_KIND},
    {"include_stop_str_in_output", N_FALSE, ANY_KIND},
    {"return_tokens_as_token_ids", N_FALSE, ANY_KIND},
    {"return_prompt_text", N_FALSE, ANY_KIND},
    {"continue_final_message", N_FALSE, RENDER_KIND},
    {"store", N_FALSE, BT_API_CHAT},
    {"skip_special_tokens", N_TRUE, ANY_KIND},
    {"spaces_between_special_tokens", N_TRUE, ANY_KIND},
    {"include_reasoning", N_TRUE, BT_API_CHAT},
    {"suffix", N_EMPTY, ANY_KIND},
    {"logit_bias", N_EMPTY, ANY_KIND},
    {"bad_words", N_EMPTY, ANY_KIND},
    {"tools", N_EMPTY, RENDER_KIND},
    {"functions", N_EMPTY, BT_API_CHAT},
    {"documents", N_EMPTY, RENDER_KIND},
    {"chat_template_kwargs", N_EMPTY, RENDER_KIND},
    {"vllm_xargs", N_EMPTY, ANY_KIND},
    {"mm_processor_kwargs", N_EMPTY, ANY_KIND},
    {"media_io_kwargs", N_EMPTY, ANY_KIND},
    {"speculation", N_EMPTY, ANY_KIND},
    {"response_format", N_TEXT, ANY_KIND},
    {"modalities", N_TEXT, BT_API_CHAT},
    {"tool_choice", N_WORD, BT_API_CHAT},
    {"function_call", N_WORD, BT_API_CHAT},
    {"service_tier", N_WORD, ANY_KIND},
    {"audio", N_NULL, BT_API_CHAT},
    {"prediction", N_NULL, BT_API_CHAT},
    {"web_search_options", N_NULL, BT_API_CHAT},
    {"verbosity", N_NULL, BT_API_CHAT},
    {"reasoning_effort", N_NULL, BT_API_CHAT},
    {"thinking_token_budget", N_NULL, ANY_KIND},
    {"chat_template", N_NULL, RENDER_KIND},
    {"prompt_logprobs", N_NULL, ANY_KIND},
    {"prompt_embeds", N_NULL, ANY_KIND},
    {"logprob_token_ids", N_NULL, ANY_KIND},
    {"allowed_token_ids", N_NULL, ANY_KIND},
    {"truncate_prompt_tokens", N_NULL, ANY_KIND},
    {"structured_outputs", N_NULL, ANY_KIND},
    {"guided_json", N_NULL, ANY_KIND},
    {"guided_regex", N_NULL, ANY_KIND},
    {"guided_choice", N_NULL, ANY_KIND},
    {"guided_grammar", N_NULL, ANY_KIND},
    {"guided_decoding_backend", N_NULL, ANY_KIND},
    {"guided_whitespace_pattern", N_NULL, ANY_KIND},
    {"request_id", N_NULL, ANY_KIND},
    {"session_id", N_NULL, ANY_KIND},
    {"cache_salt", N_NULL, ANY_KIND},
    {"kv_transfer_params", N_NULL, ANY_KIND},
    {"repetition_detection", N_NULL, ANY_KIND},
    /* llama.cpp's: a grammar that is silently ignored would be worse than an error. */
    {"grammar", N_EMPTY, ANY_KIND},
    {"json_schema", N_EMPTY, ANY_KIND},
    {"n_predict", N_NUM, ANY_KIND, 0, -1},
    {"repeat_penalty", N_NUM, ANY_KIND, 0, 1},
    {"typical_p", N_NUM, ANY_KIND, 0, 1},
    {"top_n_sigma", N_NUM, ANY_KIND, 0, -1},
    {"xtc_probability", N_NUM, ANY_KIND, 0, 0},
    {"dry_multiplier", N_NUM, ANY_KIND, 0, 0},
    {"dynatemp_range", N_NUM, ANY_KIND, 0, 0},
    {"mirostat", N_NUM, ANY_KIND, 0, 0},
    {"lora", N_EMPTY, ANY_KIND},
};

bool bt_api_integer(const bt_json *value, int64_t *out)
{
    bt_json_kind kind = bt_json_kind_of(value);
    if (kind == BT_JSON_INT) {
        *out = bt_json_int(value);
        return true;
    }
    if (kind == BT_JSON_REAL) {
        double real = bt_json_real(value);
        if (real == floor(real) && fabs(real) <= INT_FIELD_MAX) {
            *out = (int64_t)real;
            return true;
        }
    }
    return false;
}

const char *bt_api_quote(const bt_json *value, char out[BT_API_QUOTE_MAX])
{
    bt_json_kind kind = bt_json_kind_of(value);
    if (kind == BT_JSON_ARRAY || kind == BT_JSON_OBJECT) {
        const char *text = bt_json_kind_text(kind);
        memcpy(out, text, strlen(text) + 1);
        return out;
    }
    bt_buf buf;
    bt_buf_init(&buf, BT_MEM_TEXT, SIZE_MAX / 4);
    bt_json_dump(value, &buf);
    size_t n = BT_MIN(buf.n, (size_t)BT_API_QUOTE_MAX - 4);
    bool cut = n < buf.n;
    while (cut && n > 0 && ((unsigned char)buf.p[n] & 0xC0) == 0x80) {
        n--;
    }
    if (n > 0) {
        memcpy(out, buf.p, n);
    }
    memcpy(out + n, cut ? "..." : "", cut ? 4 : 1);
    bt_buf_deinit(&buf);
    return out;
}

static bool is_type_text(const bt_json *value)
{
    bt_json_kind kind = bt_json_kind_of(value);
    if (kind == BT_JSON_STRING) {
        return bt_str_eqz(bt_json_str(value), "text");
    }
    if (kind == BT_JSON_ARRAY) {
        return bt_json_count(value) == 1 &&
               bt_json_kind_of(bt_json_at(value, 0)) == BT_JSON_STRING &&
               is_type_text(bt_json_at(value, 0));
    }
    const bt_json *type = kind == BT_JSON_OBJECT ? bt_json_get(value, "type") : NULL;
    return type != NULL && bt_json_kind_of(type) == BT_JSON_STRING &&
           bt_str_eqz(bt_json_str(type), "text");
}

static bool is_neutral(const param *p, const bt_json *value)
{
    bt_json_kind kind = bt_json_kind_of(value);
    bt_str text = kind == BT_JSON_STRING ? bt_json_str(value) : (bt_str){0};
    switch (p->type) {
    case N_ANY:
        return true;
    case N_NUM:
        return (kind == BT_JSON_INT || kind == BT_JSON_REAL) && bt_json_real(value) == p->min;
    case N_FALSE:
        return kind == BT_JSON_BOOL && !bt_json_bool(value);
    case N_TRUE:
        return kind == BT_JSON_BOOL && bt_json_bool(value);
    case N_EMPTY:
        return kind == BT_JSON_STRING
                   ? text.n == 0
                   : (kind == BT_JSON_ARRAY || kind == BT_JSON_OBJECT) && bt_json_count(value) == 0;
    case N_TEXT:
        return is_type_text(value);
    case N_WORD:
        return bt_str_eqz(text, "auto") || bt_str_eqz(text, "none") || bt_str_eqz(text, "default");
    default:
        return false;
    }
}

static bt_status refuse_unless_neutral(const param *p, const bt_json *value, bt_err *err)
{
    if (is_neutral(p, value)) {
        return BT_OK;
    }
    char quote[BT_API_QUOTE_MAX];
    bt_api_quote(value, quote);
    if (p->type == N_NUM) {
        return bt_fail_param(err, BT_E_INVALID, p->name,
                             "%s is not supported yet; leave it out or give %g, not %s", p->name,
                             p->min, quote);
    }
    return bt_fail_param(err, BT_E_INVALID, p->name,
                         "%s is not supported yet; leave it out (given: %s)", p->name, quote);
}

static bt_status wrong_type(const param *p, const char *wanted, const bt_json *value, bt_err *err)
{
    char quote[BT_API_QUOTE_MAX];
    return bt_fail_param(err, BT_E_INVALID, p->name, "%s must be %s, not %s", p->name, wanted,
                         bt_api_quote(value, quote));
}

static bt_status read_number(const param *p, const bt_json *value, void *out, bt_err *err)
{
    bt_json_kind kind = bt_json_kind_of(value);
    int64_t integer = 0;
    if (kind != BT_JSON_INT && kind != BT_JSON_REAL) {
        return wrong_type(p, p->type == T_REAL ? "a number" : "an integer", value, err);
    }
    if (p->type != T_REAL && !bt_api_integer(value, &integer)) {
        return wrong_type(p, "an integer", value, err);
    }
    double real = bt_json_real(value);
    if (p->type != T_SEED && !(real <= p->max && (p->min_open ? real > p->min : real >= p->min))) {
        char quote[BT_API_QUOTE_MAX];
        bt_api_quote(value, quote);
        if (p->max >= INT32_MAX) {
            return bt_fail_param(err, BT_E_INVALID, p->name, "%s must be at least %g, not %s",
                                 p->name, p->min, quote);
        }
        return bt_fail_param(err, BT_E_INVALID, p->name, "%s must be %s %g and at most %g, not %s",
                             p->name, p->min_open ? "above" : "at least", p->min, p->max, quote);
    }
    if (p->type == T_REAL) {
        memcpy(out, &real, sizeof real);
    } else {
        memcpy(out, &integer, sizeof integer);
    }
    return BT_OK;
}

static bt_status read_field(const param *p, const bt_json *value, bt_api_fields *out, bt_err *err)
{
    char *place = (char *)out + p->offset;
    bt_json_kind kind = bt_json_kind_of(value);
    switch (p->type) {
    case T_STRING:
        if (kind != BT_JSON_STRING) {
            return wrong_type(p, "a string", value, err);
        }
        break;
    case T_OBJECT:
        if (kind != BT_JSON_OBJECT) {
            return wrong_type(p, "an object", value, err);
        }
        break;
    case T_JSON:
        break;
    case T_BOOL:
        if (kind != BT_JSON_BOOL) {
            return wrong_type(p, "true or false", value, err);
        }
        memcpy(place, &(int){bt_json_bool(value) ? 1 : 0}, sizeof(int));
        return BT_OK;
    case T_SEED:
        out->seed_json = value;
        return read_number(p, value, place, err);
    case T_INT:
    case T_REAL:
        return read_number(p, value, place, err);
    default:
        return refuse_unless_neutral(p, value, err);
    }
    memcpy(place, &value, sizeof value);
    return BT_OK;
}

static const param *find(bt_str name, bt_api_kind kind)
{
    for (size_t i = 0; i < BT_COUNT(params); i++) {
        if ((params[i].kinds & (unsigned)kind) != 0 && bt_str_eqz(name, params[i].name)) {
            return &params[i];
        }
    }
    return NULL;
}

bt_status bt_api_fields_read(const bt_json *object, bt_api_kind kind, bt_api_fields *out,
                             bt_err *err)
{
    bt_api_fields fields = {.temperature = NAN,
                            .top_p = NAN,
                            .min_p = NAN,
                            .top_k = BETOKEN_UNSET_INT,
                            .max_tokens = -1,
                            .max_completion_tokens = -1,
                            .top_logprobs = -1,
                            .add_special_tokens = -1,
                            .add_generation_prompt = -1};
    if (bt_json_kind_of(object) != BT_JSON_OBJECT) {
        return bt_fail(err, BT_E_INVALID, "the request must be a JSON object, not %s",
                       bt_json_kind_text(bt_json_kind_of(object)));
    }
    void *iter = NULL;
    bt_str key;
    const bt_json *value;
    while (bt_json_next(object, &iter, &key, &value)) {
        const param *p = find(key, kind);
        if (p == NULL) {
            fields.n_unknown++;
        } else if (bt_json_kind_of(value) != BT_JSON_NULL) {
            BT_TRY(read_field(p, value, &fields, err));
        }
    }
    *out = fields;
    return BT_OK;
}
