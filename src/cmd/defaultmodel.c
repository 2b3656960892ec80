/* SPDX-License-Identifier: MIT
 *
 * The default model: tools/get-model prints its path, fetching it first when it is not cached. The
 * script lies beside the sources of a build folder, or in libexec of an installation. */
#include "cmd/options.h"

#include "base/buf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

static bool find_script(char out[PATH_BYTES])
{
    static const char *const places[] = {"../libexec/betoken/get-model",
                                         "../../../tools/get-model"};
    char exe[PATH_BYTES];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n <= 0) {
        return false;
    }
    exe[n] = '\0';
    char *slash = strrchr(exe, '/');
    for (size_t i = 0; slash != NULL && i < BT_COUNT(places); i++) {
        *slash = '\0';
        if (snprintf(out, PATH_BYTES, "%s/%s", exe, places[i]) < PATH_BYTES &&
            access(out, X_OK) == 0) {
            return true;
        }
    }
    return false;
}

/* Runs the script; its standard error is ours, its standard output is read. */
static int run_script(const char *script, bt_buf *output)
{
    int ends[2], wait_status = -1;
    if (pipe(ends) != 0) {
        return -1;
    }
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl(script, script, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    char chunk[1024];
    ssize_t n = 0;
    while (child > 0 &&
           ((n = read(ends[0], chunk, sizeof chunk)) > 0 || (n < 0 && errno == EINTR))) {
        bt_buf_push(output, chunk, n > 0 ? (size_t)n : 0);
    }
    close(ends[0]);
    while (child > 0 && waitpid(child, &wait_status, 0) < 0 && errno == EINTR) {
    }
    return child > 0 && WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
}

bt_status bt_default_model(char **path, bt_err *err)
{
    char script[PATH_BYTES];
    if (!find_script(script)) {
        return bt_fail(err, BT_E_NOT_FOUND,
                       "no model given and get-model is not beside this program; use --model "
                       "DIRECTORY, FILE.gguf or ORG/NAME");
    }
    bt_buf output;
    bt_buf_init(&output, BT_MEM_BASE, 64 << 10);
    int status = run_script(script, &output);
    while (output.n > 0 && output.p[output.n - 1] == '\n') {
        output.p[--output.n] = '\0';
    }
    if (status != 0 || output.n == 0 || strchr(output.p, '\n') != NULL) {
        bt_buf_deinit(&output);
        return bt_fail(err, BT_E_NOT_FOUND,
                       "the default model could not be fetched (see above); use --model DIRECTORY, "
                       "FILE.gguf or ORG/NAME");
    }
    *path = bt_buf_take(&output);
    return BT_OK;
}
