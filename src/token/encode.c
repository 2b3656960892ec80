/* SPDX-License-Identifier: MIT
 *
 * The way of a text to ids:
 *
 *   text → added tokens cut out → normalised → added tokens that are sought after that
 *        → pieces (pretok) → symbols → merges (bpe) → ids */
#include "token/tokimpl.h"

#include "text/unicode.h"
#include "text/utf8.h"

#include <string.h>

enum { TEXT_MAX = 256 << 20 };

typedef struct encoder {
    const bt_tokenizer *t;
    bt_ids *ids;
    bt_err *err;
    bt_bpe bpe;
    bt_pieces pieces, scratch;
    bt_buf norm[2];      /* normalised text, ping-pong */
    int64_t deadline_ns; /* for the split patterns */
} encoder;

static bt_status push_bytes(encoder *e, bt_str piece)
{
    for (size_t i = 0; i < piece.n; i++) {
        int32_t id = e->t->byte_id[(unsigned char)piece.p[i]];
        id = id >= 0 ? id : e->t->unk_id;
        if (id >= 0) {
            BT_TRY(bt_bpe_push(&e->bpe, id));
        }
    }
    return BT_OK;
}

/* Characters of a SentencePiece-style vocabulary; those it lacks fall back to bytes, else to unk. */
static bt_status push_chars(encoder *e, bt_str piece)
{
    const bt_tokenizer *t = e->t;
    bool was_unk = false;
    for (size_t at = 0; at < piece.n;) {
        uint32_t c;
        int len = bt_utf8_decode(piece.p + at, piece.n - at, &c);
        BT_ASSERT(len > 0); /* encode has checked the text */
        bt_str one = {piece.p + at, (size_t)len};
        at += (size_t)len;
        int32_t id = bt_vocab_find(&t->vocab, one);
        bool bytes = id < 0;
        for (int i = 0; i < len && bytes; i++) {
            bytes = t->byte_id[(unsigned char)one.p[i]] >= 0;
        }
        if (bytes) {
            BT_TRY(push_bytes(e, one));
        } else if (id >= 0) {
            BT_TRY(bt_bpe_push(&e->bpe, id));
        } else if (t->unk_id >= 0 && !(was_unk && t->fuse_unk)) {
            BT_TRY(bt_bpe_push(&e->bpe, t->unk_id));
        }
        was_unk = id < 0 && !bytes;
    }
    return BT_OK;
}

static bt_status encode_piece(encoder *e, bt_str piece)
{
    const bt_tokenizer *t = e->t;
    if (t->ignore_merges) {
        int32_t id =
            t->byte_level ? bt_vocab_find_bytes(&t->vocab, piece) : bt_vocab_find(&t->vocab, piece);
        if (id >= 0 && !t->vocab.entries[id].is_added) {
            return bt_ids_push(e->ids, id);
        }
    }
    bt_bpe_reset(&e->bpe);
    BT_TRY(t->byte_level ? push_bytes(e, piece) : push_chars(e, piece));
    BT_TRY(bt_bpe_run(&e->bpe, &t->merges));
    for (size_t i = 0; i < e->bpe.n_symbols; i++) {
        if (e->bpe.symbols[i].id >= 0) {
            BT_TRY(bt_ids_push(e->ids, e->bpe.symbols[i].id));
        }
    }
    return BT_OK;
}

/* Merges never cross the border before a "▁" that follows something else, where the vocabulary has
 * no such merge: whole texts fall into words, which are merged far faster one by one. */
static bt_status encode_words(encoder *e, bt_str piece)
{
    static const bt_str mark = {"\xE2\x96\x81", 3};
    size_t begin = 0;
    for (size_t at = 0; e->t->cut_at_mark && at < piece.n;) {
        int64_t hit = bt_str_find(piece, mark, at);
        if (hit < 0) {
            break;
        }
        if ((size_t)hit > at) { /* something lies before it */
            BT_TRY(encode_piece(e, (bt_str){piece.p + begin, (size_t)hit - begin}));
            begin = (size_t)hit;
        }
        at = (size_t)hit + mark.n;
    }
    return encode_piece(e, (bt_str){piece.p + begin, piece.n - begin});
}

static bt_status encode_plain(encoder *e, bt_str text)
{
    if (text.n == 0) {
        return BT_OK;
    }
    bt_buf prefixed;
    bt_buf_init(&prefixed, BT_MEM_TOKEN, TEXT_MAX);
    if (e->t->add_prefix_space && text.p[0] != ' ') {
        bt_buf_push_char(&prefixed, ' ');
        bt_buf_push_str(&prefixed, text);
        text = bt_buf_str(&prefixed);
    }
    bt_status status = bt_buf_ok(&prefixed);
    if (status == BT_OK) {
        status =
            bt_pretok_split(&e->t->pretok, text, e->deadline_ns, &e->pieces, &e->scratch, e->err);
    }
    for (size_t i = 0; i < e->pieces.n && status == BT_OK; i++) {
        bt_piece p = e->pieces.piece[i];
        status = encode_words(e, (bt_str){text.p + p.begin, p.end - p.begin});
    }
    bt_buf_deinit(&prefixed);
    return status;
}

