/* SPDX-License-Identifier: MIT
 *
 * A Hugging Face checkpoint directory: configuration files and one or several safetensors files. With
 * an index the index is the authority: every file that it names must be there and hold every tensor
 * that it places in it. */
#include "file/table.h"

#include "base/log.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

enum { CONFIG_MAX = 64 << 20, PATH_BYTES = 4096 };

static bt_status join(const char *dir, const char *name, char out[PATH_BYTES], bt_err *err)
{
    int n = snprintf(out, PATH_BYTES, "%s/%s", dir, name);
    return n > 0 && n < PATH_BYTES ? BT_OK
                                   : bt_fail(err, BT_E_INVALID, "%.200s…: path too long", dir);
}

static bt_status parse_file(const char *path, bt_json **out, bt_err *err)
{
    char *text;
    size_t n;
    BT_TRY(bt_mapfile_read(path, CONFIG_MAX, &text, &n, err));
    bt_status status = bt_json_parse_config((bt_str){text, n}, out, err);
    bt_mem_free(text);
    if (status != BT_OK) {
        bt_err_prefix(err, "%s", path);
    }
    return status;
}

/* *found = false, and nothing else, when an optional file is absent. */
static bt_status read_config(bt_weightfile *t, const char *name, bt_meta *meta, bool *found,
                             bt_err *err)
{
    char path[PATH_BYTES];
    bt_json *root = NULL;
    BT_TRY(join(t->path, name, path, err));
    bt_status status = parse_file(path, &root, err);
    if (status == BT_E_NOT_FOUND && found != NULL) {
        *found = false;
        return BT_OK;
    }
    BT_TRY(status);
    if (found != NULL) {
        *found = true;
    }
    status = bt_meta_from_json(meta, root, err);
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

static bool ends_safetensors(const char *name)
{
    return bt_str_ends(bt_str_of(name), BT_STR(".safetensors"));
}

/* Reads each file that the index names, once. */
static bt_status read_shards(bt_weightfile *t, const bt_json *map, bt_map *shards, bt_err *err)
{
    void *iter = NULL;
    bt_str tensor;
    const bt_json *value;
    while (bt_json_next(map, &iter, &tensor, &value)) {
        char name[256], path[PATH_BYTES];
        bool added;
        if (bt_json_kind_of(value) != BT_JSON_STRING || !is_plain_name(bt_json_str(value))) {
            return bt_fail(err, BT_E_FORMAT,
                           "%s: the index places tensor \"%.*s\" in a file that is no plain name",
                           t->path, (int)BT_MIN(tensor.n, (size_t)200), tensor.p);
        }
        bt_str file = bt_json_str(value);
        if (bt_map_find(shards, file) != NULL) {
            continue;
        }
        if (!bt_map_add(shards, file, t->n_files, &added)) {
            return bt_fail(err, BT_E_NO_MEMORY, "%s: no memory for the index", t->path);
        }
        if (t->n_files >= BT_FILE_SHARDS_MAX) {
            return bt_fail(err, BT_E_LIMIT, "%s: more than %d shards", t->path, BT_FILE_SHARDS_MAX);
        }
        snprintf(name, sizeof name, "%.*s", (int)file.n, file.p);
        BT_TRY(join(t->path, name, path, err));
        bt_status status = bt_safetensors_read(t, path, err);
        if (status == BT_E_NOT_FOUND) {
            return bt_fail(err, BT_E_NOT_FOUND,
                           "%s is missing: the index places tensor \"%.*s\" in it; incomplete "
                           "download?",
                           path, (int)BT_MIN(tensor.n, (size_t)200), tensor.p);
        }
        BT_TRY(status);
    }
    return BT_OK;
}

static bt_status check_index(const bt_weightfile *t, const bt_json *map, const bt_map *shards,
                             bt_err *err)
{
    void *iter = NULL;
    bt_str tensor;
    const bt_json *value;
    while (bt_json_next(map, &iter, &tensor, &value)) {
        bt_str file = bt_json_str(value);
        const int64_t *idx = bt_map_find(&t->by_name, tensor);
        const int64_t *shard = bt_map_find(shards, file);
        if (idx == NULL || t->views[*idx].file_idx != *shard) {
            return bt_fail(err, BT_E_FORMAT,
                           "%s: tensor \"%.*s\" is not in %.*s where the index places it; "
                           "incomplete download?",
                           t->path, (int)BT_MIN(tensor.n, (size_t)200), tensor.p, (int)file.n,
                           file.p);
        }
    }
    return BT_OK;
}

/* Weights that the index does not name are not read: one line says so. */
static void warn_strays(const bt_weightfile *t, const bt_map *shards)
{
    DIR *dir = opendir(t->path);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (ends_safetensors(entry->d_name) &&
            bt_map_find(shards, bt_str_of(entry->d_name)) == NULL) {
            bt_log(BT_LOG_WARN, "weights", "%s/%s is not in the index and is ignored", t->path,
                   entry->d_name);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static bt_status read_indexed(bt_weightfile *t, const bt_json *root, bt_err *err)
{
    const bt_json *map =
        bt_json_kind_of(root) == BT_JSON_OBJECT ? bt_json_get(root, "weight_map") : NULL;
    if (map == NULL || bt_json_kind_of(map) != BT_JSON_OBJECT || bt_json_count(map) == 0) {
        return bt_fail(err, BT_E_FORMAT, "%s/model.safetensors.index.json: no weight_map", t->path);
    }
    bt_map shards;
    bt_map_init(&shards, BT_MEM_FILE);
    bt_status status = read_shards(t, map, &shards, err);
    if (status == BT_OK) {
        status = check_index(t, map, &shards, err);
    }
    if (status == BT_OK) {
        warn_strays(t, &shards);
    }
    bt_map_deinit(&shards);
    return status;
}

static bt_status read_weights(bt_weightfile *t, bt_err *err)
{
    char path[PATH_BYTES];
    bt_json *index = NULL;
    BT_TRY(join(t->path, "model.safetensors.index.json", path, err));
    bt_status status = parse_file(path, &index, err);
    if (status == BT_OK) {
        status = read_indexed(t, index, err);
        bt_json_close(index);
        return status;
    }
    if (status != BT_E_NOT_FOUND) {
        return status;
    }
    BT_TRY(join(t->path, "model.safetensors", path, err));
    status = bt_safetensors_read(t, path, err);
    return status != BT_E_NOT_FOUND
               ? status
               : bt_fail(err, BT_E_NOT_FOUND,
                         "%s holds neither model.safetensors nor model.safetensors.index.json",
                         t->path);
}

bt_status bt_hfdir_read(bt_weightfile *t, bt_err *err)
{
    BT_TRY(read_config(t, "config.json", &t->config, NULL, err));
    BT_TRY(read_config(t, "generation_config.json", &t->generation, &t->has_generation, err));
    BT_TRY(read_config(t, "tokenizer_config.json", &t->tokenizer, &t->has_tokenizer, err));
    return read_weights(t, err);
}
