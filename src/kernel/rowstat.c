/* SPDX-License-Identifier: MIT */
#include "kernel/rowstat.h"

static const bt_row_kernels kernels_ref = {.scan = bt_row_scan_ref, .exp = bt_row_exp_ref};
#if defined(__x86_64__)
static const bt_row_kernels kernels_avx512 = {.scan = bt_row_scan_avx512, .exp = bt_row_exp_avx512};
#endif

const bt_row_kernels *bt_row_kernels_for(bt_isa isa)
{
#if defined(__x86_64__)
    if (isa == BT_ISA_AVX512 || isa == BT_ISA_AVX512VNNI) {
        return &kernels_avx512;
    }
#endif
    (void)isa;
    return &kernels_ref;
}
