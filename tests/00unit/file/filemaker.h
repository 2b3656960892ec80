/* SPDX-License-Identifier: MIT
 *
 * filemaker.h: writes model files byte by byte, right ones and wrong ones, into a directory of its
 * own. Include after cmocka.h. */
#ifndef BT_TESTS_FILEMAKER_H
#define BT_TESTS_FILEMAKER_H

#include "base/buf.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAKER_BYTES_MAX = 1 << 20, MAKER_PATH_MAX = 512 };

/* GGUF value and tensor type numbers that the tests use. */
enum { GT_U8, GT_I8, GT_U16, GT_I16, GT_U32, GT_I32, GT_F32, GT_BOOL, GT_STR, GT_ARR, GT_U64 };
enum { GGML_F32 = 0, GGML_F16 = 1, GGML_Q4_0 = 2, GGML_Q6_K = 14, GGML_I32 = 26 };

typedef struct maker {
    char dir[64];
    char path[MAKER_PATH_MAX];
} maker;

static inline void maker_init(maker *m)
{
    strcpy(m->dir, "/tmp/bt_file_XXXXXX");
    assert_non_null(mkdtemp(m->dir));
}

/* dir/name, valid until the next call. */
static inline const char *maker_path(maker *m, const char *name)
{
    snprintf(m->path, sizeof m->path, "%s/%s", m->dir, name);
    return m->path;
}

static inline void maker_write(maker *m, const char *name, bt_str bytes)
{
    FILE *f = fopen(maker_path(m, name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes.p, 1, bytes.n, f), bytes.n);
    assert_int_equal(fclose(f), 0);
}

static inline void maker_mkdir(maker *m, const char *name)
{
    assert_int_equal(mkdir(maker_path(m, name), 0700), 0);
}

/* Removes the directory; the few levels that tests make. */
static inline void maker_deinit(maker *m)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", m->dir);
    assert_int_equal(system(command), 0);
}

static inline void put(bt_buf *b, uint64_t value, size_t n)
{
    bt_buf_push(b, &value, n); /* little endian, as betoken's machines are */
}

static inline void put_str(bt_buf *b, const char *text)
{
    put(b, strlen(text), 8);
    bt_buf_pushz(b, text);
}

static inline void put_header(bt_buf *b, uint64_t n_tensors, uint64_t n_entries)
{
    bt_buf_clear(b);
    bt_buf_pushz(b, "GGUF");
    put(b, 3, 4);
    put(b, n_tensors, 8);
    put(b, n_entries, 8);
}

static inline void put_tensor(bt_buf *b, const char *name, int n_dims, const uint64_t *extents,
                              uint32_t type, uint64_t offset)
{
    put_str(b, name);
    put(b, (uint64_t)n_dims, 4);
    for (int i = 0; i < n_dims; i++) {
        put(b, extents[i], 8);
    }
    put(b, type, 4);
    put(b, offset, 8);
}

static inline void pad(bt_buf *b, size_t unit)
{
    while (b->n % unit != 0) {
        bt_buf_push_char(b, '\0');
    }
}

/* A whole safetensors file: header text, then n_data bytes 0, 1, 2, … */
static inline void put_safetensors(bt_buf *b, const char *header, size_t n_data)
{
    bt_buf_clear(b);
    put_str(b, header);
    for (size_t i = 0; i < n_data; i++) {
        bt_buf_push_char(b, (char)i);
    }
}

#endif
