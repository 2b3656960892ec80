/* SPDX-License-Identifier: MIT
 *
 * The few functions of betoken.h that api calls, for tests without an engine. Token 256 + i has the
 * text of words[i]; ids below 256 are single bytes. */
#ifndef TEST_FAKEENGINE_H
#define TEST_FAKEENGINE_H

#include <betoken.h>
#include <math.h>
#include <string.h>

betoken_text betoken_token_bytes(const betoken_engine *engine, int32_t id)
{
    static const char *const words[] = {"Once", " upon", " a", " time"};
    static char bytes[256];
    (void)engine;
    if (id >= 256 && id < 260) {
        return (betoken_text){words[id - 256], strlen(words[id - 256])};
    }
    bytes[id & 255] = (char)(id & 255);
    return (betoken_text){&bytes[id & 255], 1};
}

const char *betoken_version(void)
{
    return "1.2.3";
}

void betoken_request_init(betoken_request *request)
{
    *request = (betoken_request){.add_special_tokens = -1,
                                 .add_generation_prompt = true,
                                 .temperature = NAN,
                                 .top_p = NAN,
                                 .min_p = NAN,
                                 .top_k = BETOKEN_UNSET_INT,
                                 .max_tokens = -1,
                                 .logprobs = -1};
}

#endif
