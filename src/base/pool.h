/* SPDX-License-Identifier: MIT
 *
 * pool.h: compute threads. The caller of bt_pool_run is thread 0 of N, so that N threads mean N
 * busy cores.
 *
 * Work is cut into chunks that the threads claim one by one from an atomic counter: a thread that
 * the system has put aside holds up one chunk, not its whole share. Which thread runs a chunk is
 * not determined, so a chunk's result must not depend on it (law 1). Between regions a worker
 * spins for a short while, then sleeps on a futex: an idle pool costs nothing. */
#ifndef BT_BASE_POOL_H
#define BT_BASE_POOL_H

#include "base/status.h"

typedef struct bt_pool bt_pool;

enum { BT_POOL_THREADS_MAX = 256, BT_POOL_CHUNKS_MAX = 1 << 23 };

/* Runs chunk `chunk_idx`; `thread_idx` in 0…N-1 selects scratch memory, nothing else. */
typedef void bt_pool_fn(void *ctx, int chunk_idx, int thread_idx);

/* n_threads >= 1, this one included; starts n_threads - 1. Returns owned. */
bt_status bt_pool_open(int n_threads, bt_pool **out, bt_err *err) BT_MUST_USE;
/* Joins the workers. NULL is allowed. */
void bt_pool_close(bt_pool *pool);
int bt_pool_threads(const bt_pool *pool);

/* Runs fn for chunk 0…n_chunks-1 and returns when all are done; what the chunks wrote is visible
 * to the caller. One region at a time, always from the same thread; not from inside a chunk. */
void bt_pool_run(bt_pool *pool, int n_chunks, bt_pool_fn *fn, void *ctx);

#endif
