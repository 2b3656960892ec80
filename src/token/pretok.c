/* SPDX-License-Identifier: MIT */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "token/pretok.h"

#include "base/clock.h"
#include "base/mem.h"

#include <pcre2.h>
#include <string.h>
#include <time.h>

/* PCRE2 counts backtracking steps anew for each start. Most matches of the patterns in use need a
 * handful; a run of 10⁶ blanks needs 10⁶, so that no fixed limit tells it from a hostile pattern.
 * The limit begins low and grows fourfold, and what the whole text may cost is measured on this
 * thread's own CPU clock: known patterns need some 20 ns a byte, the allowance is fifty times
 * that. WINDOW starts are tried by one call, the clock is read when a limit grows and every CHECK
 * calls that found nothing. */
enum { STEPS_FIRST = 1024, STEPS_GROW = 4, WINDOW = 64, CHECK = 64 };
static const uint32_t steps_last = UINT32_MAX / STEPS_GROW;
static const int64_t budget_ns = 250000000, budget_byte_ns = 1000;

struct bt_pretok_pattern {
    pcre2_code *code;
    bool keep_gaps;
    char text[BT_PRETOK_PATTERN_BYTES_MAX + 1]; /* as given, for messages */
};

bt_status bt_pieces_push(bt_pieces *list, size_t begin, size_t end)
{
    if (list->n == list->cap) {
        size_t cap = list->cap == 0 ? 64 : 2 * list->cap;
        bt_piece *piece = bt_mem_realloc(BT_MEM_TOKEN, list->piece, cap, sizeof *piece);
        if (piece == NULL) {
            return BT_E_NO_MEMORY;
        }
        list->piece = piece;
        list->cap = cap;
    }
    list->piece[list->n++] = (bt_piece){begin, end};
    return BT_OK;
}

void bt_pieces_deinit(bt_pieces *list)
{
    bt_mem_free(list->piece);
    *list = (bt_pieces){0};
}

/* Copies the escape at `at`; \s and \S become properties, for PCRE2's also take U+180E. Returns its
 * last byte, 0 when it is one that PCRE2 and the reference's Oniguruma read differently. */
static size_t copy_escape(bt_str pattern, size_t at, bt_buf *out)
{
    char c = at + 1 < pattern.n ? pattern.p[at + 1] : '\0';
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (c == '\0' || (c >= '0' && c <= '9') || (letter && strchr("sSdDpPrntfx", c) == NULL)) {
        return 0;
    }
    if (c == 's' || c == 'S') {
        bt_buf_pushz(out, c == 's' ? "\\p{White_Space}" : "\\P{White_Space}");
        return at + 1;
    }
    size_t end = at + 1;
    if ((c == 'p' || c == 'P' || c == 'x') && at + 2 < pattern.n && pattern.p[at + 2] == '{') {
        while (end + 1 < pattern.n && pattern.p[end] != '}') {
            end++;
        }
    }
    bt_buf_push(out, pattern.p + at, end + 1 - at);
    return end;
}

/* NULL, or what in the pattern is not supported. */
static const char *rewrite(bt_str pattern, bt_buf *out)
{
    bool in_class = false;
    size_t class_at = 0;
    for (size_t i = 0; i < pattern.n; i++) {
        char c = pattern.p[i], next = i + 1 < pattern.n ? pattern.p[i + 1] : '\0';
        if (c == '\\') {
            i = copy_escape(pattern, i, out);
            if (i == 0) {
                return "an escape other than \\s \\d \\p \\r \\n \\t \\f \\x";
            }
            continue;
        }
        if (in_class && (c == '[' || (c == '&' && next == '&'))) {
            return "a set operation inside [ ]";
        }
        if (!in_class && c == '}' && (next == '+' || next == '?')) {
            return "a { } quantifier followed by + or ?";
        }
        if (!in_class && c == '[') {
            in_class = true;
            class_at = next == '^' ? i + 1 : i;
        } else if (c == ']' && i > class_at + 1) {
            in_class = false;
        }
        bt_buf_push_char(out, c);
    }
    return NULL;
}

