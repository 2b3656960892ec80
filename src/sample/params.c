/* SPDX-License-Identifier: MIT
 *
 * params.c: the ranges of the sampling parameters. */
#include "sample/params.h"

bt_sampling bt_sampling_default(void)
{
    return (bt_sampling){.temperature = 1.0, .top_p = 1.0, .min_p = 0.0, .top_k = 0};
}

/* The comparisons are written so that NaN fails them. */
bt_status bt_sampling_check(const bt_sampling *params, bt_err *err)
{
    if (!(params->temperature >= 0.0 && params->temperature <= 2.0)) {
        return bt_fail_param(err, BT_E_INVALID, "temperature",
                             "temperature must be between 0 and 2, got %g", params->temperature);
    }
    if (!(params->top_p > 0.0 && params->top_p <= 1.0)) {
        return bt_fail_param(err, BT_E_INVALID, "top_p",
                             "top_p must be greater than 0 and at most 1, got %g", params->top_p);
    }
    if (params->top_k < -1) {
        return bt_fail_param(err, BT_E_INVALID, "top_k",
                             "top_k must be -1 or 0 (off) or at least 1, got %d",
                             (int)params->top_k);
    }
    if (!(params->min_p >= 0.0 && params->min_p <= 1.0)) {
        return bt_fail_param(err, BT_E_INVALID, "min_p", "min_p must be between 0 and 1, got %g",
                             params->min_p);
    }
    return BT_OK;
}
