/* SPDX-License-Identifier: MIT
 *
 * Tokens back to text, one at a time. Bytes are held until they form a character; a byte that cannot
 * continue the character begun turns what was held into one U+FFFD (one a maximal subpart, as Rust's
 * and Python's lossy decoders do) and begins anew. */
#include "token/tokimpl.h"

#include "text/utf8.h"

#include <string.h>

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

void bt_detok_init(bt_detok *d, const bt_tokenizer *tok, bool at_start)
{
    *d = (bt_detok){.tok = tok, .at_start = at_start && tok->strip_start};
}

static size_t put(char *out, const char *bytes, size_t n)
{
    memcpy(out, bytes, n);
    return n;
}

static size_t push_byte(bt_detok *d, char byte, char *out)
{
    uint32_t c;
    size_t n = 0;
    d->held[d->n_held++] = byte;
    if (bt_utf8_decode(d->held, d->n_held, &c) == d->n_held) {
        n = put(out, d->held, d->n_held);
        d->n_held = 0;
        return n;
    }
    if (bt_utf8_incomplete_tail(d->held, d->n_held) == d->n_held) {
        return 0;
    }
    n = put(out, replacement, 3);
    bool alone = d->n_held == 1;
    d->n_held = 0;
    return alone ? n : n + push_byte(d, byte, out + n); /* at most once: then it is alone */
}

size_t bt_detok_push(bt_detok *d, int32_t id, bool skip_special, char *out)
{
    if (skip_special && bt_tokenizer_is_special(d->tok, id)) {
        return 0;
    }
    bt_str bytes = bt_tokenizer_bytes(d->tok, id);
    size_t n = 0, i = 0;
    if (d->at_start && bytes.n > 0) {
        d->at_start = false;
        i = bytes.p[0] == ' ';
    }
    for (; i < bytes.n; i++) {
        n += push_byte(d, bytes.p[i], out + n);
    }
    return n;
}

size_t bt_detok_flush(bt_detok *d, char *out)
{
    size_t n = d->n_held > 0 ? put(out, replacement, 3) : 0;
    d->n_held = 0;
    return n;
}
