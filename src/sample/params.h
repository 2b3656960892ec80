/* SPDX-License-Identifier: MIT
 *
 * params.h: how a request wants its tokens drawn, and the only place that says which values are
 * allowed (shared/api.md 3.2: the ranges of current vLLM; top_k 0 and -1 both mean off).
 *
 * Order of application, as in vLLM: temperature, then on the tempered distribution min_p, then
 * top_k, then top_p on what min_p and top_k left, renormalised. Bias, penalties and masks have been
 * applied to the logits before; a masked token has the logit -infinity. */
#ifndef BT_SAMPLE_PARAMS_H
#define BT_SAMPLE_PARAMS_H

#include "base/status.h"

/* Below this temperature sampling is greedy, without noise. */
#define BT_SAMPLING_GREEDY_BELOW 1e-5

typedef struct bt_sampling {
    double temperature; /* 0 … 2; below 1e-5: the largest logit, ties to the lowest id */
    double top_p;       /* (0, 1]; 1: off */
    double min_p;       /* [0, 1]; 0: off */
    int32_t top_k;      /* -1 or 0: off; else >= 1 (values above the vocabulary: off) */
    uint32_t choice;    /* index of this choice within its own prompt (n > 1) */
    uint64_t seed;      /* the request's, or drawn by bt_rng_random_seed at submission and kept */
} bt_sampling;

/* temperature 1, all filters off, choice 0, seed 0. */
bt_sampling bt_sampling_default(void);

/* BT_E_INVALID with err->param naming the field and a message with the value and the range, in the
 * order temperature, top_p, top_k, min_p. NaN and infinities are refused. For values from
 * requests and from generation_config.json alike. err may be NULL. */
bt_status bt_sampling_check(const bt_sampling *params, bt_err *err) BT_MUST_USE;

BT_INLINE bool bt_sampling_is_greedy(const bt_sampling *params)
{
    return params->temperature < BT_SAMPLING_GREEDY_BELOW;
}

#endif
