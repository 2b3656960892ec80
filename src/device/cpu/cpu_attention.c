/* SPDX-License-Identifier: MIT
 *
 * cpu_attention.c: which rows, heads and positions of attention are computed together and where.
 *
 *   tile      consecutive rows of one sequence x the query heads of one key/value head: keys and
 *             values are read once for up to TILE_QUERIES queries
 *   segment   BT_ATTN_SEGMENT positions from a multiple of it: scores, softmax, weighted values, one part a
 *             query (kernel/attention.h)
 *
 * A chunk of the pool is a tile and a key/value head, all segments in turn; when there are few of
 * them and the context is long, each segment is a chunk and the parts are merged afterwards in the
 * same order. So neither tiles nor threads can be seen in the result (law 1).
 *
 * Blocks below the committed context of all rows of a tile are shared. A row with a tail (its
 * ancestors in a tree) has its last blocks to itself: positions are gathered from their slots into
 * whole blocks, which then look like any other. */
#include "device/cpu/cpu_device.h"

#include <string.h>

enum {
    TILE_QUERIES = 24, /* their scores of a segment fit the L1 cache */
    PARTS_MIN = 4096,
    ITEMS_PER_THREAD = 3,
    INLINE_MACS = 160000, /* multiply-adds of some 4 µs: less than a second thread costs */
};

/* One thread's work space, for n = queries_of(limits) queries. */
typedef struct scratch {
    float *scores;   /* [n, BT_ATTN_SEGMENT] */
    const float **q; /* [n]: the tile's queries */
    float *state;    /* [n, part]: the parts so far */
    float *part;     /* [n, part]: this segment's */
    char *blocks;    /* [blocks of a segment, 16, d]: gathered blocks */
} scratch;

/* One call. */
typedef struct attend {
    const bt_cpu *cpu;
    const bt_attention_args *args;
    bt_attn_scores_fn *scores;
    bt_attn_mix_fn *mix;
    size_t element_bytes, part_size;
    int head_dim, n_kv_heads, group; /* group: query heads of a key/value head */
    int n_tiles, n_segments;
} attend;

/* A tile, key/value head g and segment. Positions are relative to the segment. */
typedef struct span {
    const attend *c;
    const scratch *s;
    bt_cpu_tile tile;
    int g, base;                            /* base: the segment's first position */
    int lo[TILE_QUERIES], hi[TILE_QUERIES]; /* a row reads lo…hi-1; nothing when hi <= lo */
    int first_block, end_block;             /* the shared blocks */
    const void *k[BT_ATTN_SEGMENT_BLOCKS], *v[BT_ATTN_SEGMENT_BLOCKS];
} span;

static size_t queries_of(const bt_device_limits *limits)
{
    return (size_t)BT_MAX(TILE_QUERIES, limits->heads_max);
}

/* Floats that take the place of n pointers. */
static size_t pointer_floats(size_t n)
{
    return BT_ROUND_UP(n * sizeof(float *) / sizeof(float), (size_t)16);
}

bool bt_cpu_attention_init(bt_cpu_attention_work *work, const bt_device_limits *limits,
                           int n_threads)
{
    const size_t n = queries_of(limits), d = (size_t)limits->head_dim_max;
    const size_t part = bt_attn_part_size(limits->head_dim_max);
    const size_t segments = (size_t)(limits->positions_max - 1) / BT_ATTN_SEGMENT + 1;
    bt_cpu_attention_work w = {0};
    w.scratch_floats = n * BT_ATTN_SEGMENT + pointer_floats(n) + 2 * n * part +
                       BT_ROUND_UP((size_t)BT_ATTN_SEGMENT * d, (size_t)16);
    w.parts_max = BT_MAX((size_t)PARTS_MIN, (size_t)limits->heads_max * segments);
    w.tiles = bt_mem_calloc(BT_MEM_WORK, (size_t)limits->rows_max, sizeof *w.tiles);
    w.parts = bt_mem_calloc(BT_MEM_WORK, w.parts_max, part * sizeof(float));
    w.scratch = bt_mem_calloc(BT_MEM_WORK, (size_t)n_threads, w.scratch_floats * sizeof(float));
    if (w.tiles == NULL || w.parts == NULL || w.scratch == NULL) {
        bt_cpu_attention_deinit(&w);
        return false;
    }
    *work = w;
    return true;
}

