/* SPDX-License-Identifier: MIT
 *
 * Goal: a model directory opens as one table with its configurations, and every way in which a
 * download can be incomplete or an index wrong is refused with file and tensor. Method: small
 * two-shard models written here and damaged one way each; then the models in ../shared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "file/table.h"
#include "filemaker.h"

#define SHARD_1 "model-00001-of-00002.safetensors"
#define SHARD_2 "model-00002-of-00002.safetensors"
#define INDEX "model.safetensors.index.json"
#define ROW(name, begin, end)                                                                      \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[" #begin "," #end "]}"

static void write_shard(maker *m, const char *name, const char *header, size_t n_data)
{
    bt_buf b;
    bt_buf_init(&b, BT_MEM_BASE, MAKER_BYTES_MAX);
    put_safetensors(&b, header, n_data);
    maker_write(m, name, bt_buf_str(&b));
    bt_buf_deinit(&b);
}

static void write_index(maker *m, const char *map)
{
    char text[1024];
    snprintf(text, sizeof text, "{\"metadata\":{\"total_size\":24},\"weight_map\":%s}", map);
    maker_write(m, INDEX, bt_str_of(text));
}

#define GOOD_MAP "{\"a\":\"" SHARD_1 "\",\"b\":\"" SHARD_1 "\",\"c\":\"" SHARD_2 "\"}"

/* A sharded model: a, b in the first shard, c in the second. */
static void make_sharded(maker *m)
{
    maker_init(m);
    maker_write(m, "config.json", BT_STR("{\"model_type\":\"llama\"}"));
    write_shard(m, SHARD_1, "{" ROW("a", 0, 8) "," ROW("b", 8, 16) "}", 16);
    write_shard(m, SHARD_2, "{" ROW("c", 0, 8) "}", 8);
    write_index(m, GOOD_MAP);
}

static bt_weightfile *open_good(maker *m)
{
    bt_err err;
    bt_weightfile *file = NULL;
    if (bt_weightfile_open(m->dir, &file, &err) != BT_OK) {
        fail_msg("%s", err.message);
    }
    return file;
}

/* Opening fails, with both words in the message. */
static void refuse(maker *m, const char *word, const char *other)
{
    bt_err err;
    bt_weightfile *file = NULL;
    bt_status status = bt_weightfile_open(m->dir, &file, &err);
    if (status == BT_OK) {
        fail_msg("opened, expected an error with \"%s\"", word);
    }
    if (strstr(err.message, word) == NULL || strstr(err.message, other) == NULL) {
        fail_msg("\"%s\" lacks \"%s\" or \"%s\"", err.message, word, other);
    }
    assert_null(file);
    maker_deinit(m);
}

static void a_sharded_model_opens(void **state)
{
    (void)state;
    maker m;
    make_sharded(&m);
    bt_weightfile *file = open_good(&m);
    assert_int_equal(bt_weightfile_kind(file), BT_FILE_HF);
    assert_int_equal(bt_weightfile_count(file), 3);
    assert_string_equal(bt_weightfile_path(file), m.dir);
    const bt_tensor_view *c = bt_weightfile_find(file, "c");
    assert_true(c != NULL && c->file_idx == 1 && c->data[7] == 7);
    assert_null(bt_weightfile_find(file, "d"));
    assert_null(bt_weightfile_generation_config(file));
    assert_null(bt_weightfile_tokenizer_config(file));
    bt_weightfile_drop(file, c, 0, 2);
    assert_int_equal(c->data[7], 7); /* dropped pages come back from the file */
    bt_weightfile_close(file);
    bt_weightfile_close(NULL);
    maker_deinit(&m);
    assert_int_equal(bt_mem_used(BT_MEM_FILE), 0);
}

