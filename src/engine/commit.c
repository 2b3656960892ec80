/* SPDX-License-Identifier: MIT
 *
 * The one place where a token becomes part of an answer, whoever guessed it: plain decoding, accepted
 * candidates and the target's own next token all come through bt_commit_token, one at a time, so
 * that EOS, stop strings, limits, log-probabilities and counters cannot differ between them. */
#include "engine/engine.h"

#include "base/clock.h"
#include "base/log.h"

#include <string.h>

static bool is_in(const int32_t *ids, int n, int32_t id)
{
    for (int i = 0; i < n; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* The first n bytes of the held text leave; long texts in several events, cut at characters. The
 * first piece travels in *event, which has not been pushed yet when `fresh`. */
static void emit_text(betoken_stream *s, betoken_event *event, size_t n, const betoken_logprob *top)
{
    size_t done = 0;
    do {
        size_t piece = BT_MIN(n - done, (size_t)BETOKEN_EVENT_TEXT_MAX);
        while (done + piece < n && ((unsigned char)s->text[done + piece] & 0xC0) == 0x80) {
            piece--;
        }
        memcpy(event->u.text, s->text + done, piece);
        event->n = (int32_t)piece;
        bt_stream_push(s, event, top);
        done += piece;
        event->type = BETOKEN_EVENT_TEXT;
        event->n_top = 0;
    } while (done < n);
    memmove(s->text, s->text + n, s->n_text - n);
    s->n_text -= n;
}

/* The earliest match of any stop string in the held text; the first listed wins a tie. */
static int find_stop(const betoken_stream *s, size_t *at)
{
    int best = -1;
    bt_str text = {s->text, s->n_text};
    for (int i = 0; i < s->n_stop; i++) {
        int64_t hit = bt_str_find(text, (bt_str){s->stop[i].p, s->stop[i].n}, 0);
        if (hit >= 0 && (best < 0 || (size_t)hit < *at)) {
            best = i;
            *at = (size_t)hit;
        }
    }
    return best;
}

/* Bytes at the end of the held text that may yet become a stop string: its longest suffix that
 * begins one. */
static size_t held_tail(const betoken_stream *s)
{
    size_t longest = 0;
    for (int i = 0; i < s->n_stop; i++) {
        size_t n = BT_MIN(s->stop[i].n - 1, s->n_text);
        while (n > longest && memcmp(s->text + s->n_text - n, s->stop[i].p, n) != 0) {
            n--;
        }
        longest = BT_MAX(longest, n);
    }
    return longest;
}

static void fill_logprobs(betoken_engine *e, betoken_stream *s, betoken_event *event,
                          const float *row, betoken_logprob *top)
{
    double value;
    int n = bt_logprob_row(row, e->n_vocab, event->token, s->n_logprobs, e->top_scratch, &value);
    event->logprob = value;
    event->n_top = n;
    for (int i = 0; i < n; i++) {
        top[i] = (betoken_logprob){e->top_scratch[i].token, e->top_scratch[i].value};
    }
}

static void count_token(betoken_engine *e, betoken_stream *s)
{
    int64_t now = bt_clock_now_ns();
    e->stats.generation_tokens++;
    s->usage.completion_tokens++;
    if (s->usage.completion_tokens == 1) {
        s->first_token_ns = now;
        s->usage.first_token_ns = now - s->submitted_ns;
        bt_counters_add(&e->stats.time_to_first_token_s, (double)s->usage.first_token_ns * 1e-9);
        bt_counters_add(&e->stats.prefill_s, (double)(now - s->started_ns) * 1e-9);
    } else {
        bt_counters_add(&e->stats.inter_token_s, (double)(now - s->last_token_ns) * 1e-9);
    }
    s->last_token_ns = now;
}

static void finish(betoken_engine *e, betoken_stream *s, betoken_event *done)
{
    int64_t now = bt_clock_now_ns();
    s->usage.total_ns = now - s->submitted_ns;
    done->usage = s->usage;
    bt_stream_push(s, done, NULL);
    s->state = BT_SEQ_ENDED;
    if (done->type == BETOKEN_EVENT_ERROR) {
        e->stats.finished_error++;
        return;
    }
    (*(done->finish == BETOKEN_FINISH_STOP ? &e->stats.finished_stop
                                           : &e->stats.finished_length))++;
    bt_counters_add(&e->stats.e2e_s, (double)s->usage.total_ns * 1e-9);
    bt_counters_add(&e->stats.decode_s, (double)(now - s->first_token_ns) * 1e-9);
    bt_counters_add(&e->stats.prompt_length, s->n_prompt);
    bt_counters_add(&e->stats.generation_length, s->usage.completion_tokens);
}

void bt_commit_error(betoken_engine *e, betoken_stream *s, bt_status status, const char *message)
{
    betoken_event event = {.type = BETOKEN_EVENT_ERROR, .stop_token = -1, .stop_idx = -1};
    event.u.error = (betoken_error){.code = (betoken_code)status, .position = -1};
    memcpy(event.u.error.message, message,
           BT_MIN(strlen(message), sizeof event.u.error.message - 1));
    finish(e, s, &event);
}

bool bt_commit_token(betoken_engine *e, betoken_stream *s, int32_t token, const float *row)
{
    BT_ASSERT(s->state == BT_SEQ_DECODE && s->n_tok < s->n_tok_max);
    betoken_event event = {.type = BETOKEN_EVENT_TOKEN, .token = token};
    betoken_event done = {.type = BETOKEN_EVENT_DONE, .stop_token = -1, .stop_idx = -1};
    betoken_logprob *top = s->n_logprobs > 0 ? s->top_row : NULL;
    if (!s->begun) {
        bt_stream_push(s, &(betoken_event){.type = BETOKEN_EVENT_STARTED}, NULL);
        s->begun = true;
    }
    s->token[s->n_tok++] = token;
    count_token(e, s);
    if (s->n_logprobs >= 0) {
        fill_logprobs(e, s, &event, row, top);
    }
    bool eos = !s->ignore_eos && is_in(e->eos, e->n_eos, token);
    bool ended = eos || is_in(s->stop_id, s->n_stop_ids, token);
    size_t n_out = 0;
    if (ended) {
        done.stop_token = token;
        done.stop_is_eos = eos;
    } else {
        s->n_text += bt_detok_push(&s->detok, token, true, s->text + s->n_text);
        done.stop_idx = find_stop(s, &n_out);
        ended = done.stop_idx >= 0;
    }
    bool full = !ended && s->n_tok == s->n_tok_max;
    if (full) {
        done.finish = BETOKEN_FINISH_LENGTH;
    }
    if (done.stop_idx < 0) {
        if (ended || full) { /* nothing more comes: what is held is text */
            s->n_text += bt_detok_flush(&s->detok, s->text + s->n_text);
            n_out = s->n_text;
        } else {
            n_out = s->n_text - held_tail(s);
        }
    }
    emit_text(s, &event, n_out, top);
    if (ended || full) {
        finish(e, s, &done);
    }
    return ended || full;
}
