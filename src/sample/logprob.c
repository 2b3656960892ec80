/* SPDX-License-Identifier: MIT
 *
 * logprob.c: log-probabilities of a raw row. */
#include "sample/logprob.h"

#include <math.h>

/* a comes before b in the answer. */
BT_INLINE bool is_before(bt_logprob a, bt_logprob b)
{
    return a.value > b.value || (a.value == b.value && a.token < b.token);
}

/* Restores the heap below `at`: the entry that comes last is at the root. */
static void sift_down(bt_logprob *heap, int n, int at)
{
    for (;;) {
        int last = at;
        for (int child = 2 * at + 1; child <= 2 * at + 2 && child < n; child++) {
            if (is_before(heap[last], heap[child])) {
                last = child;
            }
        }
        if (last == at) {
            return;
        }
        bt_logprob swap = heap[at];
        heap[at] = heap[last];
        heap[last] = swap;
        at = last;
    }
}

/* The n_top best logits, sorted; the entries hold logits as their value until the caller
 * normalises. */
static void select_top(const float *logits, int n_vocab, int n_top, bt_logprob *top)
{
    for (int i = 0; i < n_top; i++) {
        top[i] = (bt_logprob){i, (double)logits[i]};
    }
    for (int i = n_top / 2 - 1; i >= 0; i--) {
        sift_down(top, n_top, i);
    }
    /* Later ids lose ties, so only a larger logit enters. */
    for (int i = n_top; i < n_vocab; i++) {
        if ((double)logits[i] > top[0].value) {
            top[0] = (bt_logprob){i, (double)logits[i]};
            sift_down(top, n_top, 0);
        }
    }
    for (int n = n_top - 1; n > 0; n--) {
        bt_logprob swap = top[0];
        top[0] = top[n];
        top[n] = swap;
        sift_down(top, n, 0);
    }
}

/* log sum e^l; NaN when the row is not a distribution. */
static double log_sum(const float *logits, int n)
{
    float max = -INFINITY;
    for (int i = 0; i < n; i++) {
        if (!(logits[i] < INFINITY)) {
            return NAN;
        }
        max = logits[i] > max ? logits[i] : max;
    }
    if (max == -INFINITY) {
        return NAN;
    }
    double sum = 0.0;
    for (int i = 0; i < n; i++) {
        double x = (double)logits[i] - (double)max;
        if (x > -50.0) { /* e^-50 is below the rounding of a sum >= 1 over any vocabulary */
            sum += exp(x);
        }
    }
    return (double)max + log(sum);
}

BT_INLINE double clamp(double value)
{
    return value > BT_LOGPROB_FLOOR ? BT_MIN(value, 0.0) : BT_LOGPROB_FLOOR;
}

int bt_logprob_row(const float *logits, int n_vocab, int32_t token, int n_top, bt_logprob *top,
                   double *value)
{
    BT_ASSERT(n_vocab > 0);
    BT_ASSERT(token >= -1 && token < n_vocab);
    BT_ASSERT(n_top <= 0 || top != NULL);
    double norm = log_sum(logits, n_vocab);
    if (token >= 0 && value != NULL) {
        *value = clamp((double)logits[token] - norm);
    }
    n_top = BT_MIN(n_top, n_vocab);
    if (n_top <= 0) {
        return 0;
    }
    if (isnan(norm)) {
        for (int i = 0; i < n_top; i++) {
            top[i] = (bt_logprob){i, BT_LOGPROB_FLOOR};
        }
        return n_top;
    }
    select_top(logits, n_vocab, n_top, top);
    for (int i = 0; i < n_top; i++) {
        top[i].value = clamp(top[i].value - norm);
    }
    return n_top;
}
