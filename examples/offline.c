/* SPDX-License-Identifier: MIT
 *
 * What `betoken generate` does, in one screen: open an engine, submit prompts, print the answers.
 *
 *   cc offline.c -lbetoken -o offline && ./offline MODEL "A prompt" "Another one"
 *   DRAFT=model ./offline MODEL …      speculates with a draft model: same text, sooner */
#include <betoken.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const betoken_error *error)
{
    fprintf(stderr, "offline: %s\n", error->message);
    return 1;
}

/* Prints one answer as it comes. */
static int print_answer(betoken_stream *stream)
{
    betoken_event event;
    while (betoken_stream_wait(stream, -1) && betoken_stream_next(stream, &event)) {
        switch (event.type) {
        case BETOKEN_EVENT_TOKEN:
        case BETOKEN_EVENT_TEXT:
            fwrite(event.u.text, 1, (size_t)event.n, stdout);
            fflush(stdout);
            break;
        case BETOKEN_EVENT_DONE:
            printf("\n[%d tokens in %.2f s, %d of %d guesses kept]\n",
                   event.usage.completion_tokens, (double)event.usage.total_ns * 1e-9,
                   event.usage.accepted, event.usage.drafted);
            break;
        case BETOKEN_EVENT_ERROR:
            return fail(&event.u.error);
        default:
            break;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    betoken_options options;
    betoken_engine *engine;
    betoken_error error;
    if (argc < 3) {
        fprintf(stderr, "usage: offline MODEL PROMPT…\n");
        return 2;
    }
    betoken_options_init(&options);
    options.model = argv[1];
    options.speculative_model = getenv("DRAFT");
    if (betoken_engine_open(&options, &engine, &error) != BETOKEN_OK) {
        return fail(&error);
    }
    int status = 0;
    for (int i = 2; i < argc && status == 0; i++) {
        betoken_request request;
        betoken_stream *stream;
        betoken_request_init(&request);
        request.prompt = (betoken_text){argv[i], strlen(argv[i])};
        request.max_tokens = 100;
        if (betoken_submit(engine, &request, NULL, NULL, &stream, &error) != BETOKEN_OK) {
            status = fail(&error);
            break;
        }
        status = print_answer(stream);
        betoken_stream_close(stream);
    }
    betoken_engine_close(engine);
    return status;
}
