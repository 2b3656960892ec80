/* SPDX-License-Identifier: MIT
 *
 * Panels in the making. Packing moves bits and never computes with values, so that what is read
 * back is what the file says. */
#include "kernel/pack.h"

#include "base/mem.h"
#include "tensor/half.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PANEL = BT_PANEL_OUTPUTS,
    GROUP = BT_GROUP_INPUTS,
    LINE = BT_CACHE_LINE,
    SCALES = PANEL * 2,       /* bytes of 16 f16 */
    HIGH = PANEL * GROUP / 8, /* bytes of 512 fifth bits */
    ROUND_BYTES = 32 << 20,   /* source bytes between two progress calls */
    CHUNK_BYTES = 128 << 10,  /* source bytes of one chunk of the pool */
    HUGE_MIN_BYTES = 4 << 20, /* from here on huge pages are asked for */
    NAME_MAX_SHOWN = 200,     /* bytes of a tensor's name in a message */
};

/* Layout facts of an integer format. */
typedef struct layout {
    int code_bytes; /* of one group of one panel */
    bool has_high, has_min;
    int head;   /* bytes of a source block before its codes */
    int offset; /* w = d * (code - offset) (+ m) */
} layout;

static const layout layouts[BT_DTYPE_COUNT] = {
    [BT_DTYPE_Q4_0] = {256, false, false, 2, 8},   [BT_DTYPE_Q4_1] = {256, false, true, 4, 0},
    [BT_DTYPE_Q5_0] = {256, true, false, 6, 16},   [BT_DTYPE_Q5_1] = {256, true, true, 8, 0},
    [BT_DTYPE_Q8_0] = {512, false, false, 2, 128},
};

bool bt_pack_is_integer(bt_dtype dtype)
{
    BT_ASSERT((unsigned)dtype < BT_DTYPE_COUNT);
    return layouts[dtype].code_bytes > 0;
}

/* Bytes of fifth bits and codes of one group. */
static size_t body_bytes(const layout *l)
{
    return (size_t)l->code_bytes + (l->has_high ? HIGH : 0);
}

bt_pack_group bt_pack_find_group(const bt_panels *panels, const unsigned char *panel, int g)
{
    const layout *l = &layouts[panels->dtype];
    size_t body = body_bytes(l);
    bt_pack_group found = {0};
    const unsigned char *p;
    if (l->has_min) {
        p = panel + (size_t)g * (LINE + body);
        found.scales = p;
        found.minima = p + SCALES;
        p += LINE;
    } else {
        p = panel + (size_t)(g / 2) * (LINE + 2 * body);
        found.scales = p + g % 2 * SCALES;
        p += LINE + (g % 2 == 0 ? 0 : body);
    }
    found.high = l->has_high ? p : NULL;
    found.codes = p + (l->has_high ? HIGH : 0);
    return found;
}

/* 0 when the size does not fit. */
static size_t plan_panel_bytes(bt_dtype dtype, int k)
{
    const layout *l = &layouts[dtype];
    if (!bt_pack_is_integer(dtype)) {
        size_t width = (size_t)bt_dtype_get(dtype)->block_bytes;
        return BT_ROUND_UP((size_t)k, BT_FLOAT_INPUTS) * PANEL * width;
    }
    size_t n_groups = (size_t)k / GROUP;
    size_t lines = l->has_min ? n_groups : (n_groups + 1) / 2;
    return lines * LINE + n_groups * body_bytes(l);
}

