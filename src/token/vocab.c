/* SPDX-License-Identifier: MIT
 *
 * Byte-level alphabet: Radford et al., "Language models are unsupervised multitask learners" (GPT-2),
 * encoder.py: bytes that print stand for themselves, the other 68 for U+0100 … U+0143 in order. */
#include "token/vocab.h"

#include "text/utf8.h"

#include <inttypes.h>
#include <string.h>

static bool prints(int b)
{
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
}

uint32_t bt_byte_letter(uint8_t byte)
{
    if (prints(byte)) {
        return byte;
    }
    uint32_t n = 0;
    for (int b = 0; b < byte; b++) {
        n += !prints(b);
    }
    return 0x100 + n;
}

int bt_letter_byte(uint32_t c)
{
    if (c < 0x100) {
        return prints((int)c) ? (int)c : -1;
    }
    int n = 0;
    for (int b = 0; b < 0x100; b++) {
        if (!prints(b) && n++ == (int)c - 0x100) {
            return b;
        }
    }
    return -1;
}

void bt_vocab_init(bt_vocab *v)
{
    memset(v, 0, sizeof *v);
    bt_map_init(&v->by_written, BT_MEM_TOKEN);
    bt_map_init(&v->by_bytes, BT_MEM_TOKEN);
    bt_arena_init(&v->arena, BT_MEM_TOKEN, 1 << 18, (size_t)1 << 30);
}

void bt_vocab_deinit(bt_vocab *v)
{
    bt_mem_free(v->entries);
    bt_map_deinit(&v->by_written);
    bt_map_deinit(&v->by_bytes);
    bt_arena_deinit(&v->arena);
}

static bt_status no_memory(bt_err *err)
{
    return bt_fail(err, BT_E_NO_MEMORY, "no memory for the vocabulary");
}

static bt_status grow(bt_vocab *v, int32_t n, bt_err *err)
{
    if (n > v->cap) {
        int32_t cap = BT_MAX(n, v->cap * 2);
        bt_vocab_entry *e = bt_mem_realloc(BT_MEM_TOKEN, v->entries, (size_t)cap, sizeof *e);
        if (e == NULL) {
            return no_memory(err);
        }
        memset(e + v->cap, 0, (size_t)(cap - v->cap) * sizeof *e);
        v->entries = e;
        v->cap = cap;
    }
    v->n = BT_MAX(v->n, n);
    return BT_OK;
}

bt_status bt_vocab_set(bt_vocab *v, int64_t id, bt_str written, int64_t id_max, bt_err *err)
{
    if (id < 0 || id > id_max || id >= BT_VOCAB_MAX) {
        return bt_fail(err, BT_E_FORMAT,
                       "token \"%.*s\" has id %" PRId64 "; 0 to %" PRId64 " are possible here",
                       (int)BT_MIN(written.n, (size_t)60), written.p, id,
                       BT_MIN(id_max, (int64_t)BT_VOCAB_MAX - 1));
    }
    const int64_t *there = bt_map_find(&v->by_written, written);
    if (there != NULL && *there == id) {
        return BT_OK;
    }
    BT_TRY(grow(v, (int32_t)id + 1, err));
    if (there != NULL || v->entries[id].written.p != NULL) {
        return bt_fail(err, BT_E_FORMAT, "token \"%.*s\" and id %" PRId64 " are not one to one",
                       (int)BT_MIN(written.n, (size_t)60), written.p, id);
    }
    char *copy = bt_arena_dup(&v->arena, written.p, written.n);
    bool added;
    if (copy == NULL || !bt_map_add(&v->by_written, (bt_str){copy, written.n}, id, &added)) {
        return no_memory(err);
    }
    v->entries[id].written = (bt_str){copy, written.n};
    return BT_OK;
}

static int32_t find(const bt_map *map, bt_str text)
{
    const int64_t *id = bt_map_find(map, text);
    return id == NULL ? -1 : (int32_t)*id;
}

