/* SPDX-License-Identifier: MIT */
#include "probe/ceilings.h"

#include "probe/timing.h"

#include <string.h>

enum { CHUNK_BYTES = 256 << 10 };

typedef struct reading {
    bt_pool *pool; /* NULL: this thread alone */
    const unsigned char *p;
    int n_chunks;
    uint64_t *sum; /* [BT_POOL_THREADS_MAX * 8], a cache line each: keeps the reads alive */
} reading;

/* Eight running sums of eight independent words: enough loads in flight, and cheap to add. */
static void read_chunk(void *ctx, int chunk_idx, int thread_idx)
{
    const reading *r = ctx;
    const unsigned char *p = r->p + (size_t)chunk_idx * CHUNK_BYTES;
    uint64_t sum[8] = {0};
    for (size_t i = 0; i < CHUNK_BYTES; i += sizeof sum) {
        uint64_t word[8];
        memcpy(word, p + i, sizeof word);
        for (int k = 0; k < 8; k++) {
            sum[k] += word[k];
        }
    }
    for (int k = 0; k < 8; k++) {
        r->sum[8 * thread_idx] += sum[k];
    }
}

static void read_everything(void *ctx)
{
    const reading *r = ctx;
    if (r->pool != NULL) {
        bt_pool_run(r->pool, r->n_chunks, read_chunk, ctx);
        return;
    }
    for (int i = 0; i < r->n_chunks; i++) {
        read_chunk(ctx, i, 0);
    }
}

static double rate(size_t bytes, double ns)
{
    return (double)bytes / (ns > 1.0 ? ns : 1.0);
}

bt_status bt_ceilings_measure(bt_pool *pool, size_t bytes, int n_rounds, bt_ceilings *out,
                              bt_err *err)
{
    BT_ASSERT(n_rounds >= 1 && n_rounds <= BT_TIMING_ROUNDS_MAX);
    size_t n_chunks = bytes / CHUNK_BYTES;
    if (bytes < 1 << 20 || n_chunks > BT_POOL_CHUNKS_MAX) {
        return bt_fail(err, BT_E_INVALID, "%zu bytes to read; from %d to %zu can be measured",
                       bytes, 1 << 20, (size_t)BT_POOL_CHUNKS_MAX * CHUNK_BYTES);
    }
    bytes = n_chunks * CHUNK_BYTES;
    unsigned char *p = bt_mem_alloc(BT_MEM_WORK, bytes);
    uint64_t *sum = bt_mem_calloc(BT_MEM_WORK, (size_t)BT_POOL_THREADS_MAX * 8, sizeof *sum);
    if (p == NULL || sum == NULL) {
        bt_mem_free(p);
        bt_mem_free(sum);
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for %zu bytes to read", bytes);
    }
    memset(p, 1, bytes); /* own pages: untouched ones all map to one page of zeros */
    reading one = {NULL, p, (int)n_chunks, sum}, all = {pool, p, (int)n_chunks, sum};
    const bt_timing_case cases[] = {{"one", read_everything, &one}, {"all", read_everything, &all}};
    bt_timing t[2];
    bt_status status = bt_timing_run(cases, 2, 1, n_rounds, t);
    bt_mem_free(p);
    bt_mem_free(sum);
    if (status != BT_OK) {
        return bt_fail(err, status, "no memory for %d timings", n_rounds);
    }
    *out = (bt_ceilings){.n_threads = bt_pool_threads(pool),
                         .bytes = bytes,
                         .read_one_gbs = rate(bytes, t[0].best_ns),
                         .read_all_gbs = rate(bytes, t[1].best_ns),
                         .median_one_gbs = rate(bytes, t[0].median_ns),
                         .median_all_gbs = rate(bytes, t[1].median_ns)};
    return BT_OK;
}

void bt_ceilings_json(bt_buf *out, const bt_ceilings *c)
{
    bt_buf_printf(out,
                  "{\"threads\":%d,\"bytes\":%zu,\"read_one_gbs\":%.3f,\"read_all_gbs\":%.3f,"
                  "\"median_one_gbs\":%.3f,\"median_all_gbs\":%.3f}",
                  c->n_threads, c->bytes, c->read_one_gbs, c->read_all_gbs, c->median_one_gbs,
                  c->median_all_gbs);
}