bt_status bt_pack_plan(const bt_tensor_view *view, bt_panels *out, bt_err *err)
{
    char shape[96];
    const bt_dtype_info *info = bt_dtype_get(view->dtype);
    int name_len = (int)BT_MIN(view->name.n, (size_t)NAME_MAX_SHOWN);
    const char *name = view->name.p;
    bt_tensor_shape_text(view, shape);
    if (view->n_dims < 1 || view->n_dims > 2 || !info->is_weight) {
        return bt_fail(err, BT_E_UNSUPPORTED,
                       "tensor %.*s: %s of type %s cannot be a matrix; it must have two dimensions "
                       "and a weight type",
                       name_len, name, shape, info->name);
    }
    int64_t n = view->n_dims == 2 ? view->shape[0] : 1, k = view->shape[view->n_dims - 1];
    if (n < 1 || n > INT32_MAX - PANEL || k < 1 || k > BT_PACK_INPUTS_MAX) {
        return bt_fail(err, BT_E_UNSUPPORTED, "tensor %.*s: shape %s is out of range", name_len,
                       name, shape);
    }
    if (k % info->block_elements != 0) {
        return bt_fail(err, BT_E_FORMAT,
                       "tensor %.*s: shape %s, but rows of type %s must be multiples of %d",
                       name_len, name, shape, info->name, info->block_elements);
    }
    size_t source, row;
    if (!bt_dtype_bytes(view->dtype, (uint64_t)k, &row) || !bt_mul_ok(row, (size_t)n, &source) ||
        source != view->bytes) {
        return bt_fail(err, BT_E_FORMAT, "tensor %.*s: %zu bytes do not hold shape %s of type %s",
                       name_len, name, view->bytes, shape, info->name);
    }
    bt_panels plan = {.dtype = view->dtype, .n = (int)n, .k = (int)k};
    plan.n_panels = (int)((n + PANEL - 1) / PANEL);
    plan.panel_bytes = plan_panel_bytes(view->dtype, plan.k);
    if (!bt_mul_ok(plan.panel_bytes, (size_t)plan.n_panels, &plan.bytes)) {
        return bt_fail(err, BT_E_LIMIT, "tensor %.*s: shape %s does not fit the address space",
                       name_len, name, shape);
    }
    BT_ASSERT(plan.panel_bytes % LINE == 0);
    *out = plan;
    return BT_OK;
}

/* One byte of eight fifth bits from 32: bits j, j + 4, …, j + 28. */
static uint32_t gather_bits(uint32_t bits, int j)
{
    uint32_t x = bits >> j & 0x11111111u;
    x = (x | x >> 3) & 0x03030303u;
    x = (x | x >> 6) & 0x000F000Fu;
    return (x | x >> 12) & 0xFFu;
}

/* lint: allow parameters: inlined; all of them live in registers. */
/* to[i][o] = word i of row o, for n words of `width` (2 or 4) bytes; flip is xored to them. Whole
 * lines are written in turn, the rows are read side by side. */
BT_INLINE void transpose(int width, int n_rows, const unsigned char *rows, size_t stride, int n,
                         uint32_t flip, unsigned char *to)
{
    for (int i = 0; i < n; i++, rows += width, to += PANEL * width) {
        for (int o = 0; o < n_rows; o++) {
            uint32_t word = 0;
            memcpy(&word, rows + (size_t)o * stride, (size_t)width);
            word ^= flip;
            memcpy(to + width * o, &word, (size_t)width);
        }
    }
}

static void transpose_words(int n_rows, const unsigned char *rows, size_t stride, int n,
                            uint32_t flip, unsigned char *to)
{
    if (n_rows == PANEL) { /* a loop that the compiler can unroll */
        transpose(4, PANEL, rows, stride, n, flip, to);
    } else {
        transpose(4, n_rows, rows, stride, n, flip, to);
    }
}

static void transpose_halves(int n_rows, const unsigned char *rows, size_t stride, int n,
                             unsigned char *to)
{
    if (n_rows == PANEL) {
        transpose(2, PANEL, rows, stride, n, 0, to);
    } else {
        transpose(2, n_rows, rows, stride, n, 0, to);
    }
}

/* Group g: blocks holds that of output 0, those of the others follow at the stride. */
static void pack_group(const layout *l, const bt_pack_group *at, const unsigned char *blocks,
                       size_t stride, int n_rows)
{
    /* bt_pack_find_group serves readers; the panel itself is writable here. */
    unsigned char *codes = (unsigned char *)(uintptr_t)at->codes;
    unsigned char *high = (unsigned char *)(uintptr_t)at->high;
    transpose_halves(n_rows, blocks, stride, 1, (unsigned char *)(uintptr_t)at->scales);
    if (l->has_min) {
        transpose_halves(n_rows, blocks + 2, stride, 1, (unsigned char *)(uintptr_t)at->minima);
    }
    for (int o = 0; l->has_high && o < n_rows; o++) {
        uint32_t bits, packed = 0;
        memcpy(&bits, blocks + (size_t)o * stride + l->head - 4, sizeof bits);
        for (int j = 0; j < 4; j++) {
            packed |= gather_bits(bits, j) << (8 * j);
        }
        memcpy(high + 4 * o, &packed, sizeof packed);
    }
    uint32_t flip = l->offset == 128 ? 0x80808080u : 0; /* signed to offset 128 */
    transpose_words(n_rows, blocks + l->head, stride, l->code_bytes / (4 * PANEL), flip, codes);
}

