/* SPDX-License-Identifier: MIT */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "token/pretok.h"

#include "base/mem.h"

#include <pcre2.h>
#include <string.h>

/* The patterns in use need fewer than 1,000 steps a match. */
enum { MATCH_STEPS_MAX = 100000 };

struct bt_pretok_pattern {
    pcre2_code *code;
    char text[BT_PRETOK_PATTERN_BYTES_MAX + 1]; /* as given, for messages */
};

bt_status bt_pieces_push(bt_pieces *list, size_t begin, size_t end)
{
    if (list->n == list->cap) {
        size_t cap = list->cap == 0 ? 64 : 2 * list->cap;
        bt_piece *piece = bt_mem_realloc(BT_MEM_TOKEN, list->piece, cap, sizeof *piece);
        if (piece == NULL) {
            return BT_E_NO_MEMORY;
        }
        list->piece = piece;
        list->cap = cap;
    }
    list->piece[list->n++] = (bt_piece){begin, end};
    return BT_OK;
}

void bt_pieces_deinit(bt_pieces *list)
{
    bt_mem_free(list->piece);
    *list = (bt_pieces){0};
}

/* PCRE2's \s also takes U+180E, the reference's does not: \s and \S become properties. */
static void rewrite(bt_str pattern, bt_buf *out)
{
    for (size_t i = 0; i < pattern.n; i++) {
        bool escape = pattern.p[i] == '\\' && i + 1 < pattern.n;
        char next = escape ? pattern.p[i + 1] : '\0';
        if (next == 's' || next == 'S') {
            bt_buf_pushz(out, next == 's' ? "\\p{White_Space}" : "\\P{White_Space}");
        } else {
            bt_buf_push(out, pattern.p + i, escape ? 2 : 1);
        }
        i += escape;
    }
}

bt_status bt_pretok_add(bt_pretok *p, bt_str pattern, bt_err *err)
{
    if (p->n == BT_PRETOK_PATTERNS_MAX || pattern.n > BT_PRETOK_PATTERN_BYTES_MAX) {
        return bt_fail(err, BT_E_LIMIT, "more than %d split patterns, or one of over %d bytes",
                       BT_PRETOK_PATTERNS_MAX, BT_PRETOK_PATTERN_BYTES_MAX);
    }
    struct bt_pretok_pattern *made = bt_mem_calloc(BT_MEM_TOKEN, 1, sizeof *made);
    bt_buf text;
    bt_buf_init(&text, BT_MEM_TOKEN, 1 << 20);
    rewrite(pattern, &text);
    if (made == NULL || bt_buf_ok(&text) != BT_OK) {
        bt_mem_free(made);
        bt_buf_deinit(&text);
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for a split pattern");
    }
    memcpy(made->text, pattern.p, pattern.n);
    int code;
    PCRE2_SIZE at;
    bt_str rewritten = bt_buf_str(&text);
    made->code = pcre2_compile(
        (PCRE2_SPTR)rewritten.p, rewritten.n,
        PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT, &code, &at, NULL);
    bt_buf_deinit(&text);
    if (made->code == NULL) {
        unsigned char words[160] = "";
        pcre2_get_error_message(code, words, sizeof words);
        bt_mem_free(made);
        return bt_fail(err, BT_E_UNSUPPORTED, "split pattern \"%.*s\": %s",
                       (int)BT_MIN(pattern.n, (size_t)200), pattern.p, (const char *)words);
    }
    pcre2_jit_compile(made->code, PCRE2_JIT_COMPLETE); /* without JIT it interprets */
    p->patterns[p->n++] = made;
    return BT_OK;
}

void bt_pretok_deinit(bt_pretok *p)
{
    for (int i = 0; i < p->n; i++) {
        pcre2_code_free(p->patterns[i]->code);
        bt_mem_free(p->patterns[i]);
    }
    p->n = 0;
}

typedef struct matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
} matcher;

static size_t char_bytes(const char *p)
{
    unsigned char c = (unsigned char)*p;
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

/* One start is tried at a time: whatever the pattern, the work is bounded by starts × steps, and a
 * pattern that always matches is linear. */
static bt_status split_piece(const struct bt_pretok_pattern *p, const matcher *m, bt_str text,
                             bt_piece piece, bt_pieces *out)
{
    PCRE2_SPTR subject = (PCRE2_SPTR)(text.p + piece.begin);
    size_t n = piece.end - piece.begin, gap = 0, at = 0;
    while (at < n) {
        pcre2_set_offset_limit(m->context, at);
        int found = pcre2_match(p->code, subject, n, at, PCRE2_NO_UTF_CHECK, m->data, m->context);
        if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
            return BT_E_LIMIT;
        }
        const PCRE2_SIZE *span = pcre2_get_ovector_pointer(m->data);
        if (found < 0 || span[1] <= at || span[0] != at) {
            at += char_bytes((const char *)subject + at);
            continue;
        }
        if (gap < at) {
            BT_TRY(bt_pieces_push(out, piece.begin + gap, piece.begin + at));
        }
        BT_TRY(bt_pieces_push(out, piece.begin + at, piece.begin + span[1]));
        at = gap = span[1];
    }
    return gap < n ? bt_pieces_push(out, piece.begin + gap, piece.end) : BT_OK;
}

bt_status bt_pretok_split(const bt_pretok *p, bt_str text, bt_pieces *out, bt_pieces *scratch,
                          bt_err *err)
{
    out->n = 0;
    if (text.n == 0) {
        return BT_OK;
    }
    BT_TRY(bt_pieces_push(out, 0, text.n));
    for (int i = 0; i < p->n; i++) {
        matcher m = {.data = pcre2_match_data_create_from_pattern(p->patterns[i]->code, NULL),
                     .context = pcre2_match_context_create(NULL)};
        bt_status status = m.data == NULL || m.context == NULL ? BT_E_NO_MEMORY : BT_OK;
        if (status == BT_OK) {
            pcre2_set_match_limit(m.context, MATCH_STEPS_MAX);
        }
        bt_pieces done = *out;
        *out = *scratch;
        *scratch = done;
        out->n = 0;
        for (size_t k = 0; k < scratch->n && status == BT_OK; k++) {
            status = split_piece(p->patterns[i], &m, text, scratch->piece[k], out);
        }
        pcre2_match_data_free(m.data);
        pcre2_match_context_free(m.context);
        if (status != BT_OK) {
            return status == BT_E_LIMIT
                       ? bt_fail(err, status, "split pattern \"%.200s\" needs too many steps here",
                                 p->patterns[i]->text)
                       : bt_fail(err, status, "no memory to split %zu bytes", text.n);
        }
    }
    return BT_OK;
}
