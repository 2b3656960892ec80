/* SPDX-License-Identifier: MIT
 *
 * cpu_device.c: the CPU's table of device operations: opening, work space, and the row-wise
 * operations. An operation over few rows runs on the calling thread, for waking the pool costs
 * more than it saves; where it runs never changes a bit. */
#include "device/cpu/cpu_device.h"

#include "base/cpu.h"

#include <stdio.h>
#include <string.h>

enum {
    INLINE_NS = 6000, /* below this a second thread does not pay (a region costs 0.3-2 µs) */
    CHUNK_NS = 3000,  /* least work of a chunk */
};

typedef struct rows_region {
    bt_cpu_rows_fn *fn;
    void *ctx;
    int n_rows, chunk_rows;
} rows_region;

static void run_rows(void *ctx, int chunk_idx, int thread_idx)
{
    (void)thread_idx;
    const rows_region *r = ctx;
    int lo = chunk_idx * r->chunk_rows;
    r->fn(r->ctx, lo, BT_MIN(r->n_rows, lo + r->chunk_rows));
}

void bt_cpu_for_rows(bt_cpu *cpu, int n_rows, int row_cost, bt_cpu_rows_fn *fn, void *ctx)
{
    const int64_t cost = BT_MAX(row_cost, 1);
    if (n_rows <= 1 || n_rows * cost < INLINE_NS || bt_pool_threads(cpu->pool) == 1) {
        if (n_rows > 0) {
            fn(ctx, 0, n_rows);
        }
        return;
    }
    /* Some chunks a thread, so that one that is held up leaves its share to the others. */
    int fair = n_rows / (4 * bt_pool_threads(cpu->pool));
    int least = (int)BT_MIN(CHUNK_NS / cost, (int64_t)n_rows);
    rows_region r = {.fn = fn, .ctx = ctx, .n_rows = n_rows};
    r.chunk_rows = BT_MAX(BT_MAX(fair, least), 1);
    bt_pool_run(cpu->pool, (n_rows + r.chunk_rows - 1) / r.chunk_rows, run_rows, &r);
}

static void *cpu_alloc(bt_device *dev, bt_mem_tag tag, size_t bytes)
{
    (void)dev;
    return bt_mem_calloc(tag, 1, bytes);
}

static void cpu_free(bt_device *dev, void *memory)
{
    (void)dev;
    bt_mem_free(memory);
}

static void cpu_copy(bt_device *dev, void *to, const void *from, size_t bytes)
{
    (void)dev;
    if (bytes > 0) {
        memcpy(to, from, bytes);
    }
}

static bt_status cpu_weight_open(bt_device *dev, const bt_tensor_view *view,
                                 void (*packed)(void *ctx, int64_t rows_done), void *ctx,
                                 bt_weight **out, bt_err *err)
{
    return bt_cpu_weight_open(bt_cpu_of(dev)->pool, view, packed, ctx, out, err);
}

static void cpu_weight_close(bt_device *dev, bt_weight *w)
{
    (void)dev;
    bt_cpu_weight_close(w);
}

static void cpu_embed(bt_device *dev, const bt_weight *table, const int32_t *token, int n_rows,
                      float scale, float *x)
{
    bt_cpu_embed(bt_cpu_of(dev)->pool, table, token, n_rows, scale, x);
}

static void cpu_matmul(bt_device *dev, const bt_matmul_args *args)
{
    bt_cpu *cpu = bt_cpu_of(dev);
    BT_ASSERT(args->n_rows >= 0 && args->n_rows <= cpu->limits.rows_max);
    BT_ASSERT(args->n_outputs >= 1 && args->n_outputs <= BT_MATMUL_OUTPUTS_MAX);
    BT_ASSERT(bt_cpu_weight_inputs(args->out[0].w) <= cpu->limits.inputs_max);
    bt_cpu_matmul(cpu->pool, &cpu->matmul_work, args);
}

typedef struct norm_ctx {
    bt_rmsnorm_fn *fn;
    const float *x, *w;
    float eps, w_offset;
    int n_groups, dim;
    float *y;
} norm_ctx;

static void norm_rows(void *ctx, int lo, int hi)
{
    const norm_ctx *c = ctx;
    const size_t first = (size_t)lo * (size_t)c->n_groups, last = (size_t)hi * (size_t)c->n_groups;
    for (size_t i = first; i < last; i++) {
        const size_t at = i * (size_t)c->dim;
        c->fn(c->x + at, c->w, c->eps, c->w_offset, c->dim, c->y + at);
    }
}

