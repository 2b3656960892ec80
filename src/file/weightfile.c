/* SPDX-License-Identifier: MIT */
#include "file/weightfile.h"

#include "file/table.h"

#include <string.h>
#include <sys/stat.h>

bt_status bt_table_add_file(bt_weightfile *t, bt_mapfile file, int *idx, bt_err *err)
{
    bt_mapfile *files =
        bt_mem_realloc(BT_MEM_FILE, t->files, (size_t)t->n_files + 1, sizeof *files);
    if (files == NULL) {
        bt_mapfile_close(&file);
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for a list of files");
    }
    t->files = files;
    *idx = t->n_files;
    t->files[t->n_files++] = file;
    return BT_OK;
}

bt_status bt_table_add(bt_weightfile *t, const bt_tensor_view *view, bt_err *err)
{
    if (t->n == t->cap) {
        int cap = t->cap == 0 ? 256 : 2 * t->cap;
        if (cap > 2 * BT_FILE_TENSORS_MAX) {
            return bt_fail(err, BT_E_LIMIT, "more than %d tensors", BT_FILE_TENSORS_MAX);
        }
        bt_tensor_view *views = bt_mem_realloc(BT_MEM_FILE, t->views, (size_t)cap, sizeof *views);
        if (views == NULL) {
            return bt_fail(err, BT_E_NO_MEMORY, "no memory for %d tensors", cap);
        }
        t->views = views;
        t->cap = cap;
    }
    char *name = bt_arena_dup(&t->names, view->name.p, view->name.n);
    bool added = false;
    if (name == NULL ||
        !bt_map_add(&t->by_name, (bt_str){name, view->name.n}, (int64_t)t->n, &added)) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for a tensor's name");
    }
    if (!added) {
        return bt_fail(err, BT_E_FORMAT, "tensor \"%.200s\" appears twice", name);
    }
    t->views[t->n] = *view;
    t->views[t->n++].name.p = name;
    return BT_OK;
}

bool bt_table_elements(const bt_tensor_view *view, uint64_t *n)
{
    size_t product = 1;
    bool empty = false;
    for (int i = 0; i < view->n_dims; i++) {
        if (view->shape[i] < 0 ||
            !bt_mul_ok(product, BT_MAX((size_t)view->shape[i], (size_t)1), &product)) {
            return false;
        }
        empty = empty || view->shape[i] == 0;
    }
    *n = empty ? 0 : product;
    return product <= INT64_MAX;
}

bt_weightfile *bt_table_create(const char *path, bt_file_kind kind)
{
    bt_weightfile *t = bt_mem_calloc(BT_MEM_FILE, 1, sizeof *t);
    if (t == NULL) {
        return NULL;
    }
    t->kind = kind;
    bt_map_init(&t->by_name, BT_MEM_FILE);
    bt_arena_init(&t->names, BT_MEM_FILE, 1 << 16, BT_META_ARENA_MAX);
    bt_meta_init(&t->config);
    bt_meta_init(&t->generation);
    bt_meta_init(&t->tokenizer);
    t->path = bt_mem_dup(BT_MEM_FILE, path, strlen(path));
    if (t->path == NULL) {
        bt_weightfile_close(t);
        return NULL;
    }
    return t;
}

bt_status bt_weightfile_open(const char *path, bt_weightfile **out, bt_err *err)
{
    struct stat st;
    bool is_dir = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    bool is_lone = !is_dir && bt_str_ends(bt_str_of(path), BT_STR(".safetensors"));
    bt_weightfile *t = bt_table_create(path, is_dir || is_lone ? BT_FILE_HF : BT_FILE_GGUF);
    if (t == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for a table of tensors");
    }
    bt_status status = is_dir    ? bt_hfdir_read(t, err)
                       : is_lone ? bt_safetensors_read(t, path, NULL, NULL, err)
                                 : bt_gguf_read(t, err);
    if (status != BT_OK) {
        bt_weightfile_close(t);
        return status;
    }
    *out = t;
    return BT_OK;
}

void bt_weightfile_close(bt_weightfile *t)
{
    if (t == NULL) {
        return;
    }
    for (int i = 0; i < t->n_files; i++) {
        bt_mapfile_close(&t->files[i]);
    }
    bt_meta_deinit(&t->config);
    bt_meta_deinit(&t->generation);
    bt_meta_deinit(&t->tokenizer);
    bt_map_deinit(&t->by_name);
    bt_arena_deinit(&t->names);
    bt_mem_free(t->files);
    bt_mem_free(t->views);
    bt_mem_free(t->path);
    bt_mem_free(t);
}

bt_file_kind bt_weightfile_kind(const bt_weightfile *t)
{
    return t->kind;
}

const char *bt_weightfile_path(const bt_weightfile *t)
{
    return t->path;
}

uint64_t bt_weightfile_bytes(const bt_weightfile *t)
{
    uint64_t n = 0;
    for (int i = 0; i < t->n_files; i++) {
        n += t->files[i].n;
    }
    return n;
}

int bt_weightfile_count(const bt_weightfile *t)
{
    return t->n;
}

const bt_tensor_view *bt_weightfile_at(const bt_weightfile *t, int idx)
{
    BT_ASSERT(idx >= 0 && idx < t->n);
    return &t->views[idx];
}

const bt_tensor_view *bt_weightfile_find(const bt_weightfile *t, const char *name)
{
    const int64_t *idx = bt_map_find(&t->by_name, bt_str_of(name));
    return idx == NULL ? NULL : &t->views[*idx];
}

void bt_weightfile_drop(const bt_weightfile *t, const bt_tensor_view *view, int64_t first_row,
                        int64_t n_rows)
{
    int64_t all = view->n_dims > 0 ? view->shape[0] : 1;
    BT_ASSERT(first_row >= 0 && n_rows >= 0 && first_row <= all && n_rows <= all - first_row);
    if (all == 0 || view->bytes == 0) {
        return;
    }
    const bt_mapfile *file = &t->files[view->file_idx];
    size_t row = view->bytes / (size_t)all;
    size_t at = (size_t)(view->data - file->p) + row * (size_t)first_row;
    bt_mapfile_drop(file, at, row * (size_t)n_rows);
}

const bt_meta *bt_weightfile_config(const bt_weightfile *t)
{
    return &t->config;
}

const bt_meta *bt_weightfile_generation_config(const bt_weightfile *t)
{
    return t->has_generation ? &t->generation : NULL;
}

const bt_meta *bt_weightfile_tokenizer_config(const bt_weightfile *t)
{
    return t->has_tokenizer ? &t->tokenizer : NULL;
}