void bt_cpu_attention_deinit(bt_cpu_attention_work *work)
{
    bt_mem_free(work->tiles);
    bt_mem_free(work->parts);
    bt_mem_free(work->scratch);
    *work = (bt_cpu_attention_work){0};
}

static scratch scratch_of(const attend *c, int thread_idx)
{
    const bt_device_limits *limits = &c->cpu->limits;
    const bt_cpu_attention_work *w = &c->cpu->attention_work;
    const size_t n = queries_of(limits);
    const size_t part = n * bt_attn_part_size(limits->head_dim_max);
    scratch s;
    s.scores = w->scratch + (size_t)thread_idx * w->scratch_floats;
    s.q = (const float **)(void *)(s.scores + n * BT_ATTN_SEGMENT);
    s.state = s.scores + n * BT_ATTN_SEGMENT + pointer_floats(n);
    s.part = s.state + part;
    s.blocks = (char *)(s.part + part);
    return s;
}

static int tail_of(const bt_attention_args *a, int t)
{
    return a->n_tail == NULL ? 0 : a->n_tail[t];
}

static int keys_of(const bt_attention_args *a, int t)
{
    return a->n_ctx[t] + tail_of(a, t);
}

/* First position that row t reads. */
static int first_key_of(const bt_attention_args *a, int t)
{
    return a->window > 0 ? BT_MAX(0, keys_of(a, t) - a->window) : 0;
}

/* Byte offset of head g in block block_id, in keys and in values. */
static size_t block_offset(const attend *c, int32_t block_id, int g)
{
    return ((size_t)block_id * (size_t)c->n_kv_heads + (size_t)g) * (size_t)c->head_dim *
           BT_ATTN_BLOCK * c->element_bytes;
}

/* What each row reads of the segment, and the blocks that all rows find in the same place. */
static void bound(span *p)
{
    const bt_attention_args *a = p->c->args;
    int first = BT_ATTN_SEGMENT, end = 0;
    for (int r = 0; r < p->tile.n_rows; r++) {
        const int t = p->tile.row + r;
        p->lo[r] = BT_MAX(0, first_key_of(a, t) - p->base);
        p->hi[r] = BT_MIN(BT_ATTN_SEGMENT, keys_of(a, t) - p->base);
        if (p->lo[r] < p->hi[r]) {
            first = BT_MIN(first, p->lo[r]);
            end = BT_MAX(end, p->hi[r]);
        }
    }
    const int t = p->tile.row;
    p->first_block = first / BT_ATTN_BLOCK;
    p->end_block = (end + BT_ATTN_BLOCK - 1) / BT_ATTN_BLOCK;
    if (tail_of(a, t) > 0) {
        const int whole = (a->n_ctx[t] - p->base) / BT_ATTN_BLOCK;
        p->end_block = BT_MIN(p->end_block, whole);
    }
    p->end_block = BT_MAX(p->end_block, p->first_block);
    for (int b = p->first_block; b < p->end_block; b++) {
        const size_t at = block_offset(p->c, a->blocks[t][p->base / BT_ATTN_BLOCK + b], p->g);
        p->k[b] = (const char *)a->kv->k + at;
        p->v[b] = (const char *)a->kv->v + at;
    }
}