static bt_status refuse(bt_str pattern, const char *why, bt_err *err)
{
    return bt_fail(err, BT_E_UNSUPPORTED, "split pattern \"%.*s\": %s",
                   (int)BT_MIN(pattern.n, (size_t)200), pattern.p, why);
}

/* Anchors mean lines, as Oniguruma's Ruby syntax has it. */
static bt_status compile(bt_str given, bt_str rewritten, pcre2_code **out, bt_err *err)
{
    int code;
    PCRE2_SIZE at;
    *out = pcre2_compile((PCRE2_SPTR)rewritten.p, rewritten.n,
                         PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_MULTILINE |
                             PCRE2_USE_OFFSET_LIMIT,
                         &code, &at, NULL);
    if (*out == NULL) {
        unsigned char words[160] = "";
        pcre2_get_error_message(code, words, sizeof words);
        return refuse(given, (const char *)words, err);
    }
    pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* without JIT it interprets */
    return BT_OK;
}

bt_status bt_pretok_add(bt_pretok *p, bt_str pattern, bool keep_gaps, bt_err *err)
{
    if (p->n == BT_PRETOK_PATTERNS_MAX || pattern.n > BT_PRETOK_PATTERN_BYTES_MAX) {
        return bt_fail(err, BT_E_LIMIT, "more than %d split patterns, or one of over %d bytes",
                       BT_PRETOK_PATTERNS_MAX, BT_PRETOK_PATTERN_BYTES_MAX);
    }
    struct bt_pretok_pattern *made = bt_mem_calloc(BT_MEM_TOKEN, 1, sizeof *made);
    bt_buf text;
    bt_buf_init(&text, BT_MEM_TOKEN, 1 << 20);
    const char *why = rewrite(pattern, &text);
    bt_status status = BT_OK;
    if (why != NULL) {
        status = refuse(pattern, why, err);
    } else if (made == NULL || bt_buf_ok(&text) != BT_OK) {
        status = bt_fail(err, BT_E_NO_MEMORY, "no memory for a split pattern");
    } else {
        made->keep_gaps = keep_gaps;
        memcpy(made->text, pattern.p, pattern.n);
        status = compile(pattern, bt_buf_str(&text), &made->code, err);
    }
    bt_buf_deinit(&text);
    if (status != BT_OK) {
        bt_mem_free(made);
        return status;
    }
    p->patterns[p->n++] = made;
    return BT_OK;
}

void bt_pretok_deinit(bt_pretok *p)
{
    for (int i = 0; i < p->n; i++) {
        pcre2_code_free(p->patterns[i]->code);
        bt_mem_free(p->patterns[i]);
    }
    p->n = 0;
}

typedef struct matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    uint32_t steps;   /* the limit that the context has now */
    int64_t until_ns; /* of this thread's CPU time */
    unsigned n_misses;
} matcher;

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * BT_NS_PER_S + t.tv_nsec;
}

int64_t bt_pretok_deadline(size_t n)
{
    return cpu_ns() + budget_ns + budget_byte_ns * (int64_t)n;
}

static void set_steps(matcher *m, uint32_t steps)
{
    if (m->steps != steps) {
        pcre2_set_match_limit(m->context, steps);
        m->steps = steps;
    }
}

/* First match that starts in [at, at + WINDOW), which may be empty; BT_E_NOT_FOUND when there is
 * none. */
