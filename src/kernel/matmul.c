/* SPDX-License-Identifier: MIT
 *
 * From a matmul call to row tiles and chunks of panels. None of the cuts made here reaches the
 * result: an output element is computed by one kernel call over all of K. */
#include "kernel/matmul.h"

enum {
    /* A chunk reads about this much of the weights: ~20 µs at 16 GB/s a core. */
    CHUNK_BYTES = 320 << 10,
    CHUNK_BYTES_MIN = 48 << 10,
    CHUNKS_PER_THREAD = 4,   /* at least, where the matrices are large enough */
    TILED_BYTES = 512 << 10, /* most of a chunk that several row tiles pass over */
    /* From this many floats on the rows are prepared on the pool (~5 µs of work). */
    PREPARE_MIN = 24 << 10,
};

static const bt_matmul_kernels kernels_ref = {
    .tile = {[BT_DTYPE_F32] = bt_matmul_float_f32_ref,
             [BT_DTYPE_F16] = bt_matmul_float_f32_ref,
             [BT_DTYPE_BF16] = bt_matmul_float_f32_ref,
             [BT_DTYPE_Q4_0] = bt_matmul_int_s8_ref,
             [BT_DTYPE_Q4_1] = bt_matmul_int_s8_ref,
             [BT_DTYPE_Q5_0] = bt_matmul_int_s8_ref,
             [BT_DTYPE_Q5_1] = bt_matmul_int_s8_ref,
             [BT_DTYPE_Q8_0] = bt_matmul_int_s8_ref},
    .quantize = bt_quantize_s8_ref,
    .integer_name = "ref",
    .float_name = "ref",
};

#if defined(__x86_64__)
static const bt_matmul_kernels kernels_avx2 = {
    .tile = {[BT_DTYPE_F32] = bt_matmul_f32_f32_avx2,
             [BT_DTYPE_F16] = bt_matmul_f16_f32_avx2,
             [BT_DTYPE_BF16] = bt_matmul_bf16_f32_avx2,
             [BT_DTYPE_Q4_0] = bt_matmul_q4_0_s8_avx2,
             [BT_DTYPE_Q4_1] = bt_matmul_q4_1_s8_avx2,
             [BT_DTYPE_Q5_0] = bt_matmul_q5_0_s8_avx2,
             [BT_DTYPE_Q5_1] = bt_matmul_q5_1_s8_avx2,
             [BT_DTYPE_Q8_0] = bt_matmul_q8_0_s8_avx2},
    .quantize = bt_quantize_s8_ref,
    .integer_name = "avx2",
    .float_name = "avx2",
};

static const bt_matmul_kernels kernels_avx512 = {
    .tile = {[BT_DTYPE_F32] = bt_matmul_f32_f32_avx512,
             [BT_DTYPE_F16] = bt_matmul_f16_f32_avx512,
             [BT_DTYPE_BF16] = bt_matmul_bf16_f32_avx512,
             [BT_DTYPE_Q4_0] = bt_matmul_q4_0_s8_avx2,
             [BT_DTYPE_Q4_1] = bt_matmul_q4_1_s8_avx2,
             [BT_DTYPE_Q5_0] = bt_matmul_q5_0_s8_avx2,
             [BT_DTYPE_Q5_1] = bt_matmul_q5_1_s8_avx2,
             [BT_DTYPE_Q8_0] = bt_matmul_q8_0_s8_avx2},
    .quantize = bt_quantize_s8_avx512,
    .integer_name = "avx2",
    .float_name = "avx512",
};

static const bt_matmul_kernels kernels_avx512vnni = {
    .tile = {[BT_DTYPE_F32] = bt_matmul_f32_f32_avx512,
             [BT_DTYPE_F16] = bt_matmul_f16_f32_avx512,
             [BT_DTYPE_BF16] = bt_matmul_bf16_f32_avx512,
             [BT_DTYPE_Q4_0] = bt_matmul_q4_0_s8_avx512vnni,
             [BT_DTYPE_Q4_1] = bt_matmul_q4_1_s8_avx512vnni,
             [BT_DTYPE_Q5_0] = bt_matmul_q5_0_s8_avx512vnni,
             [BT_DTYPE_Q5_1] = bt_matmul_q5_1_s8_avx512vnni,
             [BT_DTYPE_Q8_0] = bt_matmul_q8_0_s8_avx512vnni},
    .quantize = bt_quantize_s8_avx512,
    .integer_name = "avx512vnni",
    .float_name = "avx512",
};
#endif