static bt_status replace_all(bt_str text, const bt_norm_step *step, bt_buf *out)
{
    for (size_t at = 0;;) {
        int64_t hit = step->from.n > 0 ? bt_str_find(text, step->from, at) : -1;
        size_t end = hit < 0 ? text.n : (size_t)hit;
        bt_buf_push(out, text.p + at, end - at);
        if (hit < 0) {
            return bt_buf_ok(out);
        }
        bt_buf_push_str(out, step->to);
        at = end + step->from.n;
    }
}

bt_status bt_tokenizer_normalise(const bt_tokenizer *t, bt_str text, bt_buf work[2], bt_str *out)
{
    for (int i = 0; i < t->n_norm; i++) {
        const bt_norm_step *step = &t->norm[i];
        bt_buf *buf = &work[i % 2];
        bt_buf_clear(buf);
        switch (step->kind) {
        case BT_NORM_NFC:
            BT_TRY(bt_unicode_nfc(text, buf));
            break;
        case BT_NORM_PREPEND:
            if (text.n > 0) {
                bt_buf_push_str(buf, step->to);
                bt_buf_push_str(buf, text);
            }
            break;
        case BT_NORM_REPLACE:
            BT_TRY(replace_all(text, step, buf));
        }
        BT_TRY(bt_buf_ok(buf));
        text = bt_buf_str(buf);
    }
    *out = text;
    return BT_OK;
}

/* Text between two added tokens, from byte `base` of the whole. Tokens that are sought after
 * normalisation may be special where the text is trusted; once a normalizer has moved the bytes, only
 * text that is trusted as a whole can tell. */
static bt_status encode_between(encoder *e, const bt_added_search *outer, size_t base, size_t end,
                                bool trusted)
{
    bt_str raw = {outer->text.p + base, end - base}, text;
    BT_TRY(bt_tokenizer_normalise(e->t, raw, e->norm, &text));
    bt_added_search search = {.text = text, .normalized = true, .all_special = trusted};
    if (e->t->n_norm == 0) {
        search.runs = outer->runs;
        search.n_runs = outer->n_runs;
        search.base = base;
    }
    bt_added_match m;
    size_t at = 0;
    while (bt_added_next(&e->t->added, &search, at, &m)) {
        BT_TRY(encode_plain(e, (bt_str){text.p + at, m.begin - at}));
        BT_TRY(bt_ids_push(e->ids, m.id));
        at = m.end;
    }
    return encode_plain(e, (bt_str){text.p + at, text.n - at});
}

static bt_status encode_all(encoder *e, const bt_encode_args *args)
{
    bt_added_search search = {.text = args->text,
                              .all_special = args->runs == NULL && args->parse_special,
                              .runs = args->runs,
                              .n_runs = args->n_runs};
    bt_added_match m;
    size_t at = 0;
    bool more = true;
    while (more) {
        more = bt_added_next(&e->t->added, &search, at, &m);
        size_t end = more ? m.begin : args->text.n;
        if (end > at) {
            bool trusted = search.all_special || bt_added_is_trusted(&search, at, end);
            BT_TRY(encode_between(e, &search, at, end, trusted));
        }
        if (more) {
            BT_TRY(bt_ids_push(e->ids, m.id));
            at = m.end;
        }
    }
    return BT_OK;
}

bt_status bt_tokenizer_encode(const bt_tokenizer *t, const bt_encode_args *args, bt_ids *ids,
                              bt_err *err)
{
    size_t valid = bt_utf8_valid(args->text);
    if (valid < args->text.n) {
        return bt_fail_at(err, BT_E_INVALID, (int64_t)valid, "the text is not UTF-8 at byte %zu",
                          valid);
    }
    if (args->text.n > TEXT_MAX) {
        return bt_fail(err, BT_E_LIMIT, "%zu bytes of text; %d are the most", args->text.n,
                       TEXT_MAX);
    }
    bt_err inner = {0};
    encoder e = {
        .t = t, .ids = ids, .err = &inner, .deadline_ns = bt_pretok_deadline(args->text.n)};
    bt_buf_init(&e.norm[0], BT_MEM_TOKEN, 4 * (size_t)TEXT_MAX);
    bt_buf_init(&e.norm[1], BT_MEM_TOKEN, 4 * (size_t)TEXT_MAX);
    bt_status status = BT_OK;
    for (int i = 0; args->add_special && i < t->n_before && status == BT_OK; i++) {
        status = bt_ids_push(ids, t->before[i]);
    }
    if (status == BT_OK) {
        status = encode_all(&e, args);
    }
    for (int i = 0; args->add_special && i < t->n_after && status == BT_OK; i++) {
        status = bt_ids_push(ids, t->after[i]);
    }
    bt_bpe_deinit(&e.bpe);
    bt_pieces_deinit(&e.pieces);
    bt_pieces_deinit(&e.scratch);
    bt_buf_deinit(&e.norm[0]);
    bt_buf_deinit(&e.norm[1]);
    if (status != BT_OK) {
        return inner.code != BT_OK
                   ? bt_fail(err, status, "%s", inner.message)
                   : bt_fail(err, status, "no memory to tokenise %zu bytes", args->text.n);
    }
    return BT_OK;
}
