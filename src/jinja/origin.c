/* SPDX-License-Identifier: MIT */
#include "jinja/origin.h"

#include "jinja/context.h"

#include <string.h>

struct bt_jblock {
    char *p;
    size_t used, cap;
    size_t *flips;
    size_t n_flips, cap_flips;
};

static bool end_trusted(const bt_jtext *t)
{
    return t->trusted != (t->n_flips % 2 != 0);
}

/* Gives `a` a block of its own with room for n more bytes and n_flips more flips, unless its own
 * block has the room and nothing was appended behind `a` there. */
static bt_status make_room(bt_jctx *ctx, bt_jtext *a, size_t n, size_t n_flips)
{
    bt_jblock *block = a->block;
    bool at_end = block != NULL && block->used == a->n && block->n_flips == a->n_flips;
    if (at_end && n <= block->cap - block->used && n_flips <= block->cap_flips - block->n_flips) {
        return BT_OK;
    }
    bt_jblock *fresh;
    size_t need = a->n + n;
    size_t flips = a->n_flips + n_flips;
    BT_TRY(bt_jctx_new(ctx, 1, sizeof *fresh, &fresh));
    /* A second append to the same text announces more: only then is room left over. */
    fresh->cap = block == NULL ? need + 32 : need * 2;
    fresh->cap_flips = block == NULL ? flips + 2 : flips * 2 + 2;
    BT_TRY(bt_jctx_new(ctx, fresh->cap, 1, &fresh->p));
    BT_TRY(bt_jctx_new(ctx, fresh->cap_flips, sizeof(size_t), &fresh->flips));
    memcpy(fresh->p, a->p, a->n);
    if (a->n_flips > 0) {
        memcpy(fresh->flips, a->flips, a->n_flips * sizeof(size_t));
    }
    fresh->used = a->n;
    fresh->n_flips = a->n_flips;
    a->p = fresh->p;
    a->flips = fresh->flips;
    a->block = fresh;
    return BT_OK;
}

bt_status bt_jtext_append(bt_jctx *ctx, bt_jtext *a, const bt_jtext *b)
{
    BT_TRY(bt_jctx_charge(ctx, b->n));
    if (b->n == 0) {
        return BT_OK;
    }
    if (a->n == 0) {
        bool markup = a->markup;
        *a = *b;
        a->markup = markup;
        return BT_OK;
    }
    const bt_jtext piece = *b; /* b may be a */
    BT_TRY(make_room(ctx, a, piece.n, piece.n_flips + 1));
    bt_jblock *block = a->block;
    memcpy(block->p + a->n, piece.p, piece.n);
    size_t k = a->n_flips;
    if (piece.trusted != end_trusted(a)) {
        block->flips[k++] = a->n;
    }
    for (size_t i = 0; i < piece.n_flips; i++) {
        block->flips[k++] = a->n + piece.flips[i];
    }
    a->n += piece.n;
    a->n_flips = k;
    block->used = a->n;
    block->n_flips = k;
    return BT_OK;
}

bt_status bt_jtext_push(bt_jctx *ctx, bt_jtext *a, bt_str bytes, bool trusted)
{
    const bt_jtext piece = {.p = bytes.p, .n = bytes.n, .trusted = trusted};
    if (a->n > 0 || bytes.n == 0) {
        return bt_jtext_append(ctx, a, &piece);
    }
    /* The bytes may be the caller's scratch: the first piece is copied as well. */
    *a = (bt_jtext){.p = "", .trusted = trusted, .markup = a->markup};
    BT_TRY(make_room(ctx, a, bytes.n, 1));
    memcpy(a->block->p, bytes.p, bytes.n);
    a->n = bytes.n;
    a->block->used = bytes.n;
    return bt_jctx_charge(ctx, bytes.n);
}

/* How many flips lie at or before pos. */
static size_t flips_until(const bt_jtext *t, size_t pos)
{
    size_t low = 0;
    size_t high = t->n_flips;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (t->flips[mid] <= pos) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

bool bt_jtext_trusted_at(const bt_jtext *t, size_t pos)
{
    return t->trusted != (flips_until(t, pos) % 2 != 0);
}

bt_status bt_jtext_cut(bt_jctx *ctx, const bt_jtext *t, size_t from, size_t to, bt_jtext *out)
{
    BT_ASSERT(from <= to);
    BT_ASSERT(to <= t->n);
    bt_jtext cut = {.p = t->p + from,
                    .n = to - from,
                    .trusted = bt_jtext_trusted_at(t, from),
                    .markup = t->markup};
    size_t first = flips_until(t, from);
    size_t last = to > from ? flips_until(t, to - 1) : first;
    if (last > first) {
        size_t *flips;
        BT_TRY(bt_jctx_new(ctx, last - first, sizeof *flips, &flips));
        for (size_t i = first; i < last; i++) {
            flips[i - first] = t->flips[i] - from;
        }
        cut.flips = flips;
        cut.n_flips = last - first;
    }
    *out = cut;
    return BT_OK;
}

bt_status bt_jtext_store(bt_jctx *ctx, const bt_jtext *t, const bt_jtext **out)
{
    bt_jtext *copy;
    BT_TRY(bt_jctx_new(ctx, 1, sizeof *copy, &copy));
    *copy = *t;
    *out = copy;
    return BT_OK;
}

bool bt_jtext_next_run(const bt_jtext *t, size_t *pos, bt_str *run, bool *trusted)
{
    if (*pos >= t->n) {
        return false;
    }
    size_t k = flips_until(t, *pos);
    size_t end = k < t->n_flips ? t->flips[k] : t->n;
    *trusted = t->trusted != (k % 2 != 0);
    *run = (bt_str){t->p + *pos, end - *pos};
    *pos = end;
    return true;
}

size_t bt_jtext_count(const bt_jtext *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        n += ((unsigned char)t->p[i] & 0xC0) != 0x80;
    }
    return n;
}

size_t bt_jtext_offset(const bt_jtext *t, size_t idx)
{
    size_t seen = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (((unsigned char)t->p[i] & 0xC0) != 0x80 && seen++ == idx) {
            return i;
        }
    }
    return t->n;
}
