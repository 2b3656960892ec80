/* SPDX-License-Identifier: MIT
 *
 * log.h: one line a thing that happened, on stderr.
 *
 *   bt_log(BT_LOG_INFO, "loaded", "path=%s tensors=%d", path, n);
 *
 * error = a person must act, warn = degraded, info = life cycle and one line a request, debug =
 * per request detail, trace = per step. No prompt text above debug. Thread-safe: a line is written
 * by one write. Set up once before threads start. */
#ifndef BT_BASE_LOG_H
#define BT_BASE_LOG_H

#include "base/base.h"

typedef enum bt_log_level {
    BT_LOG_ERROR = 0,
    BT_LOG_WARN,
    BT_LOG_INFO,
    BT_LOG_DEBUG,
    BT_LOG_TRACE
} bt_log_level;

/* Default: BT_LOG_WARN, so that a library stays silent unless asked. */
void bt_log_set_level(bt_log_level level);
bt_log_level bt_log_get_level(void);
/* "error", "warn" or "warning", "info", "debug", "trace"; false when the name is none of them. */
bool bt_log_parse_level(const char *name, bt_log_level *level);

void bt_log(bt_log_level level, const char *event, const char *format, ...) BT_PRINTF(3, 4);

/* A progress line "what: 42 %" that rewrites itself while stderr is a terminal; nothing in a pipe.
 * done >= total ends the line. total > 0. */
void bt_log_progress(const char *what, uint64_t done, uint64_t total);

#endif
