/* SPDX-License-Identifier: MIT
 *
 * command.h: another program as a case. It is started once and stays, so that loading its model is
 * not measured; for each run it is sent one line that says what to measure and answers with one
 * line that begins with a number ("123.4"), or with words that say what went wrong. */
#ifndef BT_BENCH_COMMAND_H
#define BT_BENCH_COMMAND_H

#include "base/status.h"

typedef struct bt_bench_command bt_bench_command;

/* Starts `line` by /bin/sh; its standard input and output are ours, its standard error stays.
 * Returns owned. BT_E_IO, BT_E_NO_MEMORY. */
bt_status bt_bench_command_open(const char *line, bt_bench_command **out, bt_err *err) BT_MUST_USE;
/* Ends its input, waits up to five seconds, then ends it. NULL is allowed. */
void bt_bench_command_close(bt_bench_command *command);

/* Sends `request` and a line end, reads one line. timeout_ns: for the answer. BT_E_IO (it ended, it
 * took too long), BT_E_FORMAT (no number: the message holds its words). */
bt_status bt_bench_command_ask(bt_bench_command *command, const char *request, int64_t timeout_ns,
                               double *value, bt_err *err) BT_MUST_USE;

/* bt_bench_fn with a bt_bench_question: one request, ten minutes at most. */
typedef struct bt_bench_question {
    bt_bench_command *command;
    const char *request;
} bt_bench_question;
bt_status bt_bench_command_run(void *question, int round, double *value, bt_err *err);

#endif