const bt_matmul_kernels *bt_matmul_kernels_for(bt_isa isa)
{
    switch (isa) {
#if defined(__x86_64__)
    case BT_ISA_AVX512VNNI:
        return &kernels_avx512vnni;
    case BT_ISA_AVX512:
        return &kernels_avx512;
    case BT_ISA_AVX2:
        return &kernels_avx2;
#endif
    default:
        return &kernels_ref;
    }
}

/* Bytes of one row in the integer and in the float tile. */
static size_t integer_row_bytes(int k)
{
    return (size_t)k / BT_GROUP_INPUTS * BT_TILE_GROUP_BYTES;
}

static size_t float_row_bytes(int k)
{
    return BT_ROUND_UP((size_t)k, BT_FLOAT_INPUTS) * sizeof(float);
}

bool bt_matmul_work_bytes(int n_rows, int k, size_t *bytes)
{
    BT_ASSERT(n_rows >= 0 && k >= 1);
    size_t rows = (size_t)n_rows, total;
    if (!bt_mul_ok(rows, integer_row_bytes(k) + float_row_bytes(k), &total) ||
        !bt_add_ok(total, 2 * BT_CACHE_LINE, &total)) {
        return false;
    }
    *bytes = BT_ROUND_UP(total, BT_CACHE_LINE);
    return true;
}

/* Everything that the chunks of one call share. */
typedef struct job {
    const bt_matmul_call *call;
    const bt_matmul_kernels *kernels;
    unsigned char *integer_rows; /* NULL: no matrix of the call wants them */
    float *float_rows;           /* NULL likewise */
    int n_tiles;
    int panels_per_chunk[BT_MATMUL_PARTS_MAX];
    int chunk_end[BT_MATMUL_PARTS_MAX]; /* chunks of parts 0…i */
} job;

/* Tiles differ by at most one row: tile i covers rows first_row(i)…first_row(i + 1) - 1. */
static int first_row(const job *j, int tile_idx)
{
    return (int)((int64_t)j->call->n_rows * tile_idx / j->n_tiles);
}

static void prepare_tile(void *ctx, int tile_idx, int thread_idx)
{
    (void)thread_idx;
    const job *j = ctx;
    int first = first_row(j, tile_idx), n = first_row(j, tile_idx + 1) - first;
    int k = j->call->parts[0].w->k;
    const float *x = j->call->x + (size_t)first * j->call->ldx;
    if (j->integer_rows != NULL) {
        j->kernels->quantize(x, j->call->ldx, n, k,
                             j->integer_rows + (size_t)first * integer_row_bytes(k));
    }
    if (j->float_rows != NULL) {
        bt_quantize_interleave(x, j->call->ldx, n, k,
                               j->float_rows + (size_t)first * (float_row_bytes(k) / 4));
    }
}

static void run_chunk(void *ctx, int chunk_idx, int thread_idx)
{
    (void)thread_idx;
    const job *j = ctx;
    int i = 0;
    while (chunk_idx >= j->chunk_end[i]) {
        i++;
    }
    const bt_matmul_part *part = &j->call->parts[i];
    int local = chunk_idx - (i > 0 ? j->chunk_end[i - 1] : 0), k = part->w->k;
    bt_matmul_tile tile = {
        .w = part->w, .ldy = part->ldy, .bias = part->bias, .accumulate = part->accumulate};
    tile.first = local * j->panels_per_chunk[i];
    tile.end = BT_MIN(tile.first + j->panels_per_chunk[i], part->w->n_panels);
    bool integer = bt_pack_is_integer(part->w->dtype);
    for (int t = 0; t < j->n_tiles; t++) {
        int first = first_row(j, t);
        tile.n_rows = first_row(j, t + 1) - first;
        tile.y = part->y + (size_t)first * part->ldy;
        if (integer) {
            tile.x = j->integer_rows + (size_t)first * integer_row_bytes(k);
        } else {
            tile.x = j->float_rows + (size_t)first * (float_row_bytes(k) / 4);
        }
        j->kernels->tile[part->w->dtype](&tile);
    }
}

