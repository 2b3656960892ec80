/* SPDX-License-Identifier: MIT */
#include "file/modelpath.h"

#include "base/mapfile.h"
#include "base/mem.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096 };

static bool is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* The only entry of a directory that `wanted` accepts; false when there are none or several. */
static bool only_entry(const char *dir, bool (*wanted)(const char *name), char out[PATH_BYTES])
{
    DIR *d = opendir(dir);
    struct dirent *entry;
    int n = 0;
    while (d != NULL && (entry = readdir(d)) != NULL) {
        if (wanted(entry->d_name)) {
            n += snprintf(out, PATH_BYTES, "%s/%s", dir, entry->d_name) < PATH_BYTES ? 1 : 2;
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    return n == 1;
}

static bool is_gguf(const char *name)
{
    return bt_str_ends(bt_str_of(name), BT_STR(".gguf"));
}

static bool is_visible(const char *name)
{
    return name[0] != '.';
}

static bt_status give(const char *path, char **out, bt_err *err)
{
    char *copy = bt_mem_dup(BT_MEM_FILE, path, strlen(path));
    if (copy == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "no memory for a path");
    }
    *out = copy;
    return BT_OK;
}

/* A directory is a checkpoint, or holds one GGUF file. */
static bt_status resolve_dir(const char *dir, char **out, bt_err *err)
{
    char path[PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/config.json", dir) >= PATH_BYTES) {
        return bt_fail(err, BT_E_INVALID, "%.200s…: path too long", dir);
    }
    if (is_file(path)) {
        return give(dir, out, err);
    }
    if (only_entry(dir, is_gguf, path)) {
        return give(path, out, err);
    }
    return bt_fail(err, BT_E_NOT_FOUND, "%s holds neither config.json nor exactly one .gguf file",
                   dir);
}

/* ORG/NAME: one slash, parts of letters, digits, '-', '_' and '.', none beginning with '.'. */
static bool is_hub_name(const char *name)
{
    int n_slashes = 0;
    for (const char *p = name; *p != '\0'; p++) {
        bool begins = p == name || p[-1] == '/';
        bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                     (*p >= '0' && *p <= '9') || *p == '-' || *p == '_' || *p == '.';
        if (*p == '/') {
            n_slashes++;
        }
        if ((begins && (*p == '.' || *p == '/')) || (*p != '/' && !plain)) {
            return false;
        }
    }
    size_t n = strlen(name);
    return n_slashes == 1 && n < 200 && name[n - 1] != '/';
}

/* The revision that refs/main names, else the only snapshot. */
static bool find_snapshot(const char *repo, char out[PATH_BYTES])
{
    char path[PATH_BYTES], *text = NULL;
    size_t n;
    if (snprintf(path, sizeof path, "%s/refs/main", repo) >= PATH_BYTES) {
        return false;
    }
    if (bt_mapfile_read(path, 200, &text, &n, NULL) == BT_OK) {
        text[strcspn(text, "\r\n /")] = '\0';
        bool fits = snprintf(out, PATH_BYTES, "%s/snapshots/%s", repo, text) < PATH_BYTES;
        bool plain = text[0] != '\0' && text[0] != '.';
        bt_mem_free(text);
        if (fits && plain && is_dir(out)) {
            return true;
        }
    }
    return snprintf(path, sizeof path, "%s/snapshots", repo) < PATH_BYTES &&
           only_entry(path, is_visible, out) && is_dir(out);
}

static bt_status resolve_hub(const char *name, const char *cache_dir, char **out, bt_err *err)
{
    char repo[PATH_BYTES], snapshot[PATH_BYTES];
    const char *slash = strchr(name, '/');
    if (cache_dir != NULL &&
        snprintf(repo, sizeof repo, "%s/models--%.*s--%s", cache_dir, (int)(slash - name), name,
                 slash + 1) < PATH_BYTES &&
        find_snapshot(repo, snapshot)) {
        return resolve_dir(snapshot, out, err);
    }
    return bt_fail(err, BT_E_NOT_FOUND,
                   "model %s is neither a path nor in the Hugging Face cache (%s); get it with: "
                   "huggingface-cli download %s",
                   name, cache_dir == NULL ? "none" : cache_dir, name);
}

bt_status bt_modelpath_resolve(const char *name, const char *cache_dir, char **path, bt_err *err)
{
    if (name[0] == '\0') {
        return bt_fail(err, BT_E_INVALID, "the model's name is empty");
    }
    if (is_file(name)) {
        return is_gguf(name)
                   ? give(name, path, err)
                   : bt_fail(err, BT_E_INVALID,
                             "%s: a model is a directory with config.json or a .gguf file", name);
    }
    if (is_dir(name)) {
        return resolve_dir(name, path, err);
    }
    if (is_hub_name(name)) {
        return resolve_hub(name, cache_dir, path, err);
    }
    return bt_fail(err, BT_E_NOT_FOUND, "%s: no such file or directory", name);
}
