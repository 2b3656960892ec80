/* SPDX-License-Identifier: MIT
 *
 * marked.h: where each part of a text came from.
 *
 * A rendered chat is one string, but only what the template itself wrote may become control tokens
 * (<|im_start|> in a user's message is ordinary text). The renderer hands on runs, the tokenizer
 * looks for special tokens only inside trusted runs, and treats the text as one otherwise. */
#ifndef BT_TEXT_MARKED_H
#define BT_TEXT_MARKED_H

#include "base/buf.h"

/* Run i covers bytes [runs[i-1].end, runs[i].end) of the text; run 0 starts at 0, the last one ends
 * at the text's end. Neighbours differ in `trusted`; no run is empty. */
typedef struct bt_run {
    size_t end;
    bool trusted; /* written by the template, not by a client */
} bt_run;

#endif