/* Cuts all parts into chunks; returns their number. */
static int cut(job *j, int n_threads)
{
    const bt_matmul_call *call = j->call;
    size_t total = 0, n_panels = 0;
    for (int i = 0; i < call->n_parts; i++) {
        total += call->parts[i].w->bytes;
        n_panels += (size_t)call->parts[i].w->n_panels;
    }
    size_t share = total / (size_t)(n_threads * CHUNKS_PER_THREAD);
    size_t want = BT_MAX(BT_MIN(share, (size_t)CHUNK_BYTES), (size_t)CHUNK_BYTES_MIN);
    want = BT_MAX(want / (size_t)j->n_tiles, 1);
    /* At least the panels that a kernel reads side by side, unless threads would have none. */
    size_t least = BT_MAX(BT_MIN(n_panels / (2 * (size_t)n_threads), 4), 1);
    int n = 0;
    for (int i = 0; i < call->n_parts; i++) {
        const bt_panels *w = call->parts[i].w;
        size_t per_chunk = BT_MAX(want / w->panel_bytes / 4 * 4, least);
        if (j->n_tiles > 1) { /* further row tiles find the panels in L2 */
            per_chunk = BT_MIN(per_chunk, BT_MAX(TILED_BYTES / w->panel_bytes, 2));
        }
        per_chunk = BT_MAX(per_chunk, (size_t)w->n_panels >> 18); /* no more chunks than fit */
        j->panels_per_chunk[i] = (int)BT_MIN(per_chunk, (size_t)w->n_panels);
        n += (w->n_panels + j->panels_per_chunk[i] - 1) / j->panels_per_chunk[i];
        j->chunk_end[i] = n;
    }
    return n;
}

void bt_matmul_run(bt_pool *pool, const bt_matmul_kernels *kernels, const bt_matmul_call *call)
{
    BT_ASSERT(call->n_parts >= 1 && call->n_parts <= BT_MATMUL_PARTS_MAX && call->n_rows >= 0);
    if (call->n_rows == 0) {
        return;
    }
    int k = call->parts[0].w->k;
    BT_ASSERT(call->ldx >= (size_t)k);
    job j = {.call = call, .kernels = kernels};
    j.n_tiles = (call->n_rows + BT_TILE_ROWS - 1) / BT_TILE_ROWS;
    unsigned char *free_work = call->work;
    for (int i = 0; i < call->n_parts; i++) {
        const bt_matmul_part *part = &call->parts[i];
        BT_ASSERT(part->w->k == k && part->ldy >= (size_t)part->w->n);
        if (bt_pack_is_integer(part->w->dtype) && j.integer_rows == NULL) {
            j.integer_rows = free_work;
            free_work += BT_ROUND_UP((size_t)call->n_rows * integer_row_bytes(k), BT_CACHE_LINE);
        } else if (!bt_pack_is_integer(part->w->dtype) && j.float_rows == NULL) {
            j.float_rows = (float *)(void *)free_work;
            free_work += BT_ROUND_UP((size_t)call->n_rows * float_row_bytes(k), BT_CACHE_LINE);
        }
    }
    if ((size_t)call->n_rows * (size_t)k >= PREPARE_MIN && j.n_tiles > 1) {
        bt_pool_run(pool, j.n_tiles, prepare_tile, &j);
    } else {
        for (int t = 0; t < j.n_tiles; t++) {
            prepare_tile(&j, t, 0);
        }
    }
    bt_pool_run(pool, cut(&j, bt_pool_threads(pool)), run_chunk, &j);
}
