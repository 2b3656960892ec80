/* SPDX-License-Identifier: MIT
 *
 * Goal: the decoder computes what the architectures' definitions say. Method: logits of every
 * position of every prompt of the tiny checkpoints against a float64 reference (golden.safetensors),
 * and the greedy continuation where its margin exceeds 1e-2. Each checkpoint runs with the prompt in
 * one pass, in chunks of 5 rows and row by row, which must agree bit for bit (law 1). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cpu.h"
#include "base/mapfile.h"
#include "base/mem.h"
#include "model/model.h"
#include "text/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 128, POS_MAX = 512, BLOCKS = 64 };

typedef struct fixture {
    bt_pool *pool;
    bt_device *dev;
    bt_weightfile *file;
    bt_model *model;
    bt_batch *batch;
    bt_kv_pool kv;
    bt_kv_table table;
    float *rows; /* [POS_MAX, V] */
} fixture;

static const char *shared_dir(void)
{
    static char path[1024];
    const char *env = getenv("BT_SHARED"), *root = getenv("BT_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s%s",
             env != NULL    ? env
             : root != NULL ? root
                            : ".",
             env != NULL ? "" : "/../shared");
    return path;
}

static void open_fixture(fixture *f, const char *path, int n_threads)
{
    bt_err err = {0};
    assert_true(bt_cpu_init(NULL));
    assert_int_equal(bt_pool_open(n_threads, &f->pool, NULL), BT_OK);
    assert_int_equal(bt_device_cpu_open(f->pool, &f->dev, NULL), BT_OK);
    if (bt_weightfile_open(path, &f->file, &err) != BT_OK ||
        bt_model_open(f->file, f->dev, &f->model, &err) != BT_OK) {
        fail_msg("%s", err.message);
    }
    bt_device_limits dl = {.rows_max = ROWS_MAX,
                           .inputs_max = 512,
                           .heads_max = f->model->hp.n_heads,
                           .head_dim_max = f->model->hp.head_dim,
                           .positions_max = POS_MAX};
    assert_int_equal(bt_device_cpu_reserve(f->dev, &dl, NULL), BT_OK);
    bt_model_limits lim = {.n_pos = POS_MAX,
                           .rows_max = ROWS_MAX,
                           .logits_max = ROWS_MAX,
                           .n_blocks = BLOCKS,
                           .kv_dtype = BT_DTYPE_F32};
    assert_int_equal(bt_model_reserve(f->model, &lim, NULL), BT_OK);
    assert_int_equal(bt_batch_open(ROWS_MAX, &f->batch, NULL), BT_OK);
    assert_int_equal(bt_kv_pool_init(&f->kv, BLOCKS, NULL), BT_OK);
    assert_int_equal(bt_kv_table_init(&f->table, POS_MAX, NULL), BT_OK);
    f->rows = calloc((size_t)POS_MAX * (size_t)f->model->hp.vocab_size, sizeof *f->rows);
    assert_non_null(f->rows);
}

static void close_fixture(fixture *f)
{
    free(f->rows);
    bt_kv_table_truncate(&f->table, &f->kv, 0);
    bt_kv_table_deinit(&f->table);
    bt_kv_pool_deinit(&f->kv);
    bt_batch_close(f->batch);
    bt_model_close(f->model);
    f->dev->ops->close(f->dev);
    bt_weightfile_close(f->file);
    bt_pool_close(f->pool);
}

/* Logits of all positions into f->rows, `chunk` rows a pass. */
static void run(fixture *f, const int32_t *ids, int n, int chunk)
{
    size_t v = (size_t)f->model->hp.vocab_size;
    assert_true(bt_kv_table_grow(&f->table, &f->kv, n));
    for (int at = 0; at < n; at += chunk) {
        bt_batch_reset(f->batch);
        for (int i = at; i < n && i < at + chunk; i++) {
            bt_batch_add(f->batch, ids[i], i, &f->table, BT_WANT_LOGITS);
        }
        const float *logits;
        bt_model_forward(f->model, f->batch, &logits);
        memcpy(f->rows + (size_t)at * v, logits, (size_t)f->batch->n_tok * v * sizeof *logits);
    }
}

static double worst_error(const float *got, const float *want, size_t n)
{
    double worst = 0, scale = 0;
    for (size_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
        scale = fmax(scale, fabs((double)want[i]));
    }
    return worst / scale;
}

static bt_json *read_json(const char *path)
{
    char *text;
    size_t n;
    bt_json *json = NULL;
    assert_int_equal(bt_mapfile_read(path, 64 << 20, &text, &n, NULL), BT_OK);
    assert_int_equal(bt_json_parse((bt_str){text, n}, &json, NULL), BT_OK);
    bt_mem_free(text);
    return json;
}

static int read_ids(const bt_json *list, int32_t *ids)
{
    int n = (int)bt_json_count(list);
    assert_true(n <= POS_MAX);
    for (int i = 0; i < n; i++) {
        ids[i] = (int32_t)bt_json_int(bt_json_at(list, (size_t)i));
    }
    return n;
}

