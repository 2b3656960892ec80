/* SPDX-License-Identifier: MIT
 *
 * The ticket packs (generation 16 | n_chunks 24 | next chunk 24). A thread claims a chunk by
 * compare-and-swap on the whole ticket; success proves that the region of that ticket is not yet
 * finished, so fn and ctx may be read after it without further care. The caller publishes a new
 * ticket only when all chunks of the old one are done. */
#include "base/pool.h"

#include "base/clock.h"
#include "base/mem.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    CHUNK_BITS = 24,
    SPIN_NS = 150000, /* covers the gaps inside a step; a sleeping wake-up costs ~50 µs */
};
#define CHUNK_MASK (((uint64_t)1 << CHUNK_BITS) - 1)

struct bt_pool {
    int n_threads;
    int n_started;
    bt_pool_fn *fn; /* published by the release store of ticket */
    void *ctx;
    uint64_t generation;
    _Alignas(BT_CACHE_LINE) _Atomic uint64_t ticket;
    _Alignas(BT_CACHE_LINE) _Atomic int done;       /* chunks finished in this region */
    _Alignas(BT_CACHE_LINE) _Atomic uint32_t epoch; /* futex word: counts regions */
    _Atomic int n_sleeping;
    _Atomic bool stopping;
    pthread_t threads[BT_POOL_THREADS_MAX];
    struct worker {
        bt_pool *pool;
        int thread_idx;
    } workers[BT_POOL_THREADS_MAX];
};

BT_INLINE void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Claims and runs chunks until none is left. */
static void work(bt_pool *pool, int thread_idx)
{
    uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    while ((ticket & CHUNK_MASK) < (ticket >> CHUNK_BITS & CHUNK_MASK)) {
        if (atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket + 1,
                                                  memory_order_acq_rel, memory_order_acquire)) {
            pool->fn(pool->ctx, (int)(ticket & CHUNK_MASK), thread_idx);
            /* Pairs with the acquire load in bt_pool_run. */
            atomic_fetch_add_explicit(&pool->done, 1, memory_order_release);
            ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
        }
    }
}

/* Spins, then sleeps, until a region after `seen` begins or the pool stops. */
static void wait_for_work(bt_pool *pool, uint32_t seen)
{
    int64_t until = bt_clock_now_ns() + SPIN_NS;
    do {
        for (int i = 0; i < 64; i++) {
            if (atomic_load_explicit(&pool->epoch, memory_order_acquire) != seen) {
                return;
            }
            pause_cpu();
        }
    } while (bt_clock_now_ns() < until);
    /* Sequential consistency orders this increment and the futex's own read of epoch against the
     * increment of epoch and the read of n_sleeping in bt_pool_run: one side sees the other. */
    atomic_fetch_add_explicit(&pool->n_sleeping, 1, memory_order_seq_cst);
    while (atomic_load_explicit(&pool->epoch, memory_order_seq_cst) == seen) {
        syscall(SYS_futex, &pool->epoch, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    }
    atomic_fetch_sub_explicit(&pool->n_sleeping, 1, memory_order_seq_cst);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    bt_pool *pool = w->pool;
    uint32_t seen = 0;
    while (true) {
        wait_for_work(pool, seen);
        seen = atomic_load_explicit(&pool->epoch, memory_order_acquire);
        if (atomic_load_explicit(&pool->stopping, memory_order_acquire)) {
            return NULL;
        }
        work(pool, w->thread_idx);
    }
}

static void announce(bt_pool *pool)
{
    atomic_fetch_add_explicit(&pool->epoch, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&pool->n_sleeping, memory_order_seq_cst) > 0) {
        syscall(SYS_futex, &pool->epoch, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
}

bt_status bt_pool_open(int n_threads, bt_pool **out, bt_err *err)
{
    if (n_threads < 1 || n_threads > BT_POOL_THREADS_MAX) {
        return bt_fail(err, BT_E_INVALID, "threads must be 1 to %d, not %d", BT_POOL_THREADS_MAX,
                       n_threads);
    }
    bt_pool *pool = bt_mem_calloc(BT_MEM_BASE, 1, sizeof *pool);
    if (pool == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for the thread pool");
    }
    pool->n_threads = n_threads;
    /* Signals are for the thread that asked for them, never for a compute thread. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int why = 0;
    for (int i = 1; i < n_threads && why == 0; i++) {
        pool->workers[i] = (struct worker){.pool = pool, .thread_idx = i};
        why = pthread_create(&pool->threads[i], NULL, worker_main, &pool->workers[i]);
        pool->n_started += why == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (why != 0) {
        bt_pool_close(pool);
        return bt_fail(err, BT_E_IO, "cannot start %d threads: %s", n_threads, strerror(why));
    }
    *out = pool;
    return BT_OK;
}

void bt_pool_close(bt_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    atomic_store_explicit(&pool->stopping, true, memory_order_release);
    announce(pool);
    for (int i = 1; i <= pool->n_started; i++) {
        pthread_join(pool->threads[i], NULL);
    }
    bt_mem_free(pool);
}

int bt_pool_threads(const bt_pool *pool)
{
    return pool->n_threads;
}

void bt_pool_run(bt_pool *pool, int n_chunks, bt_pool_fn *fn, void *ctx)
{
    BT_ASSERT(n_chunks >= 0 && n_chunks <= BT_POOL_CHUNKS_MAX);
    if (n_chunks <= 1 || pool->n_threads == 1) {
        for (int i = 0; i < n_chunks; i++) {
            fn(ctx, i, 0);
        }
        return;
    }
    pool->fn = fn;
    pool->ctx = ctx;
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    uint64_t ticket = (++pool->generation << (2 * CHUNK_BITS)) | (uint64_t)n_chunks << CHUNK_BITS;
    atomic_store_explicit(&pool->ticket, ticket, memory_order_release);
    announce(pool);
    work(pool, 0);
    for (int spins = 0; atomic_load_explicit(&pool->done, memory_order_acquire) < n_chunks;) {
        if (++spins < 4096) {
            pause_cpu();
        } else {
            sched_yield(); /* a worker was put aside while it holds a chunk */
        }
    }
}