static void case_52_missing_and_renamed_shards(void **state)
{
    (void)state;
    maker m;
    make_sharded(&m);
    unlink(maker_path(&m, SHARD_2));
    refuse(&m, SHARD_2 " is missing", "\"c\" in it; incomplete download?");
    make_sharded(&m);
    char from[MAKER_PATH_MAX];
    strcpy(from, maker_path(&m, SHARD_2));
    assert_int_equal(rename(from, maker_path(&m, "other.safetensors")), 0);
    refuse(&m, SHARD_2, "incomplete download?");
    make_sharded(&m);
    assert_int_equal(truncate(maker_path(&m, SHARD_2), 60), 0);
    refuse(&m, SHARD_2, "incomplete download?");
    make_sharded(&m);
    unlink(maker_path(&m, INDEX));
    refuse(&m, m.dir, "incomplete download?");
    make_sharded(&m); /* one shard alone is no single file either */
    unlink(maker_path(&m, INDEX));
    unlink(maker_path(&m, SHARD_2));
    refuse(&m, m.dir, "incomplete download?");
}

static void case_52_wrong_index(void **state)
{
    (void)state;
    maker m;
    make_sharded(&m);
    write_index(&m, "{\"a\":\"" SHARD_1 "\",\"b\":\"" SHARD_2 "\",\"c\":\"" SHARD_2 "\"}");
    refuse(&m, "\"b\" is not in " SHARD_2, "incomplete download?");
    make_sharded(&m);
    write_index(&m, "{\"a\":\"" SHARD_1 "\",\"b\":\"" SHARD_1 "\",\"z\":\"" SHARD_2 "\"}");
    refuse(&m, "\"z\" is not in " SHARD_2, "incomplete download?");
    static const char *const escapes[] = {"../x.safetensors", "/etc/x.safetensors", "..", "",
                                          "sub/x.safetensors"};
    for (size_t i = 0; i < BT_COUNT(escapes); i++) {
        char map[256];
        snprintf(map, sizeof map, "{\"a\":\"%s\"}", escapes[i]);
        make_sharded(&m);
        write_index(&m, map);
        refuse(&m, "\"a\"", "no plain name");
    }
    static const char *const maps[] = {"{}", "[]", "3", "{\"a\":1}", "{\"a\":null}"};
    for (size_t i = 0; i < BT_COUNT(maps); i++) {
        make_sharded(&m);
        write_index(&m, maps[i]);
        refuse(&m, m.dir, "");
    }
}

/* Case 52: what the index does not name is left alone. */
static void case_52_strays_are_ignored(void **state)
{
    (void)state;
    maker m;
    make_sharded(&m);
    maker_write(&m, "model-00003-of-00003.safetensors", BT_STR("not even a header"));
    /* "a" again, and "d" which the index does not know */
    write_shard(&m, SHARD_2, "{" ROW("a", 0, 8) "," ROW("c", 8, 16) "," ROW("d", 16, 24) "}", 24);
    bt_weightfile *file = open_good(&m);
    assert_int_equal(bt_weightfile_count(file), 3);
    assert_int_equal(bt_weightfile_find(file, "a")->file_idx, 0);
    assert_int_equal(bt_weightfile_find(file, "c")->data[0], 8);
    assert_null(bt_weightfile_find(file, "d"));
    bt_weightfile_close(file);
    maker_deinit(&m);
}

static void single_files(void **state)
{
    (void)state;
    maker m;
    maker_init(&m);
    refuse(&m, "config.json", m.dir);
    maker_init(&m);
    maker_write(&m, "config.json", BT_STR("{}"));
    maker_write(&m, "pytorch_model.bin", BT_STR("x"));
    refuse(&m, m.dir, ".bin");
    maker_init(&m);
    maker_write(&m, "config.json", BT_STR("{}"));
    write_shard(&m, "weights.safetensors", "{" ROW("a", 0, 8) "}", 8);
    bt_weightfile *file = open_good(&m);
    assert_non_null(bt_weightfile_find(file, "a"));
    bt_weightfile_close(file);
    write_shard(&m, "more.safetensors", "{" ROW("b", 0, 8) "}", 8);
    refuse(&m, m.dir, "incomplete download?");
}

static const char config_text[] =
    "{\"hidden_size\":64,\"eps\":1e-5,\"flag\":true,\"none\":null,\"name\":\"x\\u0000y\","
    "\"rope\":{\"type\":\"yarn\",\"deep\":{\"factor\":2}},\"a.b\":7,\"empty\":{},"
    "\"list\":[1,[2,3],{\"name\":\"tool\",\"n\":4}]}";