static void check_greedy(fixture *f, const bt_json *prompt, const int32_t *ids, int n)
{
    const bt_json *greedy = bt_json_get(prompt, "greedy");
    const bt_json *margin = bt_json_get(prompt, "greedy_margin");
    size_t v = (size_t)f->model->hp.vocab_size;
    int32_t all[POS_MAX];
    memcpy(all, ids, (size_t)n * sizeof *ids);
    for (size_t g = 0; g < bt_json_count(greedy) && n < POS_MAX && g < 40; g++) {
        run(f, all, n, ROWS_MAX);
        const float *last = f->rows + (size_t)(n - 1) * v;
        int32_t best = 0;
        for (size_t i = 1; i < v; i++) {
            best = last[i] > last[best] ? (int32_t)i : best;
        }
        int32_t want = (int32_t)bt_json_int(bt_json_at(greedy, g));
        if (bt_json_real(bt_json_at(margin, g)) > 1e-2) {
            assert_int_equal(best, want);
        }
        all[n++] = want;
    }
}

static void check_prompt(fixture *f, const bt_json *prompt, const bt_tensor_view *golden,
                         double bound)
{
    int32_t ids[POS_MAX];
    int n = read_ids(bt_json_get(prompt, "ids"), ids);
    size_t count = (size_t)n * (size_t)f->model->hp.vocab_size;
    float *first = malloc(count * sizeof *first), *want = malloc(count * sizeof *want);
    assert_true(first != NULL && want != NULL && golden->n_elements == count);
    run(f, ids, n, ROWS_MAX);
    memcpy(first, f->rows, count * sizeof *first);
    const int chunks[] = {5, 1};
    for (size_t i = 0; i < BT_COUNT(chunks); i++) {
        run(f, ids, n, chunks[i]);
        assert_memory_equal(first, f->rows, count * sizeof *first);
    }
    bt_tensor_read_f32(golden, 0, count, want);
    double error = worst_error(first, want, count);
    if (!(error <= bound)) {
        fail_msg("relative error %g exceeds %g", error, bound);
    }
    check_greedy(f, prompt, ids, n);
    free(first);
    free(want);
}

static void check_checkpoint(const char *name, double bound, int n_threads)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/data/models/%s/golden.json", shared_dir(), name);
    FILE *probe = fopen(path, "r");
    if (probe == NULL) {
        print_message("skipped: %s is not there\n", path);
        skip();
    }
    fclose(probe);
    bt_json *golden = read_json(path);
    fixture f = {0};
    bt_weightfile *tensors = NULL;
    snprintf(path, sizeof path, "%s/data/models/%s", shared_dir(), name);
    open_fixture(&f, path, n_threads);
    /* golden.safetensors has no config.json beside it: opened through the shard reader's own door. */
    bt_err err = {0};
    snprintf(path, sizeof path, "%s/data/models/%s/golden.safetensors", shared_dir(), name);
    if (bt_weightfile_open(path, &tensors, &err) != BT_OK) {
        fail_msg("%s", err.message);
    }
    const bt_json *prompts = bt_json_get(golden, "prompts");
    int n_checked = 0;
    for (size_t i = 0; i < bt_json_count(prompts); i++) {
        char tensor[32];
        snprintf(tensor, sizeof tensor, "p%zu.logits", i);
        const bt_tensor_view *view = bt_weightfile_find(tensors, tensor);
        if (view != NULL) {
            check_prompt(&f, bt_json_at(prompts, i), view, bound);
            n_checked++;
        }
    }
    assert_true(n_checked > 0);
    bt_weightfile_close(tensors);
    bt_json_close(golden);
    close_fixture(&f);
}

#define CHECKPOINT(function, name, bound)                                                          \
    static void function(void **state)                                                             \
    {                                                                                              \
        (void)state;                                                                               \
        check_checkpoint(name, bound, 2);                                                          \
    }

CHECKPOINT(llama_gqa_llama3_rope, "llama-gqa-rope3", 1e-4)
CHECKPOINT(llama_gqa_llama3_rope_bf16, "llama-gqa-rope3-bf16", 2e-2)
CHECKPOINT(llama_sharded, "llama-gqa-rope3-sharded", 1e-4)
CHECKPOINT(llama_biases, "llama-mha-bias", 1e-4)
CHECKPOINT(llama_biases_bf16, "llama-mha-bias-bf16", 2e-2)
CHECKPOINT(llama_biases_f16, "llama-mha-bias-f16", 2e-2)
CHECKPOINT(llama_mqa_linear_rope_tied, "llama-mqa-linear", 1e-4)
CHECKPOINT(llama_mqa_linear_rope_tied_bf16, "llama-mqa-linear-bf16", 2e-2)
CHECKPOINT(mistral_sliding_window, "mistral-sliding", 1e-4)
CHECKPOINT(mistral_sliding_window_bf16, "mistral-sliding-bf16", 2e-2)
CHECKPOINT(qwen2_biases_tied, "qwen2", 1e-4)
CHECKPOINT(qwen2_biases_tied_bf16, "qwen2-bf16", 2e-2)
CHECKPOINT(stories260k, "stories260k", 1e-4)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_gqa_llama3_rope),
        cmocka_unit_test(llama_gqa_llama3_rope_bf16),
        cmocka_unit_test(llama_sharded),
        cmocka_unit_test(llama_biases),
        cmocka_unit_test(llama_biases_bf16),
        cmocka_unit_test(llama_biases_f16),
        cmocka_unit_test(llama_mqa_linear_rope_tied),
        cmocka_unit_test(llama_mqa_linear_rope_tied_bf16),
        cmocka_unit_test(mistral_sliding_window),
        cmocka_unit_test(mistral_sliding_window_bf16),
        cmocka_unit_test(qwen2_biases_tied),
        cmocka_unit_test(qwen2_biases_tied_bf16),
        cmocka_unit_test(stories260k),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
