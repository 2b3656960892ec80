/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Atomic int max_level = BT_LOG_WARN; /* relaxed: a filter, orders nothing */
static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};

void bt_log_set_level(bt_log_level level)
{
    atomic_store_explicit(&max_level, (int)level, memory_order_relaxed);
}

bt_log_level bt_log_get_level(void)
{
    return (bt_log_level)atomic_load_explicit(&max_level, memory_order_relaxed);
}

bool bt_log_parse_level(const char *name, bt_log_level *level)
{
    if (strcmp(name, "warning") == 0) {
        name = "warn";
    }
    for (size_t i = 0; i < BT_COUNT(level_names); i++) {
        if (strcmp(name, level_names[i]) == 0) {
            *level = (bt_log_level)i;
            return true;
        }
    }
    return false;
}

static void write_all(const char *text, size_t n)
{
    while (n > 0) {
        ssize_t done = write(STDERR_FILENO, text, n);
        if (done <= 0) {
            return; /* nobody to tell */
        }
        text += done;
        n -= (size_t)done;
    }
}

void bt_log(bt_log_level level, const char *event, const char *format, ...)
{
    if (level > bt_log_get_level()) {
        return;
    }
    char line[2048];
    time_t now = time(NULL);
    struct tm tm;
    localtime_r(&now, &tm);
    size_t n = strftime(line, sizeof line, "%H:%M:%S ", &tm);
    n += (size_t)snprintf(line + n, sizeof line - n, "%-5s %s ", level_names[level], event);
    va_list args;
    va_start(args, format);
    int body = vsnprintf(line + n, sizeof line - n - 1, format, args);
    va_end(args);
    n += body < 0 ? 0 : BT_MIN((size_t)body, sizeof line - n - 2);
    for (size_t i = 0; i < n; i++) { /* one event, one line, whatever a file or client sent */
        if ((unsigned char)line[i] < ' ') {
            line[i] = ' ';
        }
    }
    line[n++] = '\n';
    write_all(line, n);
}

void bt_log_progress(const char *what, uint64_t done, uint64_t total)
{
    static _Atomic int shown = -1; /* last per cent written; relaxed, cosmetic */
    BT_ASSERT(total > 0);
    if (bt_log_get_level() < BT_LOG_WARN || isatty(STDERR_FILENO) == 0) {
        return;
    }
    int percent = (int)(100.0 * (double)BT_MIN(done, total) / (double)total);
    if (atomic_exchange_explicit(&shown, percent, memory_order_relaxed) == percent) {
        return;
    }
    char line[256];
    int n = done >= total ? snprintf(line, sizeof line, "\r\033[K")
                          : snprintf(line, sizeof line, "\r\033[K%s: %d %%", what, percent);
    write_all(line, BT_MIN((size_t)n, sizeof line - 1));
}
