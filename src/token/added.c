/* SPDX-License-Identifier: MIT */
#include "token/added.h"

#include "text/unicode.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

bt_status bt_added_push(bt_added_list *list, const bt_added *token, bt_err *err)
{
    if (list->n == list->cap) {
        int cap = list->cap == 0 ? 64 : 2 * list->cap;
        bt_added *grown = bt_mem_realloc(BT_MEM_TOKEN, list->token, (size_t)cap, sizeof *grown);
        if (grown == NULL) {
            return bt_fail(err, BT_E_NO_MEMORY, "no memory for added tokens");
        }
        list->token = grown;
        list->cap = cap;
    }
    list->token[list->n++] = *token;
    return BT_OK;
}

static int by_bytes(const void *a, const void *b)
{
    const bt_added *x = a, *y = b;
    int order = memcmp(x->text.p, y->text.p, BT_MIN(x->text.n, y->text.n));
    return order != 0 ? order : x->text.n < y->text.n ? -1 : x->text.n > y->text.n;
}

void bt_added_sort(bt_added_list *list)
{
    if (list->n > 0) {
        qsort(list->token, (size_t)list->n, sizeof *list->token, by_bytes);
    }
    int at = 0;
    for (int b = 0; b <= 256; b++) {
        while (at < list->n && (unsigned char)list->token[at].text.p[0] < b) {
            at++;
        }
        list->first[b] = at;
    }
}

void bt_added_deinit(bt_added_list *list)
{
    bt_mem_free(list->token);
    *list = (bt_added_list){0};
}

bool bt_added_is_trusted(const bt_added_search *s, size_t begin, size_t end)
{
    size_t low = 0, high = s->n_runs;
    while (low < high) { /* the first run that ends after begin */
        size_t mid = (low + high) / 2;
        if (s->runs[mid].end <= begin) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < s->n_runs && s->runs[low].trusted && end <= s->runs[low].end;
}

/* Start of the character before `at`, which lies above `floor`. */
static size_t char_before(bt_str text, size_t at)
{
    do {
        at--;
    } while (at > 0 && ((unsigned char)text.p[at] & 0xC0) == 0x80);
    return at;
}

static uint32_t char_at(bt_str text, size_t at, size_t *len)
{
    uint32_t c = 0;
    *len = (size_t)BT_MAX(1, bt_utf8_decode(text.p + at, text.n - at, &c));
    return c;
}

static bool inside_word(bt_str text, size_t begin, size_t end)
{
    size_t len;
    return (begin > 0 && bt_unicode_is_word(char_at(text, char_before(text, begin), &len))) ||
           (end < text.n && bt_unicode_is_word(char_at(text, end, &len)));
}

/* Of the tokens [low, high), which share their first `depth` bytes and are in order: the first whose
 * byte at `depth` is at least b. Tokens that end there come first. */
static int narrow(const bt_added_list *list, int low, int high, size_t depth, int b)
{
    while (low < high) {
        int mid = low + (high - low) / 2;
        bt_str text = list->token[mid].text;
        if (text.n <= depth || (unsigned char)text.p[depth] < b) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

/* The longest token at `at` that may be there, NULL when there is none. */
static const bt_added *longest(const bt_added_list *list, const bt_added_search *s, size_t at)
{
    const bt_added *best = NULL;
    int b = (unsigned char)s->text.p[at];
    int low = list->first[b], high = list->first[b + 1];
    for (size_t depth = 1; low < high; depth++) {
        for (; low < high && list->token[low].text.n == depth; low++) {
            const bt_added *t = &list->token[low];
            size_t begin = s->base + at;
            if (t->normalized == s->normalized &&
                (!t->special || s->all_special || bt_added_is_trusted(s, begin, begin + depth))) {
                best = t;
            }
        }
        if (at + depth >= s->text.n) {
            break;
        }
        b = (unsigned char)s->text.p[at + depth];
        low = narrow(list, low, high, depth, b);
        high = narrow(list, low, high, depth, b + 1);
    }
    return best;
}

static void widen(const bt_added_search *s, const bt_added *t, size_t from, bt_added_match *m)
{
    size_t len;
    while (t->lstrip && m->begin > from) {
        size_t before = char_before(s->text, m->begin);
        if (!bt_unicode_is_space(char_at(s->text, before, &len))) {
            break;
        }
        m->begin = before;
    }
    while (t->rstrip && m->end < s->text.n && bt_unicode_is_space(char_at(s->text, m->end, &len))) {
        m->end += len;
    }
}

bool bt_added_next(const bt_added_list *list, const bt_added_search *s, size_t from,
                   bt_added_match *out)
{
    for (size_t at = from; at < s->text.n && list->n > 0;) {
        const bt_added *t = longest(list, s, at);
        if (t == NULL) {
            at++;
            continue;
        }
        if (t->single_word && inside_word(s->text, at, at + t->text.n)) {
            at += t->text.n; /* nothing shorter counts there, as in the reference */
            continue;
        }
        *out = (bt_added_match){.begin = at, .end = at + t->text.n, .id = t->id};
        widen(s, t, from, out);
        return true;
    }
    return false;
}
