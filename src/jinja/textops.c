/* SPDX-License-Identifier: MIT */
#include "jinja/textops.h"

#include "text/casemap.h"
#include "text/utf8.h"

#include <string.h>

bt_status bt_jtextop_value(bt_jctx *ctx, const bt_jtext *t, bt_jvalue *out)
{
    const bt_jtext *stored;
    BT_TRY(bt_jtext_store(ctx, t, &stored));
    *out = bt_jvalue_text(stored);
    return BT_OK;
}

/* Start of the character that ends at `end`. */
static size_t char_before(const bt_jtext *t, size_t end)
{
    size_t i = end - 1;
    while (i > 0 && ((unsigned char)t->p[i] & 0xC0) == 0x80) {
        i--;
    }
    return i;
}

static size_t char_after(const bt_jtext *t, size_t start)
{
    size_t i = start + 1;
    while (i < t->n && ((unsigned char)t->p[i] & 0xC0) == 0x80) {
        i++;
    }
    return i;
}

/* Whether the character in bytes [from, to) belongs to the set (NULL: white space). */
static bool in_set(const bt_jtext *t, size_t from, size_t to, const bt_jtext *set)
{
    bt_str c = {t->p + from, to - from};
    uint32_t code = 0;
    if (set != NULL) {
        return bt_str_find(bt_jtext_bytes(set), c, 0) >= 0;
    }
    return bt_utf8_decode(c.p, c.n, &code) > 0 && bt_case_is_space(code);
}

bt_status bt_jtextop_strip(bt_jctx *ctx, const bt_jtext *t, const bt_jtext *chars, bool start,
                           bool end, bt_jtext *out)
{
    size_t from = 0;
    size_t to = t->n;
    BT_TRY(bt_jctx_charge(ctx, t->n));
    while (start && from < to && in_set(t, from, char_after(t, from), chars)) {
        BT_TRY(bt_jctx_charge(ctx, chars == NULL ? 0 : chars->n));
        from = char_after(t, from);
    }
    while (end && to > from && in_set(t, char_before(t, to), to, chars)) {
        BT_TRY(bt_jctx_charge(ctx, chars == NULL ? 0 : chars->n));
        to = char_before(t, to);
    }
    return bt_jtext_cut(ctx, t, from, to, out);
}

/* Collects pieces of a text whose number is not known beforehand. */
typedef struct pieces {
    bt_jvalue *items;
    size_t n, cap;
} pieces;

static bt_status add_piece(bt_jctx *ctx, pieces *list, const bt_jtext *t, size_t from, size_t to)
{
    if (list->n == list->cap) {
        size_t cap = list->cap == 0 ? 8 : list->cap * 2;
        bt_jvalue *items;
        BT_TRY(bt_jctx_new(ctx, cap, sizeof *items, &items));
        if (list->n > 0) {
            memcpy(items, list->items, list->n * sizeof *items);
        }
        list->items = items;
        list->cap = cap;
    }
    bt_jtext cut;
    BT_TRY(bt_jtext_cut(ctx, t, from, to, &cut));
    return bt_jtextop_value(ctx, &cut, &list->items[list->n++]);
}

static bt_status finish(bt_jctx *ctx, const pieces *list, bool reversed, bt_jlist **out)
{
    BT_TRY(bt_jvalue_new_list(ctx, BT_JLIST_LIST, list->n, out));
    for (size_t i = 0; i < list->n; i++) {
        (*out)->items[i] = list->items[reversed ? list->n - 1 - i : i];
    }
    return BT_OK;
}

static bt_status split_space(bt_jctx *ctx, const bt_jtext *t, int64_t max, pieces *list)
{
    size_t i = 0;
    for (;;) {
        while (i < t->n && in_set(t, i, char_after(t, i), NULL)) {
            i = char_after(t, i);
        }
        if (i == t->n) {
            return BT_OK;
        }
        if (max >= 0 && (int64_t)list->n == max) {
            bt_str rest = {t->p + i, t->n - i};
            return add_piece(ctx, list, t, i, i + bt_case_strip_end(rest));
        }
        size_t start = i;
        while (i < t->n && !in_set(t, i, char_after(t, i), NULL)) {
            i = char_after(t, i);
        }
        BT_TRY(add_piece(ctx, list, t, start, i));
    }
}

