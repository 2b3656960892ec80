/* SPDX-License-Identifier: MIT
 *
 * cpu.h: what this machine offers and what this process may use of it.
 *
 * Read once by bt_cpu_init (safe to call again); read-only afterwards. */
#ifndef BT_BASE_CPU_H
#define BT_BASE_CPU_H

#include "base/base.h"

/* Kernel classes. A level includes all lower ones of its architecture. */
typedef enum bt_isa {
    BT_ISA_REF = 0,
    BT_ISA_AVX2,       /* AVX2, FMA, F16C */
    BT_ISA_AVX512,     /* F BW VL DQ */
    BT_ISA_AVX512VNNI, /* and VNNI */
    BT_ISA_NEON,
    BT_ISA_COUNT
} bt_isa;

/* Detects the CPU and reads the environment variable BT_CPU (a name as bt_cpu_isa_name gives it) as
 * a ceiling, for tests, valgrind and bug reports. An unknown name is reported by returning false
 * and setting *unknown to it; the ceiling is then not applied. */
bool bt_cpu_init(const char **unknown);

/* The best level that the CPU has and BT_CPU allows. */
bt_isa bt_cpu_isa(void);
/* True when the CPU has the level, whatever BT_CPU says. */
bool bt_cpu_has(bt_isa isa);
const char *bt_cpu_isa_name(bt_isa isa);
bool bt_cpu_parse_isa(const char *name, bt_isa *isa);

/* Cores this process may keep busy: CPU affinity, limited by the cgroup quota (v2 and v1). >= 1. */
int bt_cpu_threads(void);

/* min(RAM, cgroup limit) and what of it is not in use now, in bytes. */
uint64_t bt_cpu_memory_limit(void);
uint64_t bt_cpu_memory_available(void);

#endif