/* Copies n positions from place `from` of a block to place `to` of another; keys lie in columns. */
static void copy_keys(char *to_block, int to, const char *from_block, int from, int n,
                      const attend *c)
{
    const size_t d = (size_t)c->head_dim;
    if (c->element_bytes == 2) {
        uint16_t *dst = (uint16_t *)(void *)to_block + to;
        const uint16_t *src = (const uint16_t *)(const void *)from_block + from;
        for (size_t e = 0; e < d * BT_ATTN_BLOCK; e += BT_ATTN_BLOCK) {
            for (int i = 0; i < n; i++) {
                dst[e + (size_t)i] = src[e + (size_t)i];
            }
        }
    } else {
        float *dst = (float *)(void *)to_block + to;
        const float *src = (const float *)(const void *)from_block + from;
        for (size_t e = 0; e < d * BT_ATTN_BLOCK; e += BT_ATTN_BLOCK) {
            for (int i = 0; i < n; i++) {
                dst[e + (size_t)i] = src[e + (size_t)i];
            }
        }
    }
}

static int32_t slot_of(const bt_attention_args *a, int t, int position)
{
    if (position >= a->n_ctx[t]) {
        return a->tail[t][position - a->n_ctx[t]];
    }
    return a->blocks[t][position / BT_ATTN_BLOCK] * BT_ATTN_BLOCK + position % BT_ATTN_BLOCK;
}

/* The n positions from `base` on of row t as one block: where they lie when they lie together, else
 * gathered into `room`. */
static const void *gather_block(const span *p, int t, int base, int n, bool values, char *room)
{
    const attend *c = p->c;
    const char *cache = values ? c->args->kv->v : c->args->kv->k;
    const size_t position_bytes = (size_t)c->head_dim * c->element_bytes;
    int run;
    for (int i = 0; i < n; i += run) {
        const int32_t slot = slot_of(c->args, t, base + i);
        const int at = slot % BT_ATTN_BLOCK;
        run = 1;
        while (i + run < n && at + run < BT_ATTN_BLOCK &&
               slot_of(c->args, t, base + i + run) == slot + run) {
            run++;
        }
        const char *from = cache + block_offset(c, slot / BT_ATTN_BLOCK, p->g);
        if (run == n && at == 0) {
            return from;
        }
        if (values) {
            memcpy(room + (size_t)i * position_bytes, from + (size_t)at * position_bytes,
                   (size_t)run * position_bytes);
        } else if (i == 0 && at == 0) {
            memcpy(room, from, BT_ATTN_BLOCK * position_bytes); /* later runs overwrite the rest */
        } else {
            copy_keys(room, i, from, at, run, c);
        }
    }
    return room;
}

/* Finds row r's own blocks, those after the shared ones. Returns the first of them. */
static int own_blocks(span *p, int r, bool values)
{
    const size_t block_bytes = (size_t)BT_ATTN_BLOCK * (size_t)p->c->head_dim * p->c->element_bytes;
    const int first = BT_MAX(p->end_block, p->lo[r] / BT_ATTN_BLOCK);
    for (int b = first; b * BT_ATTN_BLOCK < p->hi[r]; b++) {
        const int n = BT_MIN(BT_ATTN_BLOCK, p->hi[r] - b * BT_ATTN_BLOCK);
        const void *block = gather_block(p, p->tile.row + r, p->base + b * BT_ATTN_BLOCK, n, values,
                                         p->s->blocks + (size_t)b * block_bytes);
        *(values ? &p->v[b] : &p->k[b]) = block;
    }
    return first;
}

/* Scores n queries from query q of the tile on with blocks first…end-1. */
static void score_blocks(const span *p, int q, int n, int first, int end)
{
    for (int i = q; i < q + n && first < end; i += BT_ATTN_QUERIES) {
        p->c->scores(p->s->q + i, BT_MIN(BT_ATTN_QUERIES, q + n - i), p->k + first, end - first,
                     p->c->head_dim, p->s->scores + i * BT_ATTN_SEGMENT + first * BT_ATTN_BLOCK);
    }
}