static bt_status rsplit_space(bt_jctx *ctx, const bt_jtext *t, int64_t max, pieces *list)
{
    size_t end = t->n;
    for (;;) {
        while (end > 0 && in_set(t, char_before(t, end), end, NULL)) {
            end = char_before(t, end);
        }
        if (end == 0) {
            return BT_OK;
        }
        if (max >= 0 && (int64_t)list->n == max) {
            return add_piece(ctx, list, t, bt_case_strip_start((bt_str){t->p, end}), end);
        }
        size_t start = end;
        while (start > 0 && !in_set(t, char_before(t, start), start, NULL)) {
            start = char_before(t, start);
        }
        BT_TRY(add_piece(ctx, list, t, start, end));
        end = start;
    }
}

static bt_status split_text(bt_jctx *ctx, const bt_jtext *t, const bt_jsplit *how, pieces *list)
{
    bt_str sep = bt_jtext_bytes(how->separator);
    size_t from = 0;
    while (how->max < 0 || (int64_t)list->n < how->max) {
        int64_t hit = bt_str_find(bt_jtext_bytes(t), sep, from);
        if (hit < 0) {
            break;
        }
        BT_TRY(add_piece(ctx, list, t, from, (size_t)hit));
        from = (size_t)hit + sep.n;
    }
    return add_piece(ctx, list, t, from, t->n);
}

static bt_status rsplit_text(bt_jctx *ctx, const bt_jtext *t, const bt_jsplit *how, pieces *list)
{
    bt_str sep = bt_jtext_bytes(how->separator);
    size_t end = t->n;
    BT_TRY(bt_jctx_charge_product(ctx, t->n, sep.n));
    size_t i = end >= sep.n ? end - sep.n + 1 : 0;
    while (i > 0 && (how->max < 0 || (int64_t)list->n < how->max)) {
        i--;
        if (memcmp(t->p + i, sep.p, sep.n) == 0) {
            BT_TRY(add_piece(ctx, list, t, i + sep.n, end));
            end = i;
            i = end >= sep.n ? end - sep.n + 1 : 0;
        }
    }
    return add_piece(ctx, list, t, 0, end);
}

bt_status bt_jtextop_split(bt_jctx *ctx, const bt_jtext *t, const bt_jsplit *how, bt_jlist **out)
{
    pieces list = {0};
    BT_TRY(bt_jctx_charge(ctx, t->n));
    if (how->separator == NULL) {
        BT_TRY(how->from_end ? rsplit_space(ctx, t, how->max, &list)
                             : split_space(ctx, t, how->max, &list));
        return finish(ctx, &list, how->from_end, out);
    }
    if (how->separator->n == 0) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "empty separator");
    }
    BT_TRY(how->from_end ? rsplit_text(ctx, t, how, &list) : split_text(ctx, t, how, &list));
    return finish(ctx, &list, how->from_end, out);
}

/* Bytes of the line border at i; 0 when there is none. */
static size_t border_at(const bt_jtext *t, size_t i)
{
    uint32_t c = 0;
    int n = bt_utf8_decode(t->p + i, t->n - i, &c);
    if (c == '\r' && i + 1 < t->n && t->p[i + 1] == '\n') {
        return 2;
    }
    bool border = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                  c == 0x2028 || c == 0x2029;
    return border && n > 0 ? (size_t)n : 0;
}

bt_status bt_jtextop_lines(bt_jctx *ctx, const bt_jtext *t, bool keep_ends, bt_jlist **out)
{
    pieces list = {0};
    size_t start = 0;
    BT_TRY(bt_jctx_charge(ctx, t->n));
    for (size_t i = 0; i < t->n;) {
        size_t border = border_at(t, i);
        if (border == 0) {
            i = char_after(t, i);
            continue;
        }
        BT_TRY(add_piece(ctx, &list, t, start, keep_ends ? i + border : i));
        i += border;
        start = i;
    }
    if (start < t->n) {
        BT_TRY(add_piece(ctx, &list, t, start, t->n));
    }
    return finish(ctx, &list, false, out);
}

/* Appends bytes [from, to) of t. */
static bt_status append_cut(bt_jctx *ctx, const bt_jtext *t, size_t from, size_t to, bt_jtext *out)
{
    bt_jtext cut;
    BT_TRY(bt_jtext_cut(ctx, t, from, to, &cut));
    return bt_jtext_append(ctx, out, &cut);
}

