/* SPDX-License-Identifier: MIT */
#include "bench/command.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1024 };

struct bt_bench_command {
    pid_t pid;
    int fd; /* one socket is the program's input and output: a write to a dead peer is an error of
               send, not a signal */
};

/* 0, or an errno. */
static int spawn(const char *line, int fd, pid_t *pid)
{
    static char sh[] = "sh", flag[] = "-c";
    posix_spawn_file_actions_t actions;
    char *copy = bt_mem_dup(BT_MEM_BASE, line, strlen(line));
    if (copy == NULL || posix_spawn_file_actions_init(&actions) != 0) {
        bt_mem_free(copy);
        return ENOMEM;
    }
    char *const argv[] = {sh, flag, copy, NULL};
    int code = posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO);
    code = code != 0 ? code : posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
    /* lint: allow environment: the child gets all of it, nothing is read here. */
    code = code != 0 ? code : posix_spawn(pid, "/bin/sh", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    bt_mem_free(copy);
    return code;
}

bt_status bt_bench_command_open(const char *line, bt_bench_command **out, bt_err *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return bt_fail(err, BT_E_IO, "a socket pair: %s", strerror(errno));
    }
    bt_bench_command *command = bt_mem_calloc(BT_MEM_BASE, 1, sizeof *command);
    pid_t pid = 0;
    int code = command != NULL ? spawn(line, ends[1], &pid) : ENOMEM;
    close(ends[1]);
    if (code != 0) {
        close(ends[0]);
        bt_mem_free(command);
        return bt_fail(err, code == ENOMEM ? BT_E_NO_MEMORY : BT_E_IO, "cannot start a process: %s",
                       strerror(code));
    }
    *command = (bt_bench_command){.pid = pid, .fd = ends[0]};
    *out = command;
    return BT_OK;
}

void bt_bench_command_close(bt_bench_command *command)
{
    if (command == NULL) {
        return;
    }
    close(command->fd);
    int64_t deadline = bt_clock_now_ns() + 5 * BT_NS_PER_S;
    pid_t done;
    while ((done = waitpid(command->pid, NULL, WNOHANG)) == 0 && bt_clock_now_ns() < deadline) {
        bt_clock_sleep_ns(5000000);
    }
    if (done == 0) {
        kill(command->pid, SIGKILL);
        while (waitpid(command->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    bt_mem_free(command);
}

static bt_status send_all(int fd, const char *p, size_t n, bt_err *err)
{
    while (n > 0) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) {
            return bt_fail(err, BT_E_IO, "the command has ended: %s", strerror(errno));
        }
        size_t step = sent > 0 ? (size_t)sent : 0;
        p += step;
        n -= step;
    }
    return BT_OK;
}

/* Reads up to a line end, one byte at a time: a line is short and nothing may be read beyond it. */
static bt_status read_line(int fd, int64_t timeout_ns, char line[LINE_MAX_BYTES], bt_err *err)
{
    int64_t deadline = bt_clock_now_ns() + timeout_ns;
    for (size_t n = 0; n < LINE_MAX_BYTES;) {
        int64_t left_ms = (deadline - bt_clock_now_ns()) / 1000000;
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int is_ready = left_ms > 0 ? poll(&ready, 1, (int)BT_MIN(left_ms, (int64_t)60000)) : 0;
        if (left_ms <= 0) {
            return bt_fail(err, BT_E_IO, "the command gave no answer within %.1f s",
                           (double)timeout_ns * 1e-9);
        }
        if (is_ready <= 0) {
            continue;
        }
        ssize_t got = recv(fd, line + n, 1, 0);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return bt_fail(err, BT_E_IO, "the command ended without an answer");
        }
        if (got == 1 && line[n++] == '\n') {
            line[n - 1] = '\0';
            return BT_OK;
        }
    }
    return bt_fail(err, BT_E_FORMAT, "the command's answer has more than %d bytes", LINE_MAX_BYTES);
}

bt_status bt_bench_command_ask(bt_bench_command *command, const char *request, int64_t timeout_ns,
                               double *value, bt_err *err)
{
    char line[LINE_MAX_BYTES], *end;
    BT_TRY(send_all(command->fd, request, strlen(request), err));
    BT_TRY(send_all(command->fd, "\n", 1, err));
    BT_TRY(read_line(command->fd, timeout_ns, line, err));
    double v = strtod(line, &end);
    if (end == line || !isfinite(v) || (*end != '\0' && *end != ' ')) {
        return bt_fail(err, BT_E_FORMAT, "the command answered \"%.300s\"; a number is expected",
                       line);
    }
    *value = v;
    return BT_OK;
}

bt_status bt_bench_command_run(void *question, int round, double *value, bt_err *err)
{
    (void)round;
    const bt_bench_question *q = question;
    return bt_bench_command_ask(q->command, q->request, 600 * BT_NS_PER_S, value, err);
}
