/* SPDX-License-Identifier: MIT */
#include "base/cpu.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    bool ready;
    bool has[BT_ISA_COUNT];
    bt_isa isa;
} cpu;

static const char *const isa_names[BT_ISA_COUNT] = {"ref", "avx2", "avx512", "avx512vnni", "neon"};

const char *bt_cpu_isa_name(bt_isa isa)
{
    return (unsigned)isa < BT_ISA_COUNT ? isa_names[isa] : "unknown";
}

bool bt_cpu_parse_isa(const char *name, bt_isa *isa)
{
    for (int i = 0; i < BT_ISA_COUNT; i++) {
        if (strcmp(name, isa_names[i]) == 0) {
            *isa = (bt_isa)i;
            return true;
        }
    }
    return false;
}

static void detect(void)
{
    cpu.has[BT_ISA_REF] = true;
#if defined(__x86_64__)
    __builtin_cpu_init();
    cpu.has[BT_ISA_AVX2] = __builtin_cpu_supports("avx2") != 0 &&
                           __builtin_cpu_supports("fma") != 0 &&
                           __builtin_cpu_supports("bmi2") != 0;
    cpu.has[BT_ISA_AVX512] = cpu.has[BT_ISA_AVX2] && __builtin_cpu_supports("avx512f") != 0 &&
                             __builtin_cpu_supports("avx512bw") != 0 &&
                             __builtin_cpu_supports("avx512vl") != 0 &&
                             __builtin_cpu_supports("avx512dq") != 0;
    cpu.has[BT_ISA_AVX512VNNI] =
        cpu.has[BT_ISA_AVX512] && __builtin_cpu_supports("avx512vnni") != 0;
#elif defined(__aarch64__)
    cpu.has[BT_ISA_NEON] = true;
#endif
}

bool bt_cpu_init(const char **unknown)
{
    if (!cpu.ready) {
        detect();
        for (int i = 0; i < BT_ISA_COUNT; i++) {
            if (cpu.has[i]) {
                cpu.isa = (bt_isa)i;
            }
        }
    }
    cpu.ready = true;
    const char *name = getenv("BT_CPU");
    bt_isa ceiling;
    if (name == NULL || name[0] == '\0') {
        return true;
    }
    if (!bt_cpu_parse_isa(name, &ceiling)) {
        if (unknown != NULL) {
            *unknown = name;
        }
        return false;
    }
    while (cpu.isa > ceiling || !cpu.has[cpu.isa]) {
        cpu.isa--;
    }
    return true;
}

bt_isa bt_cpu_isa(void)
{
    BT_ASSERT(cpu.ready);
    return cpu.isa;
}

bool bt_cpu_has(bt_isa isa)
{
    BT_ASSERT(cpu.ready && (unsigned)isa < BT_ISA_COUNT);
    return cpu.has[isa];
}

/* Reads up to two numbers from a one-line file; "max" counts as -1. Returns how many were read. */
static int read_numbers(const char *path, long long out[2])
{
    FILE *f = fopen(path, "r");
    if (f == NULL) {
        return 0;
    }
    char word[2][32];
    int n = fscanf(f, "%31s %31s", word[0], word[1]);
    fclose(f);
    for (int i = 0; i < n; i++) {
        out[i] = strcmp(word[i], "max") == 0 ? -1 : strtoll(word[i], NULL, 10);
    }
    return n < 0 ? 0 : n;
}

int bt_cpu_threads(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    long long quota[2] = {-1, 100000}, period[2] = {100000, 0};
    if (read_numbers("/sys/fs/cgroup/cpu.max", quota) < 2) {
        if (read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota) < 1 ||
            read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period) < 1) {
            quota[0] = -1;
        }
        quota[1] = period[0];
    }
    if (quota[0] > 0 && quota[1] > 0) {
        long long cores = (quota[0] + quota[1] - 1) / quota[1];
        n = (int)BT_MIN((long long)n, cores);
    }
    return BT_MAX(n, 1);
}

static uint64_t meminfo_bytes(const char *key)
{
    FILE *f = fopen("/proc/meminfo", "r");
    char line[256];
    unsigned long long kib = 0;
    size_t key_len = strlen(key);
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, key, key_len) == 0 && line[key_len] == ':') {
            kib = strtoull(line + key_len + 1, NULL, 10);
            break;
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    return (uint64_t)kib * 1024;
}

/* Limit and use of the control group; false where there is none. */
static bool cgroup_memory(uint64_t *limit, uint64_t *use)
{
    static const char *const files[2][2] = {
        {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes",
         "/sys/fs/cgroup/memory/memory.usage_in_bytes"},
    };
    for (int i = 0; i < 2; i++) {
        long long max[2] = {-1, 0}, now[2] = {0, 0};
        if (read_numbers(files[i][0], max) >= 1 && max[0] > 0 &&
            read_numbers(files[i][1], now) >= 1) {
            *limit = (uint64_t)max[0];
            *use = (uint64_t)BT_MAX(now[0], 0);
            return true;
        }
    }
    return false;
}

uint64_t bt_cpu_memory_limit(void)
{
    uint64_t ram = meminfo_bytes("MemTotal"), limit, use;
    return cgroup_memory(&limit, &use) ? BT_MIN(ram, limit) : ram;
}

uint64_t bt_cpu_memory_available(void)
{
    uint64_t ram = meminfo_bytes("MemAvailable"), limit, use;
    if (!cgroup_memory(&limit, &use)) {
        return ram;
    }
    return BT_MIN(ram, limit > use ? limit - use : 0);
}
