/* SPDX-License-Identifier: MIT
 *
 * added.h: tokens that are found in the text itself, before anything is split: <|im_start|> and the
 * like. The longest one that begins at the earliest place wins, as in the reference library. */
#ifndef BT_TOKEN_ADDED_H
#define BT_TOKEN_ADDED_H

#include "text/marked.h"
#include "token/vocab.h"

typedef struct bt_added {
    bt_str text; /* what is looked for; borrowed from the vocabulary */
    int32_t id;
    bool special;        /* a control token: only where it may be one */
    bool normalized;     /* looked for after normalisation */
    bool single_word;    /* not inside a word */
    bool lstrip, rstrip; /* takes the blanks before, after it */
} bt_added;

typedef struct bt_added_list {
    bt_added *token; /* in the order of their bytes once bt_added_sort has run */
    int n, cap;
    int first[257]; /* tokens that begin with byte b: first[b] … first[b + 1] - 1 */
} bt_added_list;

bt_status bt_added_push(bt_added_list *list, const bt_added *token, bt_err *err) BT_MUST_USE;
void bt_added_sort(bt_added_list *list);
void bt_added_deinit(bt_added_list *list);

typedef struct bt_added_search {
    bt_str text;
    bool normalized;    /* which kind to look for */
    bool all_special;   /* special tokens count everywhere */
    const bt_run *runs; /* otherwise: inside trusted runs only (NULL: nowhere) */
    size_t n_runs;
    size_t base; /* where `text` lies in the text that the runs describe */
} bt_added_search;

/* Whether [begin, end) of the text that the runs describe lies inside one trusted run. */
bool bt_added_is_trusted(const bt_added_search *search, size_t begin, size_t end);

typedef struct bt_added_match {
    size_t begin, end; /* blanks that it takes included */
    int32_t id;
} bt_added_match;

/* The first match at or after `from`; false when there is none. A place costs at most the length of the
 * longest token there (times a search in a narrowing range), whatever the number of tokens. */
bool bt_added_next(const bt_added_list *list, const bt_added_search *search, size_t from,
                   bt_added_match *out);

#endif