bt_status bt_jtextop_replace(bt_jctx *ctx, const bt_jtext *t, const bt_jtext *old,
                             const bt_jtext *fresh, int64_t max, bt_jtext *out)
{
    size_t from = 0;
    int64_t done = 0;
    *out = (bt_jtext){.p = ""};
    BT_TRY(bt_jctx_charge(ctx, t->n));
    while (max < 0 || done < max) {
        int64_t hit = bt_str_find(bt_jtext_bytes(t), bt_jtext_bytes(old), from);
        if (hit < 0) {
            break;
        }
        BT_TRY(append_cut(ctx, t, from, (size_t)hit, out));
        BT_TRY(bt_jtext_append(ctx, out, fresh));
        done++;
        from = (size_t)hit + old->n;
        if (old->n == 0) {
            /* An empty text stands before every character and at the end. */
            if (from == t->n) {
                return BT_OK;
            }
            size_t next = char_after(t, from);
            BT_TRY(append_cut(ctx, t, from, next, out));
            from = next;
        }
    }
    return append_cut(ctx, t, from, t->n, out);
}

/* What becomes of a character, given the one before it (0: none). */
static bt_case_kind case_of(bt_jcase how, uint32_t before, uint32_t c)
{
    bool word_start;
    switch (how) {
    case BT_JCASE_LOWER:
        return BT_CASE_LOWER;
    case BT_JCASE_UPPER:
        return BT_CASE_UPPER;
    case BT_JCASE_CAPITALIZE:
        return before == 0 ? BT_CASE_TITLE : BT_CASE_LOWER;
    case BT_JCASE_TITLE:
        return bt_case_is_alpha(before) ? BT_CASE_LOWER : BT_CASE_TITLE;
    case BT_JCASE_TITLE_FILTER:
        word_start = before == 0 || bt_case_is_space(before) ||
                     (before < 0x80 && strchr("-({[<", (int)before) != NULL);
        return word_start ? BT_CASE_UPPER : BT_CASE_LOWER;
    case BT_JCASE_SWAP:
        break;
    }
    return bt_case_is_upper(c) ? BT_CASE_LOWER : BT_CASE_UPPER;
}

bt_status bt_jtextop_case(bt_jctx *ctx, const bt_jtext *t, bt_jcase how, bt_jtext *out)
{
    enum { BATCH = 240 };
    char batch[BATCH + 4 * BT_CASE_MAP_MAX];
    uint32_t before = 0;
    size_t pos = 0;
    bt_str run;
    bool trusted;
    const bt_jtext from = *t; /* out may be t */
    *out = (bt_jtext){.p = "", .markup = from.markup};
    while (bt_jtext_next_run(&from, &pos, &run, &trusted)) {
        size_t n = 0;
        for (size_t i = 0; i < run.n;) {
            uint32_t c = 0;
            uint32_t mapped[BT_CASE_MAP_MAX];
            int len = bt_utf8_decode(run.p + i, run.n - i, &c);
            BT_ASSERT(len > 0);
            int count = bt_case_map(case_of(how, before, c), c, mapped);
            for (int k = 0; k < count; k++) {
                n += (size_t)bt_utf8_encode(mapped[k], batch + n);
            }
            before = c;
            i += (size_t)len;
            if (n >= BATCH || i == run.n) {
                BT_TRY(bt_jtext_push(ctx, out, (bt_str){batch, n}, trusted));
                n = 0;
            }
        }
    }
    return BT_OK;
}

bt_status bt_jtextop_escape(bt_jctx *ctx, const bt_jtext *t, bt_jtext *out)
{
    static const struct {
        char c;
        const char *entity;
    } rows[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&#34;"}, {'\'', "&#39;"}};
    bt_jtext done = *t;
    for (size_t i = 0; i < BT_COUNT(rows); i++) {
        const bt_jtext old = {.p = &rows[i].c, .n = 1};
        const bt_jtext fresh = {.p = rows[i].entity, .n = strlen(rows[i].entity)};
        bt_jtext next;
        BT_TRY(bt_jtextop_replace(ctx, &done, &old, &fresh, -1, &next));
        done = next;
    }
    done.markup = true;
    *out = done;
    return BT_OK;
}
