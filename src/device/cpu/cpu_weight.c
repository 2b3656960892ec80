/* SPDX-License-Identifier: MIT */
#include "device/cpu/cpu_weight.h"

#include "base/mem.h"
#include "kernel/matmul.h"

/* From this many rows on embedding rows are gathered on the pool. */
enum { EMBED_ROWS_INLINE = 16 };

struct bt_weight {
    bt_panels panels;
};

bool bt_cpu_matmul_work_bytes(int rows_max, int inputs_max, size_t *bytes)
{
    return bt_matmul_work_bytes(rows_max, inputs_max, bytes);
}

bt_status bt_cpu_weight_open(bt_pool *pool, const bt_tensor_view *view,
                             void (*packed)(void *ctx, int64_t rows_done), void *ctx,
                             bt_weight **out, bt_err *err)
{
    bt_weight *w = bt_mem_calloc(BT_MEM_WEIGHTS, 1, sizeof *w);
    if (w == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for a matrix");
    }
    bt_status status = bt_pack_open(pool, view, packed, ctx, &w->panels, err);
    if (status != BT_OK) {
        bt_mem_free(w);
        return status;
    }
    *out = w;
    return BT_OK;
}

void bt_cpu_weight_close(bt_weight *w)
{
    if (w != NULL) {
        bt_pack_close(&w->panels);
        bt_mem_free(w);
    }
}

size_t bt_cpu_weight_bytes(const bt_weight *w)
{
    return w->panels.bytes;
}

int bt_cpu_weight_outputs(const bt_weight *w)
{
    return w->panels.n;
}

int bt_cpu_weight_inputs(const bt_weight *w)
{
    return w->panels.k;
}

typedef struct embed_job {
    const bt_panels *table;
    const int32_t *token;
    float scale;
    float *x;
} embed_job;

static void embed_row(void *ctx, int t, int thread_idx)
{
    (void)thread_idx;
    const embed_job *job = ctx;
    int k = job->table->k;
    float *x = job->x + (size_t)t * (size_t)k;
    bt_pack_read_row(job->table, job->token[t], x);
    if (job->scale != 1.0f) {
        for (int i = 0; i < k; i++) {
            x[i] *= job->scale;
        }
    }
}

void bt_cpu_embed(bt_pool *pool, const bt_weight *table, const int32_t *token, int n_rows,
                  float scale, float *x)
{
    embed_job job = {&table->panels, token, scale, x};
    if (n_rows >= EMBED_ROWS_INLINE) {
        bt_pool_run(pool, n_rows, embed_row, &job);
        return;
    }
    for (int t = 0; t < n_rows; t++) {
        embed_row(&job, t, 0);
    }
}

void bt_cpu_matmul(bt_pool *pool, const bt_cpu_matmul_work *work, const bt_matmul_args *args)
{
    static_assert((int)BT_MATMUL_OUTPUTS_MAX <= (int)BT_MATMUL_PARTS_MAX,
                  "a call holds all outputs");
    BT_ASSERT(args->n_outputs >= 1 && args->n_outputs <= BT_MATMUL_OUTPUTS_MAX);
    bt_matmul_part parts[BT_MATMUL_OUTPUTS_MAX];
    for (int i = 0; i < args->n_outputs; i++) {
        const bt_matmul_output *o = &args->out[i];
        BT_ASSERT(o->ldy >= o->w->panels.n);
        parts[i] = (bt_matmul_part){&o->w->panels, o->bias, o->y, (size_t)o->ldy, o->accumulate};
    }
    int k = parts[0].w->k;
    size_t need;
    BT_ASSERT(bt_matmul_work_bytes(args->n_rows, k, &need) && need <= work->bytes);
    bt_matmul_call call = {.x = args->x,
                           .ldx = (size_t)k,
                           .n_rows = args->n_rows,
                           .n_parts = args->n_outputs,
                           .parts = parts,
                           .work = work->memory};
    bt_matmul_run(pool, bt_matmul_kernels_for(bt_cpu_isa()), &call);
}