/* lint: allow parameters: the shape of the device's operation table. */
static void cpu_rmsnorm(bt_device *dev, const float *x, const float *w, float eps, float w_offset,
                        int n_rows, int n_groups, int dim, float *y)
{
    bt_cpu *cpu = bt_cpu_of(dev);
    BT_ASSERT(n_groups >= 1 && dim >= 1);
    norm_ctx ctx = {.fn = cpu->vector.rmsnorm,
                    .x = x,
                    .w = w,
                    .eps = eps,
                    .w_offset = w_offset,
                    .n_groups = n_groups,
                    .dim = dim,
                    .y = y};
    bt_cpu_for_rows(cpu, n_rows, n_groups * (10 + dim / 10), norm_rows, &ctx);
}

typedef struct rope_ctx {
    bt_rope_fn *fn;
    const bt_rope_args *args;
} rope_ctx;

static void rope_rows(void *ctx, int lo, int hi)
{
    const rope_ctx *c = ctx;
    const bt_rope_args *a = c->args;
    for (int t = lo; t < hi; t++) {
        BT_ASSERT(a->pos[t] >= 0 && a->pos[t] < a->n_pos);
        const size_t at = (size_t)a->pos[t] * (size_t)(a->n_rot / 2);
        c->fn(a->x + (size_t)t * (size_t)a->row_stride, a->cos + at, a->sin + at, a->n_heads,
              a->head_dim, a->n_rot);
    }
}

static void cpu_rope(bt_device *dev, const bt_rope_args *args)
{
    bt_cpu *cpu = bt_cpu_of(dev);
    BT_ASSERT(args->n_rot >= 0 && args->n_rot <= args->head_dim && args->n_rot % 2 == 0);
    BT_ASSERT(args->row_stride >= args->n_heads * args->head_dim);
    rope_ctx ctx = {.fn = args->interleaved ? cpu->vector.rope_pairs : cpu->vector.rope_half,
                    .args = args};
    bt_cpu_for_rows(cpu, args->n_rows, 10 + args->n_heads * args->n_rot / 8, rope_rows, &ctx);
}

typedef struct silu_ctx {
    bt_silu_mul_fn *fn;
    const float *gate, *up;
    size_t dim;
    float *y;
} silu_ctx;

static void silu_rows(void *ctx, int lo, int hi)
{
    const silu_ctx *c = ctx;
    const size_t at = (size_t)lo * c->dim;
    c->fn(c->gate + at, c->up + at, (size_t)(hi - lo) * c->dim, c->y + at);
}

static void cpu_silu_mul(bt_device *dev, const float *gate, const float *up, int n_rows, int dim,
                         float *y)
{
    bt_cpu *cpu = bt_cpu_of(dev);
    silu_ctx ctx = {.fn = cpu->vector.silu_mul, .gate = gate, .up = up, .dim = (size_t)dim, .y = y};
    bt_cpu_for_rows(cpu, n_rows, dim / 2, silu_rows, &ctx);
}

typedef struct gather_ctx {
    const float *x;
    const int32_t *row;
    size_t dim;
    float *y;
} gather_ctx;

static void gather_rows(void *ctx, int lo, int hi)
{
    const gather_ctx *c = ctx;
    for (int i = lo; i < hi; i++) {
        BT_ASSERT(c->row[i] >= 0);
        memcpy(c->y + (size_t)i * c->dim, c->x + (size_t)c->row[i] * c->dim,
               c->dim * sizeof(float));
    }
}

static void cpu_gather(bt_device *dev, const float *x, const int32_t *row, int n, int dim, float *y)
{
    gather_ctx ctx = {.x = x, .row = row, .dim = (size_t)dim, .y = y};
    bt_cpu_for_rows(bt_cpu_of(dev), n, 10 + dim / 16, gather_rows, &ctx);
}

static void cpu_close(bt_device *dev)
{
    if (dev != NULL) {
        bt_cpu *cpu = bt_cpu_of(dev);
        bt_mem_free(cpu->matmul_work.memory);
        bt_cpu_attention_deinit(&cpu->attention_work);
        bt_mem_free(cpu);
    }
}