static void score(span *p)
{
    const attend *c = p->c;
    score_blocks(p, 0, p->tile.n_rows * c->group, p->first_block, p->end_block);
    for (int r = 0; r < p->tile.n_rows; r++) {
        if (p->lo[r] < p->hi[r] && p->hi[r] > p->end_block * BT_ATTN_BLOCK) {
            const int first = own_blocks(p, r, false);
            const int end = (p->hi[r] + BT_ATTN_BLOCK - 1) / BT_ATTN_BLOCK;
            score_blocks(p, r * c->group, c->group, first, end);
        }
    }
}

/* Adds positions lo…hi-1 to the parts of n queries from query `first` of the tile on. */
static void mix_queries(const span *p, int first, int n, int lo, int hi)
{
    const attend *c = p->c;
    for (int i = first; i < first + n && lo < hi; i += BT_ATTN_QUERIES) {
        c->mix(&(bt_attn_mix_args){.p = p->s->scores + i * BT_ATTN_SEGMENT,
                                   .v = p->v,
                                   .acc = p->s->part + (size_t)i * c->part_size,
                                   .acc_stride = c->part_size,
                                   .n_q = BT_MIN(BT_ATTN_QUERIES, first + n - i),
                                   .lo = lo,
                                   .hi = hi,
                                   .head_dim = c->head_dim});
    }
}

/* Weighted values: what all rows read is read once; before and after it each row goes alone, for it
 * must not touch a position that it does not attend to (0 times infinity is not 0). */
static void mix(span *p)
{
    const int n_rows = p->tile.n_rows, group = p->c->group;
    int lo = 0, hi = p->end_block * BT_ATTN_BLOCK;
    for (int r = 0; r < n_rows; r++) {
        lo = BT_MAX(lo, p->lo[r]);
        hi = BT_MIN(hi, p->hi[r]);
    }
    if (lo < hi) {
        for (int r = 0; r < n_rows; r++) {
            mix_queries(p, r * group, group, p->lo[r], lo);
        }
        mix_queries(p, 0, n_rows * group, lo, hi);
    }
    for (int r = 0; r < n_rows; r++) {
        if (p->lo[r] < p->hi[r]) {
            if (p->hi[r] > p->end_block * BT_ATTN_BLOCK) {
                own_blocks(p, r, true);
            }
            mix_queries(p, r * group, group, lo < hi ? hi : p->lo[r], p->hi[r]);
        }
    }
}

/* Asks for the values that mix reads first, to come while the softmax computes. */
static void fetch_values(const span *p)
{
    enum { LINE = 64, BLOCKS = 4 };
    const size_t bytes = (size_t)BT_ATTN_BLOCK * (size_t)p->c->head_dim * p->c->element_bytes;
    for (int b = p->first_block; b < p->end_block && b < p->first_block + BLOCKS; b++) {
        for (size_t i = 0; i < bytes; i += LINE) {
            __builtin_prefetch((const char *)p->v[b] + i);
        }
    }
}

/* The parts of one segment, into p->s->part. */
static void attend_segment(span *p, int segment)
{
    const attend *c = p->c;
    const bt_attention_args *a = c->args;
    const size_t m = bt_attn_part_max(c->head_dim);
    p->base = segment * BT_ATTN_SEGMENT;
    bound(p);
    score(p);
    fetch_values(p);
    for (int i = 0; i < p->tile.n_rows * c->group; i++) {
        const int r = i / c->group;
        float *part = p->s->part + (size_t)i * c->part_size;
        memset(part, 0, c->part_size * sizeof *part);
        if (p->lo[r] < p->hi[r]) {
            c->cpu->attention.softmax(p->s->scores + i * BT_ATTN_SEGMENT, p->lo[r], p->hi[r],
                                      a->scale, a->softcap, part + m);
        }
    }
    mix(p);
}

