/* SPDX-License-Identifier: MIT
 *
 * betoken SUBCOMMAND …: one binary, one file a sub-command. */
#include "cmd/options.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

static int usage(FILE *out, int status)
{
    fprintf(out,
            "betoken %s: LLM inference with speculative decoding\n\n"
            "usage: betoken COMMAND [options]\n\n"
            "  serve      OpenAI-compatible HTTP server\n"
            "  generate   prompts in, completions out\n"
            "  bench      speed of this machine with a model, alone or beside another program\n\n"
            "betoken COMMAND --help lists the options of a command.\n",
            betoken_version());
    return status;
}

static int fail(const bt_err *err)
{
    fprintf(stderr, "betoken: %s\n", err->message);
    return 2;
}

int main(int argc, char **argv)
{
    bt_command command;
    if (argc < 2) {
        return usage(stderr, 2);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        return usage(stdout, 0);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("betoken %s\n", betoken_version());
        return 0;
    }
    if (strcmp(argv[1], "generate") == 0) {
        command = BT_CMD_GENERATE;
    } else if (strcmp(argv[1], "serve") == 0) {
        command = BT_CMD_SERVE;
    } else if (strcmp(argv[1], "bench") == 0) {
        command = BT_CMD_BENCH;
    } else {
        fprintf(stderr, "betoken: unknown command \"%s\"\n", argv[1]);
        return usage(stderr, 2);
    }
    bt_options o;
    bt_err err = {0};
    bt_options_init(&o);
    /* A server says what it does; a filter stays silent. */
    bt_log_level level = command == BT_CMD_SERVE ? BT_LOG_INFO : BT_LOG_WARN;
    if (bt_options_parse(&o, command, argc - 2, argv + 2, &err) != BT_OK) {
        return fail(&err);
    }
    if (o.help) {
        bt_options_help(command);
        return 0;
    }
    if (o.version) {
        printf("betoken %s\n", betoken_version());
        return 0;
    }
    if (o.log_level != NULL && !bt_log_parse_level(o.log_level, &level)) {
        bt_fail(&err, BT_E_INVALID,
                "--log-level %s: one of error, warn, info, debug, trace is expected", o.log_level);
        return fail(&err);
    }
    bt_log_set_level(level);
    return command == BT_CMD_SERVE   ? bt_cmd_serve(&o)
           : command == BT_CMD_BENCH ? bt_cmd_bench(&o)
                                     : bt_cmd_generate(&o);
}