static void pack_integer_panel(const bt_panels *p, const unsigned char *rows, size_t row_bytes,
                               int n_rows, unsigned char *panel)
{
    const layout *l = &layouts[p->dtype];
    size_t block_bytes = (size_t)bt_dtype_get(p->dtype)->block_bytes;
    if (n_rows < PANEL || p->k / GROUP % 2 == 1) {
        memset(panel, 0, p->panel_bytes); /* padding: scale 0, and no undefined bytes */
    }
    for (int g = 0; g < p->k / GROUP; g++) {
        bt_pack_group at = bt_pack_find_group(p, panel, g);
        pack_group(l, &at, rows + (size_t)g * block_bytes, row_bytes, n_rows);
    }
}

/* Offset of element (k, o) in a float panel. */
static size_t float_at(bt_dtype dtype, int k, int o)
{
    switch (dtype) {
    case BT_DTYPE_F32:
        return ((size_t)k * PANEL + (size_t)o) * 4;
    case BT_DTYPE_F16:
        return ((size_t)k * PANEL + (size_t)o) * 2;
    default:
        BT_ASSERT(dtype == BT_DTYPE_BF16);
        return ((size_t)(k / 2) * PANEL + (size_t)o) * 4 + (size_t)(k % 2) * 2;
    }
}

static void pack_float_panel(const bt_panels *p, const unsigned char *rows, size_t row_bytes,
                             int n_rows, unsigned char *panel)
{
    if (n_rows < PANEL || p->k % BT_FLOAT_INPUTS != 0) {
        memset(panel, 0, p->panel_bytes);
    }
    if (p->dtype == BT_DTYPE_F16) {
        transpose_halves(n_rows, rows, row_bytes, p->k, panel);
        return;
    }
    int n_words = p->dtype == BT_DTYPE_F32 ? p->k : p->k / 2;
    transpose_words(n_rows, rows, row_bytes, n_words, 0, panel);
    for (int o = 0; p->dtype == BT_DTYPE_BF16 && p->k % 2 == 1 && o < n_rows; o++) {
        memcpy(panel + float_at(p->dtype, p->k - 1, o),
               rows + (size_t)o * row_bytes + (size_t)(p->k - 1) * 2, 2);
    }
}

typedef struct pack_job {
    const bt_panels *panels;
    const unsigned char *source;
    size_t row_bytes;
    int first, end; /* panels of this round */
    int per_chunk;
} pack_job;

static void pack_chunk(void *ctx, int chunk_idx, int thread_idx)
{
    (void)thread_idx;
    const pack_job *job = ctx;
    const bt_panels *p = job->panels;
    int first = job->first + chunk_idx * job->per_chunk;
    int end = BT_MIN(first + job->per_chunk, job->end);
    for (int i = first; i < end; i++) {
        const unsigned char *rows = job->source + (size_t)i * PANEL * job->row_bytes;
        unsigned char *panel = p->data + (size_t)i * p->panel_bytes;
        int n_rows = BT_MIN(PANEL, p->n - i * PANEL);
        if (bt_pack_is_integer(p->dtype)) {
            pack_integer_panel(p, rows, job->row_bytes, n_rows, panel);
        } else {
            pack_float_panel(p, rows, job->row_bytes, n_rows, panel);
        }
    }
}

