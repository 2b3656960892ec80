/* SPDX-License-Identifier: MIT
 *
 * A Hugging Face checkpoint directory: configuration files and one or several safetensors files. With
 * an index the index is the authority: every file that it names must be there and hold every tensor
 * that it places in it. */
#include "file/table.h"

#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { CONFIG_MAX = 64 << 20, PATH_BYTES = 4096 };

static bt_status join(const char *dir, const char *name, char out[PATH_BYTES], bt_err *err)
{
    int n = snprintf(out, PATH_BYTES, "%s/%s", dir, name);
    return n > 0 && n < PATH_BYTES ? BT_OK
                                   : bt_fail(err, BT_E_INVALID, "%.200s…: path too long", dir);
}

static bt_status parse_file(const char *path, bt_json **out, size_t *n_text, bt_err *err)
{
    char *text;
    size_t n;
    BT_TRY(bt_mapfile_read(path, CONFIG_MAX, &text, &n, err));
    bt_status status = bt_json_parse_config((bt_str){text, n}, out, err);
    bt_mem_free(text);
    if (status != BT_OK) {
        bt_err_prefix(err, "%s", path);
        return status;
    }
    *n_text = n;
    return BT_OK;
}

/* *found = false, and nothing else, when an optional file is absent. */
static bt_status read_config(bt_weightfile *t, const char *name, bt_meta *meta, bool *found,
                             bt_err *err)
{
    char path[PATH_BYTES];
    bt_json *root = NULL;
    BT_TRY(join(t->path, name, path, err));
    size_t n_text = 0;
    bt_status status = parse_file(path, &root, &n_text, err);
    if (status == BT_E_NOT_FOUND && found != NULL) {
        *found = false;
        return BT_OK;
    }
    BT_TRY(status);
    if (found != NULL) {
        *found = true;
    }
    status = bt_meta_from_json(meta, root, n_text, err);
    if (status != BT_OK) {
        bt_err_prefix(err, "%s", path);
    }
    return status;
}

static bool is_plain_name(bt_str name)
{
    return name.n > 0 && name.n < 256 && memchr(name.p, '/', name.n) == NULL &&
           memchr(name.p, '\0', name.n) == NULL && name.p[0] != '.';
}

/* What an index says. Names are borrowed from its tree. */
typedef struct shards {
    bt_map idx_of; /* file name to its place below */
    bt_map wanted; /* tensor to the place of its file */
    struct {
        bt_str file, tensor; /* one of its tensors, for messages */
    } * list;
    int n;
} shards;

static void shards_deinit(shards *s)
{
    bt_map_deinit(&s->idx_of);
    bt_map_deinit(&s->wanted);
    bt_mem_free(s->list);
}

/* Adds one line of the weight_map. */
static bt_status add_mapping(shards *s, const char *path, bt_str tensor, const bt_json *value,
                             bt_err *err)
{
    if (bt_json_kind_of(value) != BT_JSON_STRING || !is_plain_name(bt_json_str(value))) {
        return bt_fail(err, BT_E_FORMAT,
                       "%s: the index places tensor \"%.*s\" in a file that is no plain name", path,
                       (int)BT_MIN(tensor.n, (size_t)200), tensor.p);
    }
    bt_str file = bt_json_str(value);
    bool added = false, is_new = false;
    if (s->n >= BT_FILE_SHARDS_MAX) {
        return bt_fail(err, BT_E_LIMIT, "%s: more than %d shards", path, BT_FILE_SHARDS_MAX - 1);
    }
    if (!bt_map_add(&s->idx_of, file, s->n, &is_new) ||
        !bt_map_add(&s->wanted, tensor, *bt_map_find(&s->idx_of, file), &added)) {
        return bt_fail(err, BT_E_NO_MEMORY, "%s: no memory for the index", path);
    }
    if (is_new) {
        s->list[s->n].file = file;
        s->list[s->n++].tensor = tensor;
    }
    return BT_OK;
}

static bt_status read_shard(bt_weightfile *t, const shards *s, int idx, int *n_unlisted,
                            bt_err *err)
{
    char name[256], path[PATH_BYTES];
    bt_str file = s->list[idx].file, tensor = s->list[idx].tensor;
    snprintf(name, sizeof name, "%.*s", (int)file.n, file.p);
    BT_TRY(join(t->path, name, path, err));
    bt_status status = bt_safetensors_read(t, path, &s->wanted, n_unlisted, err);
    if (status == BT_E_NOT_FOUND) {
        return bt_fail(err, BT_E_NOT_FOUND,
                       "%s is missing: the index places tensor \"%.*s\" in it; incomplete "
                       "download?",
                       path, (int)BT_MIN(tensor.n, (size_t)200), tensor.p);
    }
    return status;
}

static bt_status check_index(const bt_weightfile *t, const bt_json *map, bt_err *err)
{
    void *iter = NULL;
    bt_str tensor;
    const bt_json *value;
    while (bt_json_next(map, &iter, &tensor, &value)) {
        bt_str file = bt_json_str(value);
        if (bt_map_find(&t->by_name, tensor) == NULL) { /* a shard gives only what it should hold */
            return bt_fail(err, BT_E_FORMAT,
                           "%s: tensor \"%.*s\" is not in %.*s where the index places it; "
                           "incomplete download?",
                           t->path, (int)BT_MIN(tensor.n, (size_t)200), tensor.p, (int)file.n,
                           file.p);
        }
    }
    return BT_OK;
}