/* Adds the part of a later segment to a query's state. */
static void merge(const attend *c, float *state, const float *part)
{
    const size_t sum = bt_attn_part_max(c->head_dim) + 1;
    if (part[sum] == 0) {
        return;
    }
    if (state[sum] == 0) {
        memcpy(state, part, c->part_size * sizeof *state);
    } else {
        c->cpu->attention.merge(state, part, c->head_dim);
    }
}

static void finish(const attend *c, const float *state, size_t head)
{
    c->cpu->attention.finish(state, c->head_dim, c->args->out + head * (size_t)c->head_dim);
}

/* Index of query j of the tile among all T * H. */
static size_t head_of(const span *p, int j)
{
    const int group = p->c->group;
    return (size_t)(p->tile.row + j / group) * (size_t)p->c->args->n_heads +
           (size_t)(p->g * group + j % group);
}

static void open_span(span *p, const attend *c, const scratch *s, int item)
{
    p->c = c;
    p->s = s;
    p->tile = c->cpu->attention_work.tiles[item / c->n_kv_heads];
    p->g = item % c->n_kv_heads;
    for (int j = 0; j < p->tile.n_rows * c->group; j++) {
        s->q[j] = c->args->q + head_of(p, j) * (size_t)c->head_dim;
    }
}

/* A chunk: all segments of one tile and key/value head. The last tiles, whose contexts are the
 * longest in a prefill, go first. */
static void attend_item(void *ctx, int chunk_idx, int thread_idx)
{
    const attend *c = ctx;
    const bt_attention_args *a = c->args;
    const scratch s = scratch_of(c, thread_idx);
    scratch into_state = s;
    into_state.part = s.state;
    span p;
    open_span(&p, c, &into_state, c->n_tiles * c->n_kv_heads - 1 - chunk_idx);
    int first = first_key_of(a, p.tile.row), end = 0;
    for (int t = p.tile.row; t < p.tile.row + p.tile.n_rows; t++) {
        first = BT_MIN(first, first_key_of(a, t));
        end = BT_MAX(end, keys_of(a, t));
    }
    attend_segment(&p, first / BT_ATTN_SEGMENT); /* the first part is the state */
    p.s = &s;
    const int n_queries = p.tile.n_rows * c->group;
    for (int i = first / BT_ATTN_SEGMENT + 1; i * BT_ATTN_SEGMENT < end; i++) {
        attend_segment(&p, i);
        for (int j = 0; j < n_queries; j++) {
            merge(c, s.state + (size_t)j * c->part_size, s.part + (size_t)j * c->part_size);
        }
    }
    for (int j = 0; j < n_queries; j++) {
        finish(c, s.state + (size_t)j * c->part_size, head_of(&p, j));
    }
}

/* A chunk: one segment of one tile and key/value head; its parts go to work->parts, [T, H,
 * segments]. */
static void attend_split(void *ctx, int chunk_idx, int thread_idx)
{
    const attend *c = ctx;
    const scratch s = scratch_of(c, thread_idx);
    span p;
    open_span(&p, c, &s, chunk_idx / c->n_segments);
    const int segment = chunk_idx % c->n_segments;
    attend_segment(&p, segment);
    for (int j = 0; j < p.tile.n_rows * c->group; j++) {
        memcpy(c->cpu->attention_work.parts +
                   (head_of(&p, j) * (size_t)c->n_segments + (size_t)segment) * c->part_size,
               s.part + (size_t)j * c->part_size, c->part_size * sizeof(float));
    }
}

static void merge_split(const attend *c)
{
    const scratch s = scratch_of(c, 0);
    const size_t n = (size_t)c->args->n_rows * (size_t)c->args->n_heads;
    const float *part = c->cpu->attention_work.parts;
    for (size_t head = 0; head < n; head++) {
        memset(s.state, 0, c->part_size * sizeof *s.state);
        for (int i = 0; i < c->n_segments; i++, part += c->part_size) {
            merge(c, s.state, part);
        }
        finish(c, s.state, head);
    }
}