int32_t bt_vocab_find(const bt_vocab *v, bt_str written)
{
    return find(&v->by_written, written);
}

int32_t bt_vocab_find_bytes(const bt_vocab *v, bt_str bytes)
{
    return find(&v->by_bytes, bytes);
}

static bt_status set_bytes(bt_vocab *v, int32_t id, bt_str bytes, bt_err *err)
{
    bt_vocab_entry *e = &v->entries[id];
    bool added;
    e->bytes = bytes;
    v->bytes_max = BT_MAX(v->bytes_max, bytes.n);
    if (!e->is_added && bytes.n > 0 && !bt_map_add(&v->by_bytes, bytes, id, &added)) {
        return no_memory(err);
    }
    return BT_OK;
}

/* Text with a letter outside the alphabet (a hand-made token) stands for itself. */
static bt_str letters_to_bytes(bt_vocab *v, bt_str written, const int16_t *table)
{
    char *bytes = bt_arena_alloc(&v->arena, written.n + 1);
    size_t n = 0;
    for (size_t at = 0; bytes != NULL && at < written.n;) {
        uint32_t c;
        int len = bt_utf8_decode(written.p + at, written.n - at, &c);
        int byte = len > 0 && c < 0x200 ? table[c] : -1;
        if (byte < 0) {
            return written;
        }
        bytes[n++] = (char)byte;
        at += (size_t)len;
    }
    return (bt_str){bytes, n};
}

bt_status bt_vocab_decode_byte_level(bt_vocab *v, bt_err *err)
{
    int16_t table[0x200];
    for (uint32_t c = 0; c < 0x200; c++) {
        table[c] = (int16_t)bt_letter_byte(c);
    }
    if (!bt_map_reserve(&v->by_bytes, (size_t)v->n)) {
        return no_memory(err);
    }
    for (int32_t id = 0; id < v->n; id++) {
        bt_vocab_entry *e = &v->entries[id];
        bt_str bytes = e->is_added ? e->written : letters_to_bytes(v, e->written, table);
        if (e->written.n > 0 && bytes.p == NULL) {
            return no_memory(err);
        }
        BT_TRY(set_bytes(v, id, bytes, err));
    }
    return BT_OK;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

static int byte_token(bt_str w)
{
    bool shape = w.n == 6 && w.p[0] == '<' && w.p[1] == '0' && w.p[2] == 'x' && w.p[5] == '>';
    int high = shape ? hex_digit(w.p[3]) : -1, low = shape ? hex_digit(w.p[4]) : -1;
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

bt_status bt_vocab_decode_marks(bt_vocab *v, int32_t id, bt_str text)
{
    static const char mark[] = "\xE2\x96\x81"; /* U+2581 */
    char *bytes = bt_arena_alloc(&v->arena, text.n + 1);
    size_t n = 0;
    if (bytes == NULL) {
        return BT_E_NO_MEMORY;
    }
    for (size_t at = 0; at < text.n;) {
        bool is_mark = text.n - at >= 3 && memcmp(text.p + at, mark, 3) == 0;
        bytes[n++] = is_mark ? ' ' : text.p[at];
        at += is_mark ? 3 : 1;
    }
    v->entries[id].bytes = (bt_str){bytes, n};
    v->bytes_max = BT_MAX(v->bytes_max, n);
    return BT_OK;
}

bt_status bt_vocab_decode_sentencepiece(bt_vocab *v, bt_err *err)
{
    for (int32_t id = 0; id < v->n; id++) {
        bt_vocab_entry *e = &v->entries[id];
        int byte = e->is_added ? -1 : byte_token(e->written);
        if (bt_vocab_decode_marks(v, id, e->written) != BT_OK) {
            return no_memory(err);
        }
        if (byte >= 0) {
            e->is_byte = true;
            char one = (char)byte;
            e->bytes = (bt_str){bt_arena_dup(&v->arena, &one, 1), 1};
            if (e->bytes.p == NULL) {
                return no_memory(err);
            }
        }
    }
    return BT_OK;
}