/* Large matrices get huge pages where the system has them: fewer TLB misses in a stream. */
static bool claim(bt_panels *p)
{
    p->data = bt_mem_alloc(BT_MEM_WEIGHTS, p->bytes);
    if (p->data != NULL && p->bytes >= HUGE_MIN_BYTES) {
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
        uintptr_t first = BT_ROUND_UP((uintptr_t)p->data, page);
        uintptr_t end = ((uintptr_t)p->data + p->bytes) / page * page;
        (void)madvise((void *)first, end - first, MADV_HUGEPAGE); /* only advice */
    }
    return p->data != NULL;
}

bt_status bt_pack_open(bt_pool *pool, const bt_tensor_view *view, bt_pack_progress_fn *progress,
                       void *ctx, bt_panels *out, bt_err *err)
{
    bt_panels plan;
    BT_TRY(bt_pack_plan(view, &plan, err));
    if (!claim(&plan)) {
        return bt_fail(err, BT_E_NO_MEMORY, "tensor %.*s: no memory for %zu bytes of weights",
                       (int)BT_MIN(view->name.n, (size_t)NAME_MAX_SHOWN), view->name.p, plan.bytes);
    }
    size_t row_bytes = view->bytes / (size_t)plan.n;
    size_t source_panel = row_bytes * PANEL;
    int per_round = (int)BT_MIN(BT_MAX(ROUND_BYTES / source_panel, 1), (size_t)plan.n_panels);
    int per_chunk = (int)BT_MIN(BT_MAX(CHUNK_BYTES / source_panel, 1), (size_t)per_round);
    for (int first = 0; first < plan.n_panels; first += per_round) {
        int end = per_round < plan.n_panels - first ? first + per_round : plan.n_panels;
        pack_job job = {&plan, view->data, row_bytes, first, end, per_chunk};
        bt_pool_run(pool, (end - first + per_chunk - 1) / per_chunk, pack_chunk, &job);
        if (progress != NULL) {
            progress(ctx, BT_MIN((int64_t)end * PANEL, (int64_t)plan.n));
        }
    }
    *out = plan;
    return BT_OK;
}

void bt_pack_close(bt_panels *panels)
{
    bt_mem_free(panels->data);
    *panels = (bt_panels){0};
}

static float read_half(const unsigned char *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return bt_f16_to_f32(h);
}

/* The expressions are those of bt_tensor_read_f32, for the sign of zero. */
static void read_integer_row(const bt_panels *p, const unsigned char *panel, int o, float *out)
{
    const layout *l = &layouts[p->dtype];
    for (int g = 0; g < p->k / GROUP; g++, out += GROUP) {
        bt_pack_group at = bt_pack_find_group(p, panel, g);
        float d = read_half(at.scales + 2 * o);
        float m = l->has_min ? read_half(at.minima + 2 * o) : 0.0f;
        for (int i = 0; i < GROUP; i++) {
            if (l->code_bytes == 512) {
                out[i] = d * (float)(at.codes[PANEL * 4 * (i / 4) + 4 * o + i % 4] - l->offset);
                continue;
            }
            int v = at.codes[PANEL * 4 * (i % 16 / 4) + 4 * o + i % 4] >> (i < 16 ? 0 : 4) & 15;
            if (l->has_high) {
                v |= (at.high[4 * o + i % 4] >> (i / 4) & 1) << 4;
            }
            out[i] = d * (float)(v - l->offset) + m;
        }
    }
}

void bt_pack_read_row(const bt_panels *panels, int n_idx, float *out)
{
    BT_ASSERT(n_idx >= 0 && n_idx < panels->n);
    const unsigned char *panel = panels->data + (size_t)(n_idx / PANEL) * panels->panel_bytes;
    int o = n_idx % PANEL;
    if (bt_pack_is_integer(panels->dtype)) {
        read_integer_row(panels, panel, o, out);
        return;
    }
    for (int k = 0; k < panels->k; k++) {
        const unsigned char *at = panel + float_at(panels->dtype, k, o);
        uint16_t h;
        switch (panels->dtype) {
        case BT_DTYPE_F32:
            memcpy(&out[k], at, sizeof out[k]);
            break;
        case BT_DTYPE_F16:
            out[k] = read_half(at);
            break;
        default:
            memcpy(&h, at, sizeof h);
            out[k] = bt_bf16_to_f32(h);
        }
    }
}