/* Cuts the rows into tiles of rows that find their committed keys in the same places. */
static int cut_tiles(const bt_attention_args *a, int rows_per_tile, bt_cpu_tile *tiles)
{
    int n = 0;
    for (int t = 0; t < a->n_rows; t++) {
        if (n > 0) {
            bt_cpu_tile *last = &tiles[n - 1];
            const int first = last->row;
            const bool same_tail = tail_of(a, t) == 0
                                       ? tail_of(a, first) == 0
                                       : tail_of(a, first) > 0 && a->n_ctx[t] == a->n_ctx[first];
            if (last->n_rows < rows_per_tile && a->blocks[t] == a->blocks[first] && same_tail) {
                last->n_rows++;
                continue;
            }
        }
        tiles[n++] = (bt_cpu_tile){.row = t, .n_rows = 1};
    }
    return n;
}

/* Checks the call against the limits; its multiply-adds, and the largest number of segments. */
static int64_t measure(const bt_cpu *cpu, const bt_attention_args *a, int *n_segments)
{
    BT_ASSERT(a->n_rows <= cpu->limits.rows_max && a->n_heads <= cpu->limits.heads_max);
    BT_ASSERT(a->kv->head_dim >= 1 && a->kv->head_dim <= cpu->limits.head_dim_max);
    BT_ASSERT(a->kv->n_kv_heads >= 1 && a->n_heads % a->kv->n_kv_heads == 0);
    BT_ASSERT(a->kv->dtype == BT_DTYPE_F32 || a->kv->dtype == BT_DTYPE_F16);
    int64_t n_keys = 0;
    int longest = 0;
    for (int t = 0; t < a->n_rows; t++) {
        const int n = keys_of(a, t);
        BT_ASSERT(n >= 1 && n <= cpu->limits.positions_max);
        n_keys += n - first_key_of(a, t);
        longest = BT_MAX(longest, n);
    }
    *n_segments = (longest - 1) / BT_ATTN_SEGMENT + 1;
    return 2 * n_keys * a->n_heads * a->kv->head_dim;
}

void bt_cpu_attention(bt_device *dev, const bt_attention_args *args)
{
    bt_cpu *cpu = bt_cpu_of(dev);
    if (args->n_rows == 0) {
        return;
    }
    const bt_kv_layer *kv = args->kv;
    const bool half = kv->dtype == BT_DTYPE_F16;
    attend c = {.cpu = cpu,
                .args = args,
                .scores = half ? cpu->attention.scores_f16 : cpu->attention.scores_f32,
                .mix = half ? cpu->attention.mix_f16 : cpu->attention.mix_f32,
                .element_bytes = half ? 2 : 4,
                .part_size = bt_attn_part_size(kv->head_dim),
                .head_dim = kv->head_dim,
                .n_kv_heads = kv->n_kv_heads,
                .group = args->n_heads / kv->n_kv_heads};
    const int n_threads = bt_pool_threads(cpu->pool);
    const bool alone = measure(cpu, args, &c.n_segments) < INLINE_MACS || n_threads == 1;
    const int items_wanted = ITEMS_PER_THREAD * n_threads;
    int rows = TILE_QUERIES / c.group;
    if (!alone) {
        rows = BT_MIN(rows, args->n_rows * c.n_kv_heads / items_wanted);
    }
    c.n_tiles = cut_tiles(args, BT_MAX(rows, 1), cpu->attention_work.tiles);
    const int n_items = c.n_tiles * c.n_kv_heads;
    if (alone) {
        for (int i = 0; i < n_items; i++) {
            attend_item(&c, i, 0);
        }
    } else if (c.n_segments > 1 && n_items < items_wanted &&
               (size_t)args->n_rows * (size_t)args->n_heads * (size_t)c.n_segments <=
                   cpu->attention_work.parts_max) {
        bt_pool_run(cpu->pool, n_items * c.n_segments, attend_split, &c);
        merge_split(&c);
    } else {
        bt_pool_run(cpu->pool, n_items, attend_item, &c);
    }
}