static void configurations_are_flat(void **state)
{
    (void)state;
    maker m;
    make_sharded(&m);
    maker_write(&m, "config.json", bt_str_of(config_text));
    maker_write(&m, "generation_config.json", BT_STR("{\"eos_token_id\":[1,2]}"));
    bt_weightfile *file = open_good(&m);
    const bt_meta *meta = bt_weightfile_config(file);
    bt_meta_value v, e;
    assert_true(bt_meta_get(meta, "hidden_size", &v) && v.kind == BT_META_INT && v.i == 64);
    assert_true(v.f == 64.0);
    assert_true(bt_meta_get(meta, "eps", &v) && v.kind == BT_META_REAL && v.f == 1e-5);
    assert_true(bt_meta_get(meta, "none", &v) && v.kind == BT_META_NULL);
    assert_true(bt_meta_get(meta, "name", &v) && v.s.n == 3);
    assert_true(bt_meta_get(meta, "rope.deep.factor", &v) && v.i == 2);
    assert_true(bt_meta_get(meta, "rope", &v) && v.kind == BT_META_OBJECT);
    assert_true(bt_meta_member(&v, "type", &e) && bt_str_eqz(e.s, "yarn"));
    assert_true(bt_meta_get(meta, "a.b", &v) && v.i == 7);
    assert_false(bt_meta_get(meta, "rope.nothing", &v));
    assert_true(bt_meta_get(meta, "list", &v) && v.n == 3);
    assert_true(bt_meta_at(&v, 1, &e) && e.kind == BT_META_ARRAY && bt_meta_at(&e, 1, &e));
    assert_int_equal(e.i, 3);
    assert_true(bt_meta_at(&v, 2, &e) && bt_meta_member(&e, "n", &e) && e.i == 4);
    assert_false(bt_meta_at(&v, 3, &e));
    const char *key;
    size_t iter = 0;
    assert_true(bt_meta_next_unused(meta, &iter, &key));
    assert_string_equal(key, "flag");
    assert_true(bt_meta_next_unused(meta, &iter, &key));
    assert_string_equal(key, "rope.type");
    assert_false(bt_meta_next_unused(meta, &iter, &key));
    bt_meta_ignore(meta, "rope");
    bt_meta_ignore(meta, "flag");
    iter = 0;
    assert_false(bt_meta_next_unused(meta, &iter, &key));
    assert_true(bt_meta_get(bt_weightfile_generation_config(file), "eos_token_id", &v));
    assert_int_equal(v.n, 2);
    bt_weightfile_close(file);
    maker_deinit(&m);
}

static void bad_configurations_are_refused(void **state)
{
    (void)state;
    maker m;
    static const char *const texts[] = {"", "[]", "{\"a\":", "{\"a\":1,\"a\":2}", "{}x"};
    for (size_t i = 0; i < BT_COUNT(texts); i++) {
        make_sharded(&m);
        maker_write(&m, "config.json", bt_str_of(texts[i]));
        refuse(&m, "config.json", m.dir);
        make_sharded(&m);
        maker_write(&m, "tokenizer_config.json", bt_str_of(texts[i]));
        refuse(&m, "tokenizer_config.json", m.dir);
    }
    /* One long name above many members: their dotted keys would take the square of the file. */
    bt_buf b;
    bt_buf_init(&b, BT_MEM_BASE, MAKER_BYTES_MAX);
    bt_buf_pushz(&b, "{\"");
    for (int i = 0; i < 20000; i++) {
        bt_buf_push_char(&b, 'k');
    }
    bt_buf_pushz(&b, "\":{");
    for (int i = 0; i < 1000; i++) {
        bt_buf_printf(&b, "%s\"%d\":1", i > 0 ? "," : "", i);
    }
    bt_buf_pushz(&b, "}}");
    make_sharded(&m);
    maker_write(&m, "config.json", bt_buf_str(&b));
    refuse(&m, "config.json", "too long");
    bt_buf_deinit(&b);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    maker m;
    make_sharded(&m);
    bt_status status = BT_E_NO_MEMORY;
    for (uint64_t n = 1; status != BT_OK && n < 2000; n++) {
        bt_weightfile *file = NULL;
        bt_err err;
        bt_mem_fail_after(n);
        status = bt_weightfile_open(m.dir, &file, &err);
        bt_mem_fail_after(0);
        assert_true(status == BT_OK || status == BT_E_NO_MEMORY);
        bt_weightfile_close(file);
    }
    assert_int_equal(status, BT_OK);
    assert_int_equal(bt_mem_used(BT_MEM_FILE), 0);
    maker_deinit(&m);
}