/* What else lies in the directory. */
typedef struct listing {
    int n_stray; /* *.safetensors that are no shards */
    char stray[256];
    bool has_bin;
} listing;

static bt_status list_dir(const bt_weightfile *t, const bt_map *shard_names, listing *out,
                          bt_err *err)
{
    DIR *dir = opendir(t->path);
    if (dir == NULL) {
        return bt_fail(err, BT_E_IO, "%s: %s", t->path, strerror(errno));
    }
    listing l = {0};
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        bt_str name = bt_str_of(entry->d_name);
        l.has_bin = l.has_bin || bt_str_ends(name, BT_STR(".bin"));
        if (bt_str_ends(name, BT_STR(".safetensors")) && bt_map_find(shard_names, name) == NULL) {
            l.n_stray++;
            snprintf(l.stray, sizeof l.stray, "%s", entry->d_name);
        }
    }
    closedir(dir);
    *out = l;
    return BT_OK;
}

/* What the index does not name is not read: one line says so. */
static void warn_ignored(const bt_weightfile *t, const listing *l, int n_unlisted)
{
    if (l->n_stray > 0 || n_unlisted > 0) {
        bt_log(BT_LOG_WARN, "weights",
               "%s: the index does not name %d *.safetensors files (%s) and %d tensors: ignored",
               t->path, l->n_stray, l->n_stray > 0 ? l->stray : "none", n_unlisted);
    }
}

static bt_status read_shards(bt_weightfile *t, const bt_json *map, shards *s, bt_err *err)
{
    int n_unlisted = 0;
    void *iter = NULL;
    bt_str tensor;
    const bt_json *value;
    while (bt_json_next(map, &iter, &tensor, &value)) {
        BT_TRY(add_mapping(s, t->path, tensor, value, err));
    }
    for (int i = 0; i < s->n; i++) {
        BT_TRY(read_shard(t, s, i, &n_unlisted, err));
    }
    BT_TRY(check_index(t, map, err));
    listing l = {0};
    BT_TRY(list_dir(t, &s->idx_of, &l, err));
    warn_ignored(t, &l, n_unlisted);
    return BT_OK;
}

static bt_status read_indexed(bt_weightfile *t, const bt_json *root, bt_err *err)
{
    const bt_json *map =
        bt_json_kind_of(root) == BT_JSON_OBJECT ? bt_json_get(root, "weight_map") : NULL;
    if (map == NULL || bt_json_kind_of(map) != BT_JSON_OBJECT || bt_json_count(map) == 0) {
        return bt_fail(err, BT_E_FORMAT, "%s/model.safetensors.index.json: no weight_map", t->path);
    }
    shards s = {0};
    bt_map_init(&s.idx_of, BT_MEM_FILE);
    bt_map_init(&s.wanted, BT_MEM_FILE);
    size_t most = BT_MIN(bt_json_count(map), (size_t)BT_FILE_SHARDS_MAX);
    s.list = bt_mem_calloc(BT_MEM_FILE, most, sizeof *s.list);
    bt_status status = s.list != NULL
                           ? read_shards(t, map, &s, err)
                           : bt_fail(err, BT_E_NO_MEMORY, "%s: no memory for the index", t->path);
    shards_deinit(&s);
    return status;
}

/* Neither index nor model.safetensors: one file of another name will do, shards will not. */
static bt_status read_other(bt_weightfile *t, bt_err *err)
{
    char path[PATH_BYTES];
    listing l = {0};
    const bt_map none = {0};
    BT_TRY(list_dir(t, &none, &l, err));
    if (l.n_stray == 1 && strstr(l.stray, "-of-0") == NULL) {
        BT_TRY(join(t->path, l.stray, path, err));
        return bt_safetensors_read(t, path, NULL, NULL, err);
    }
    return bt_fail(err, BT_E_NOT_FOUND,
                   "%s holds neither model.safetensors nor model.safetensors.index.json%s", t->path,
                   l.n_stray > 0 ? ", only files that an index should name; incomplete download?"
                   : l.has_bin   ? "; weights in .bin files are not read, convert them"
                                 : "; incomplete download?");
}

static bt_status read_weights(bt_weightfile *t, bt_err *err)
{
    char path[PATH_BYTES];
    bt_json *index = NULL;
    size_t n_text = 0;
    BT_TRY(join(t->path, "model.safetensors.index.json", path, err));
    bt_status status = parse_file(path, &index, &n_text, err);
    if (status == BT_OK) {
        status = read_indexed(t, index, err);
        bt_json_close(index);
        return status;
    }
    if (status != BT_E_NOT_FOUND) {
        return status;
    }
    BT_TRY(join(t->path, "model.safetensors", path, err));
    status = bt_safetensors_read(t, path, NULL, NULL, err);
    return status != BT_E_NOT_FOUND ? status : read_other(t, err);
}

bt_status bt_hfdir_read(bt_weightfile *t, bt_err *err)
{
    BT_TRY(read_config(t, "config.json", &t->config, NULL, err));
    BT_TRY(read_config(t, "generation_config.json", &t->generation, &t->has_generation, err));
    BT_TRY(read_config(t, "tokenizer_config.json", &t->tokenizer, &t->has_tokenizer, err));
    return read_weights(t, err);
}
