/* SPDX-License-Identifier: MIT */
#include "kernel/vector.h"

void bt_vector_init(bt_vector *table, bt_isa isa)
{
    BT_ASSERT(bt_cpu_has(isa));
    bt_vector_fill_ref(table);
#if defined(__x86_64__)
    if (isa == BT_ISA_AVX512 || isa == BT_ISA_AVX512VNNI) {
        bt_vector_fill_avx512(table);
    }
#endif
}
