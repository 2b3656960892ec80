/* SPDX-License-Identifier: MIT
 *
 * logprob.h: log-probabilities for the answer, from the model's own row before temperature and
 * filters (documented in the API), in double and in a fixed order of summation. */
#ifndef BT_SAMPLE_LOGPROB_H
#define BT_SAMPLE_LOGPROB_H

#include "base/base.h"

/* Stands for everything that JSON cannot carry: log 0, NaN. No value is lower. */
#define BT_LOGPROB_FLOOR (-9999.0)

typedef struct bt_logprob {
    int32_t token;
    double value; /* natural logarithm, BT_LOGPROB_FLOOR … 0 */
} bt_logprob;

/* log softmax(logits)[token], and the n_top most likely tokens, best first, ties to the lowest id.
 * logits: [n_vocab], raw; 0 <= token < n_vocab, or -1: *value is not written. top: [n_top], may be
 * NULL when n_top is 0; n_top may exceed n_vocab. value may be NULL. Returns the number of entries
 * written to top, min(n_top, n_vocab). A row with NaN or +infinity gives the floor for every value
 * and the lowest ids as top. */
int bt_logprob_row(const float *logits, int n_vocab, int32_t token, int n_top, bt_logprob *top,
                   double *value);

#endif