static const bt_device_ops cpu_ops = {
    .alloc = cpu_alloc,
    .free = cpu_free,
    .write = cpu_copy,
    .read = cpu_copy,
    .weight_open = cpu_weight_open,
    .weight_close = cpu_weight_close,
    .weight_bytes = bt_cpu_weight_bytes,
    .embed = cpu_embed,
    .matmul = cpu_matmul,
    .rmsnorm = cpu_rmsnorm,
    .rope = cpu_rope,
    .kv_store = bt_cpu_kv_store,
    .kv_copy = bt_cpu_kv_copy,
    .attention = bt_cpu_attention,
    .silu_mul = cpu_silu_mul,
    .gather = cpu_gather,
    .close = cpu_close,
};

bt_status bt_device_cpu_open(bt_pool *pool, bt_device **out, bt_err *err)
{
    const char *unknown = NULL;
    if (!bt_cpu_init(&unknown)) {
        return bt_fail(err, BT_E_INVALID,
                       "BT_CPU=%s is no instruction set level; use ref, avx2, avx512, avx512vnni "
                       "or neon",
                       unknown);
    }
    bt_cpu *cpu = bt_mem_calloc(BT_MEM_WORK, 1, sizeof *cpu);
    if (cpu == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for the CPU device");
    }
    snprintf(cpu->name, sizeof cpu->name, "cpu %s", bt_cpu_isa_name(bt_cpu_isa()));
    cpu->base = (bt_device){.ops = &cpu_ops, .name = cpu->name, .host_memory = true};
    cpu->pool = pool;
    bt_vector_init(&cpu->vector, bt_cpu_isa());
    bt_attention_init(&cpu->attention, bt_cpu_isa());
    *out = &cpu->base;
    return BT_OK;
}

static bt_status check_limits(const bt_device_limits *l, bt_err *err)
{
    const struct {
        const char *what;
        int value, max;
    } rules[] = {
        {"rows", l->rows_max, 1 << 20},           {"inputs", l->inputs_max, 1 << 24},
        {"heads", l->heads_max, 1 << 12},         {"head dimensions", l->head_dim_max, 1 << 12},
        {"positions", l->positions_max, 1 << 30},
    };
    for (size_t i = 0; i < BT_COUNT(rules); i++) {
        if (rules[i].value < 1 || rules[i].value > rules[i].max) {
            return bt_fail(err, BT_E_INVALID, "the CPU device works on 1 to %d %s, not %d",
                           rules[i].max, rules[i].what, rules[i].value);
        }
    }
    return BT_OK;
}

bt_status bt_device_cpu_reserve(bt_device *dev, const bt_device_limits *limits, bt_err *err)
{
    bt_cpu *cpu = bt_cpu_of(dev);
    BT_TRY(check_limits(limits, err));
    const bt_device_limits *had = &cpu->limits;
    bt_device_limits want = {
        .rows_max = BT_MAX(had->rows_max, limits->rows_max),
        .inputs_max = BT_MAX(had->inputs_max, limits->inputs_max),
        .heads_max = BT_MAX(had->heads_max, limits->heads_max),
        .head_dim_max = BT_MAX(had->head_dim_max, limits->head_dim_max),
        .positions_max = BT_MAX(had->positions_max, limits->positions_max),
    };
    bt_cpu_matmul_work matmul = {0};
    bt_cpu_attention_work attention = {0};
    bool ok = bt_cpu_matmul_work_bytes(want.rows_max, want.inputs_max, &matmul.bytes) &&
              bt_cpu_attention_init(&attention, &want, bt_pool_threads(cpu->pool));
    matmul.memory = ok ? bt_mem_calloc(BT_MEM_WORK, 1, matmul.bytes) : NULL;
    if (matmul.memory == NULL) {
        bt_cpu_attention_deinit(&attention);
        return bt_fail(err, BT_E_NO_MEMORY,
                       "no memory for the work space of %d rows, %d inputs, %d heads of %d and %d "
                       "positions",
                       want.rows_max, want.inputs_max, want.heads_max, want.head_dim_max,
                       want.positions_max);
    }
    bt_mem_free(cpu->matmul_work.memory);
    bt_cpu_attention_deinit(&cpu->attention_work);
    cpu->matmul_work = matmul;
    cpu->attention_work = attention;
    cpu->limits = want;
    return BT_OK;
}
