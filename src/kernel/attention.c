/* SPDX-License-Identifier: MIT */
#include "kernel/attention.h"

void bt_attention_init(bt_attention *table, bt_isa isa)
{
    BT_ASSERT(bt_cpu_has(isa));
    bt_attention_fill_ref(table);
#if defined(__x86_64__)
    if (isa == BT_ISA_AVX512 || isa == BT_ISA_AVX512VNNI) {
        bt_attention_fill_avx512(table);
    }
#endif
}