/* Path of ../shared/data/models/name, or skips the test. */
static const char *shared_model(const char *name, char path[MAKER_PATH_MAX])
{
    const char *shared = getenv("BT_SHARED"), *root = getenv("BT_SOURCE_ROOT");
    if (shared != NULL) {
        snprintf(path, MAKER_PATH_MAX, "%s/data/models/%s", shared, name);
    } else {
        snprintf(path, MAKER_PATH_MAX, "%s/../shared/data/models/%s", root != NULL ? root : ".",
                 name);
    }
    if (access(path, R_OK) != 0) {
        print_message("skipped: no %s\n", path);
        skip();
    }
    return path;
}

/* A model in full and in half precision, and another one in two files, whose values were read with
 * Python's struct module. */
static void shared_models_have_their_values(void **state)
{
    (void)state;
    char path[MAKER_PATH_MAX];
    bt_weightfile *full, *two, *half;
    bt_err err;
    assert_int_equal(bt_weightfile_open(shared_model("llama-gqa-rope3", path), &full, &err), BT_OK);
    assert_int_equal(bt_weightfile_open(shared_model("llama-gqa-rope3-bf16", path), &half, &err),
                     BT_OK);
    assert_int_equal(bt_weightfile_open(shared_model("llama-gqa-rope3-sharded", path), &two, &err),
                     BT_OK);
    assert_int_equal(bt_weightfile_count(full), 30);
    for (int i = 0; i < bt_weightfile_count(full); i++) {
        const bt_tensor_view *v = bt_weightfile_at(full, i);
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)v->name.n, v->name.p);
        const bt_tensor_view *h = bt_weightfile_find(half, name),
                             *w = bt_weightfile_find(two, name);
        assert_true(w != NULL && w->bytes == v->bytes && w->n_dims == v->n_dims);
        assert_true(h != NULL && h->dtype == BT_DTYPE_BF16 && h->bytes * 2 == v->bytes);
        float a[8], b[8];
        bt_tensor_read_f32(v, v->n_elements - 8, 8, a);
        bt_tensor_read_f32(h, v->n_elements - 8, 8, b);
        for (int k = 0; k < 8; k++) {
            float d = a[k] - b[k], bound = (a[k] < 0 ? -a[k] : a[k]) / 256;
            assert_true(d <= bound && -d <= bound);
        }
    }
    const bt_tensor_view *head = bt_weightfile_find(two, "lm_head.weight");
    const bt_tensor_view *up = bt_weightfile_find(two, "model.layers.1.mlp.up_proj.weight");
    float x[3];
    bt_tensor_read_f32(head, head->n_elements - 3, 3, x);
    assert_true(x[0] == -0.17192363739013672f && x[2] == 0.29677721858024597f);
    bt_tensor_read_f32(up, 0, 3, x);
    assert_true(x[0] == 0.2701496183872223f && x[1] == 0.02712150476872921f);
    bt_meta_value v;
    assert_true(bt_meta_get(bt_weightfile_config(full), "rope_scaling.factor", &v) && v.f == 8.0);
    assert_non_null(bt_weightfile_tokenizer_config(full));
    bt_weightfile_close(full);
    bt_weightfile_close(two);
    bt_weightfile_close(half);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sharded_model_opens),
        cmocka_unit_test(case_52_missing_and_renamed_shards),
        cmocka_unit_test(case_52_wrong_index),
        cmocka_unit_test(case_52_strays_are_ignored),
        cmocka_unit_test(single_files),
        cmocka_unit_test(configurations_are_flat),
        cmocka_unit_test(bad_configurations_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(shared_models_have_their_values),
    };
    return cmocka_run_group_tests_name("file/weightfile", tests, NULL, NULL);
}
