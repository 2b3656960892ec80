/* SPDX-License-Identifier: MIT
 *
 * Tokens back to text, one at a time. Bytes are held until they form a character. A byte that cannot
 * continue the character begun turns what was held into U+FFFD and begins anew: one a maximal
 * subpart, as Rust's and Python's lossy decoders do, for byte-level vocabularies; one a byte where
 * single bytes are tokens (the library's ByteFallback). That step of the library looks at the whole
 * run of byte tokens and gives up its good characters too when one byte is bad; a stream cannot take
 * back a character, so here they stay. */
#include "token/tokimpl.h"

#include "text/utf8.h"

#include <string.h>

void bt_detok_init(bt_detok *d, const bt_tokenizer *tok, bool at_start)
{
    *d = (bt_detok){.tok = tok, .at_start = at_start && tok->strip_start};
}

/* What is held, as U+FFFD. */
static size_t give_up(bt_detok *d, char *out)
{
    int n = d->n_held == 0 ? 0 : d->tok->each_byte ? d->n_held : 1;
    for (int i = 0; i < n; i++) {
        memcpy(out + 3 * i, "\xEF\xBF\xBD", 3);
    }
    d->n_held = 0;
    return 3 * (size_t)n;
}

static size_t push_byte(bt_detok *d, char byte, char *out)
{
    uint32_t c;
    size_t n = 0;
    d->held[d->n_held++] = byte;
    if (bt_utf8_decode(d->held, d->n_held, &c) != d->n_held) {
        if (bt_utf8_incomplete_tail(d->held, d->n_held) == d->n_held) {
            return 0;
        }
        if (d->n_held == 1) {
            return give_up(d, out);
        }
        d->n_held--; /* the new byte begins anew; at most once, for then it is alone */
        n = give_up(d, out);
        return n + push_byte(d, byte, out + n);
    }
    n = d->n_held;
    memcpy(out, d->held, n);
    d->n_held = 0;
    return n;
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
    return give_up(d, out);
}
