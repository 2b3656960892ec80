/* SPDX-License-Identifier: MIT
 *
 * Goal: the streamed pieces of any ids are whole characters and join to what decoding all at once
 * gives. Method: random ids over a byte vocabulary against the lossy decoder of src/text; known
 * answers (of the tokenizers package) for byte fallback and leading blanks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "text/utf8.h"
#include "token/tokimpl.h"

#include <stdio.h>
#include <string.h>

static bt_tokenizer *open_json(const bt_buf *json)
{
    bt_tokenizer *tok;
    bt_err err;
    if (bt_tokenizer_open_json(bt_buf_str(json), &tok, &err) != BT_OK) {
        fail_msg("%s", err.message);
    }
    return tok;
}

/* Ids 0…255: one byte each; 256…: pairs that begin or end inside characters; 300 is special. */
static bt_tokenizer *byte_vocabulary(void)
{
    bt_buf json;
    char utf8[4];
    bt_buf_init(&json, BT_MEM_TOKEN, 1 << 20);
    bt_buf_pushz(&json, "{\"added_tokens\":[{\"id\":300,\"content\":\"<s>\",\"special\":true}],"
                        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                        "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
                        "\"merges\":[],\"vocab\":{");
    for (int b = 0; b < 256; b++) {
        uint32_t letter = bt_byte_letter((uint8_t)b);
        bt_buf_printf(&json, "%s\"%s%.*s\":%d", b > 0 ? "," : "",
                      letter == '"' || letter == '\\' ? "\\" : "", bt_utf8_encode(letter, utf8),
                      utf8, b);
    }
    for (int i = 0; i < 40; i++) { /* F0…, 9F, E4 B8, … two at a time */
        static const unsigned char bytes[] = {0xF0, 0x9F, 0x98, 0x80, 0xE4, 0xB8, 0xAD, 'a', 0xED};
        bt_buf_pushz(&json, ",\"");
        for (int k = 0; k < 2; k++) {
            int at = k == 0 ? i % 9 : (i * 7 + i / 9 + 1) % 9;
            int len = bt_utf8_encode(bt_byte_letter(bytes[at]), utf8);
            bt_buf_push(&json, utf8, (size_t)len);
        }
        bt_buf_printf(&json, "%s\":%d", i >= 9 ? (i >= 18 ? (i >= 27 ? "zz" : "yy") : "xx") : "",
                      256 + i);
    }
    bt_buf_pushz(&json, "}}}");
    bt_tokenizer *tok = open_json(&json);
    bt_buf_deinit(&json);
    return tok;
}

static void pushes_join_to_the_whole(void **state)
{
    (void)state;
    bt_tokenizer *tok = byte_vocabulary();
    uint64_t seed = 5;
    for (int round = 0; round < 20000; round++) {
        char out[1024];
        size_t n = 0;
        bt_buf raw, want;
        bt_detok d;
        bt_buf_init(&raw, BT_MEM_TOKEN, 1024);
        bt_buf_init(&want, BT_MEM_TOKEN, 4096);
        bt_detok_init(&d, tok, true);
        for (uint64_t left = bt_rng_next(&seed) % 12; left > 0; left--) {
            uint64_t r = bt_rng_next(&seed);
            int32_t id = r % 3 == 0 ? (int32_t)(r >> 8) & 0xFF : 256 + (int32_t)((r >> 8) % 45);
            bool skip = round % 2 == 0;
            if (!skip || !bt_tokenizer_is_special(tok, id)) {
                bt_buf_push_str(&raw, bt_tokenizer_bytes(tok, id));
            }
            size_t step = bt_detok_push(&d, id, skip, out + n);
            assert_int_equal(bt_utf8_valid((bt_str){out + n, step}), step);
            assert_true(step <= bt_tokenizer_bytes_max(tok) * 3 + 16);
            n += step;
        }
        n += bt_detok_flush(&d, out + n);
        bt_utf8_push_lossy(&want, bt_buf_str(&raw));
        assert_true(bt_str_eq((bt_str){out, n}, bt_buf_str(&want)));
        bt_buf_deinit(&raw);
        bt_buf_deinit(&want);
    }
    bt_tokenizer_close(tok);
}

/* Ids 0…255 are <0xNN>; 256 "▁The", 257 "▁", 258 "a", 259 <s>. */
static bt_tokenizer *fallback_vocabulary(void)
{
    bt_buf json;
    bt_buf_init(&json, BT_MEM_TOKEN, 1 << 20);
    bt_buf_pushz(
        &json, "{\"added_tokens\":[{\"id\":259,\"content\":\"<s>\",\"special\":true}],"
               "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":"
               "{\"String\":\"\\u2581\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":"
               "\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
               "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"merges\":[],\"vocab\":{"
               "\"\\u2581The\":256,\"\\u2581\":257,\"a\":258");
    for (int b = 0; b < 256; b++) {
        bt_buf_printf(&json, ",\"<0x%02X>\":%d", (unsigned)b, b);
    }
    bt_buf_pushz(&json, "}}}");
    bt_tokenizer *tok = open_json(&json);
    bt_buf_deinit(&json);
    return tok;
}

static void text_is(const bt_tokenizer *tok, bool at_start, const int32_t *ids, size_t n_ids,
                    const char *want)
{
    char out[256];
    size_t n = 0;
    bt_detok d;
    bt_detok_init(&d, tok, at_start);
    for (size_t i = 0; i < n_ids; i++) {
        n += bt_detok_push(&d, ids[i], true, out + n);
    }
    n += bt_detok_flush(&d, out + n);
    out[n] = '\0';
    assert_string_equal(out, want);
}

#define IDS(...) (const int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)
#define LOST "\xEF\xBF\xBD"

static void byte_fallback(void **state)
{
    (void)state;
    bt_tokenizer *tok = fallback_vocabulary();
    text_is(tok, true, IDS(256, 256), "The The");
    text_is(tok, false, IDS(256, 256), " The The");
    text_is(tok, true, IDS(257, 256), " The");
    text_is(tok, true, IDS(0x20, 256), " The");
    text_is(tok, true, IDS(259, 256), "The"); /* skipped tokens are not a start */
    text_is(tok, true, IDS(257), "");
    text_is(tok, true, IDS(0xE4, 0xB8, 0xAD), "\xE4\xB8\xAD");
    text_is(tok, true, IDS(0xF0, 0x9F, 0x98, 0x80, 0x41),
            "\xF0\x9F\x98\x80"
            "A");
    text_is(tok, true, IDS(0xE4, 0xB8), LOST LOST); /* one a byte */
    text_is(tok, true, IDS(256, 0xE4, 0xB8, 256), "The" LOST LOST " The");
    text_is(tok, true, IDS(0xFF, 0x41), LOST "A"); /* the library: the A is lost too */
    text_is(tok, true, IDS(0xE4, 259, 0xB8, 259, 0xAD), "\xE4\xB8\xAD");
    text_is(tok, true, IDS(-1, 100000, 258), "a"); /* ids beyond the vocabulary: nothing (case 1) */
    bt_tokenizer_close(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes_join_to_the_whole),
        cmocka_unit_test(byte_fallback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
