/* SPDX-License-Identifier: MIT
 *
 * verify_coupled.c: keep a candidate while it is the target's own pick. */
#include "sample/verify.h"

const float *bt_verify_row_flat(void *rows, int node)
{
    const bt_verify_rows *r = rows;
    return r->logits + (size_t)(node + 1) * r->stride;
}

/* The first child of `node` with this token, or -1. */
static int find_child(const bt_verify_args *args, int node, int32_t token)
{
    if (args->parent == NULL) {
        return node + 1 < args->n && args->token[node + 1] == token ? node + 1 : -1;
    }
    for (int i = node + 1; i < args->n; i++) {
        if (args->parent[i] == node && args->token[i] == token) {
            return i;
        }
    }
    return -1;
}

bt_status bt_verify_coupled(bt_sampler *s, const bt_verify_args *args, bt_accept *out)
{
    BT_ASSERT(args->n >= 0 && args->n <= BT_SPEC_MAX);
    int node = -1, depth = 0;
    for (;;) {
        int32_t token;
        bt_status status = bt_sample_pick(s, args->row(args->ctx, node), args->n_vocab,
                                          args->params, args->position + depth, &token);
        if (status != BT_OK) {
            if (depth == 0) {
                return status;
            }
            depth--; /* the candidate before the broken row becomes the last token */
            break;
        }
        out->token[depth] = token;
        int child = find_child(args, node, token);
        if (child < 0) {
            break;
        }
        out->node[depth++] = child;
        node = child;
    }
    out->n_accepted = depth;
    out->n_tokens = depth + 1;
    return BT_OK;
}