static bt_status match_window(const struct bt_pretok_pattern *p, matcher *m, bt_str subject,
                              size_t at, bt_piece *hit)
{
    pcre2_set_offset_limit(m->context, at + WINDOW - 1);
    int found;
    for (uint32_t steps = STEPS_FIRST;; steps *= STEPS_GROW) {
        set_steps(m, steps);
        found = pcre2_match(p->code, (PCRE2_SPTR)subject.p, subject.n, at, PCRE2_NO_UTF_CHECK,
                            m->data, m->context);
        if (found != PCRE2_ERROR_MATCHLIMIT || steps >= steps_last) {
            break;
        }
        if (cpu_ns() > m->until_ns) {
            return BT_E_LIMIT;
        }
    }
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(m->data);
    bool none = found == PCRE2_ERROR_NOMATCH, empty = found >= 0 && span[1] <= span[0];
    if ((none || empty) && ++m->n_misses % CHECK == 0 && cpu_ns() > m->until_ns) {
        return BT_E_LIMIT;
    }
    if (found < 0) {
        return none ? BT_E_NOT_FOUND : found == PCRE2_ERROR_NOMEMORY ? BT_E_NO_MEMORY : BT_E_LIMIT;
    }
    *hit = (bt_piece){span[0], BT_MAX(span[0], span[1])};
    return BT_OK;
}

/* Start of the first character at or after `at`. */
static size_t char_border(bt_str text, size_t at)
{
    while (at < text.n && ((unsigned char)text.p[at] & 0xC0) == 0x80) {
        at++;
    }
    return BT_MIN(at, text.n);
}

static bt_status split_piece(const struct bt_pretok_pattern *p, matcher *m, bt_str text,
                             bt_piece piece, bt_pieces *out)
{
    bt_str subject = {text.p + piece.begin, piece.end - piece.begin};
    size_t gap = 0, at = 0;
    while (at < subject.n) {
        bt_piece hit;
        bt_status status = match_window(p, m, subject, at, &hit);
        if (status == BT_E_NOT_FOUND) {
            at = char_border(subject, at + WINDOW);
            continue;
        }
        BT_TRY(status);
        if (hit.begin == hit.end) {
            at = char_border(subject, hit.begin + 1);
            continue;
        }
        if (gap < hit.begin && p->keep_gaps) {
            BT_TRY(bt_pieces_push(out, piece.begin + gap, piece.begin + hit.begin));
        }
        BT_TRY(bt_pieces_push(out, piece.begin + hit.begin, piece.begin + hit.end));
        at = gap = hit.end;
    }
    bool rest = gap < subject.n && p->keep_gaps;
    return rest ? bt_pieces_push(out, piece.begin + gap, piece.end) : BT_OK;
}

/* Splits the pieces of `in`. */
static bt_status split_all(const struct bt_pretok_pattern *p, bt_str text, const bt_pieces *in,
                           bt_pieces *out, int64_t deadline_ns)
{
    matcher m = {.data = pcre2_match_data_create_from_pattern(p->code, NULL),
                 .context = pcre2_match_context_create(NULL),
                 .until_ns = deadline_ns};
    bt_status status = m.data == NULL || m.context == NULL ? BT_E_NO_MEMORY : BT_OK;
    for (size_t k = 0; k < in->n && status == BT_OK; k++) {
        status = split_piece(p, &m, text, in->piece[k], out);
    }
    pcre2_match_data_free(m.data);
    pcre2_match_context_free(m.context);
    return status;
}

bt_status bt_pretok_split(const bt_pretok *p, bt_str text, int64_t deadline_ns, bt_pieces *out,
                          bt_pieces *scratch, bt_err *err)
{
    out->n = 0;
    if (text.n == 0) {
        return BT_OK;
    }
    bt_status status = bt_pieces_push(out, 0, text.n);
    for (int i = 0; i < p->n && status == BT_OK; i++) {
        bt_pieces done = *out;
        *out = *scratch;
        *scratch = done;
        out->n = 0;
        status = split_all(p->patterns[i], text, scratch, out, deadline_ns);
        if (status == BT_E_LIMIT) {
            return bt_fail(err, status, "split pattern \"%.200s\" needs too many steps here",
                           p->patterns[i]->text);
        }
    }
    return status == BT_OK ? BT_OK : bt_fail(err, status, "no memory to split %zu bytes", text.n);
}
