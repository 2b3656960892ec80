/* SPDX-License-Identifier: MIT
 *
 * Which rows the next pass gets. Decoding sequences come first, each with its candidates, then
 * prompts in order of admission share what is left of the budget: a long prompt never holds up a
 * running answer for more than one chunk, and candidates leave a quarter of the rows to prompts. A
 * sequence whose consumer lags is left out. */
#include "engine/engine.h"

static void pause_stream(betoken_engine *e, betoken_stream *s, int n_tokens)
{
    atomic_store_explicit(&s->paused, true, memory_order_seq_cst);
    /* The consumer may have made room before it could see the mark: look again next time. */
    if (bt_stream_has_space(e, s, n_tokens)) {
        bt_bell_ring(&e->bell);
    }
}

static void plan_decode(betoken_engine *e, bt_plan *plan, betoken_stream *s, int budget)
{
    int n_draft = 0;
    if (e->proposer != NULL) {
        bt_policy_seq view = {.n_tok = s->n_tok,
                              .n_left = s->n_tok_max - s->n_tok,
                              .room = e->proposer->ops->room(e->proposer, s->n_tok)};
        n_draft = bt_policy_fixed(&e->policy, e->n_running, &view);
    }
    n_draft = BT_MIN(n_draft, budget - 1);
    if (!bt_stream_has_space(e, s, 1 + n_draft)) {
        pause_stream(e, s, 1 + n_draft);
        return;
    }
    plan->items[plan->n_items++] = (bt_plan_item){.seq = s,
                                                  .decode = true,
                                                  .samples = true,
                                                  .n_draft = n_draft,
                                                  .n_rows = 1 + n_draft,
                                                  .range = -1};
    plan->n_rows += 1 + n_draft;
}

static void plan_prefill(betoken_engine *e, bt_plan *plan, betoken_stream *s, int budget)
{
    int left = s->n_prompt - s->n_computed;
    int n = BT_MIN(left, budget);
    if (n == left && !bt_stream_has_space(e, s, 1)) {
        pause_stream(e, s, 1);
        return;
    }
    plan->items[plan->n_items++] =
        (bt_plan_item){.seq = s, .samples = n == left, .n_rows = n, .range = -1};
    plan->n_rows += n;
}

/* Rows that candidates may not take, so that prompts go on while answers are guessed ahead. */
static int prompt_share(int budget, int n_decoding, int n_prefilling)
{
    int share = BT_MAX(n_prefilling, budget / 4);
    return n_prefilling == 0 ? 0 : BT_MIN(share, budget - n_decoding);
}

void bt_plan_make(betoken_engine *e, bt_plan *plan)
{
    plan->n_items = 0;
    plan->n_rows = 0;
    int n_decoding = 0;
    for (int i = 0; i < e->n_running; i++) {
        n_decoding += e->order[i]->state == BT_SEQ_DECODE;
    }
    int budget = e->opt.max_num_batched_tokens;
    BT_ASSERT(e->n_running <= budget); /* checked at open: a row for each */
    int kept = prompt_share(budget, n_decoding, e->n_running - n_decoding);
    for (int i = 0; i < e->n_running; i++) {
        betoken_stream *s = e->order[i];
        if (s->state == BT_SEQ_DECODE) {
            n_decoding--; /* each of those behind keeps one row */
            plan_decode(e, plan, s, budget - kept - plan->n_rows - n_decoding);
        }
    }
    for (int i = 0; i < e->n_running && plan->n_rows < budget; i++) {
        if (e->order[i]->state == BT_SEQ_PREFILL) {
            plan_prefill(e, plan, e->order[i], budget - plan->n_rows);
        }
    }
}
