/* SPDX-License-Identifier: MIT
 *
 * mapfile.h: a file as read-only memory.
 *
 * A file that shrinks while it is mapped raises SIGBUS on access, as with every mmap; betoken reads
 * weights once, at load. */
#ifndef BT_BASE_MAPFILE_H
#define BT_BASE_MAPFILE_H

#include "base/status.h"

typedef struct bt_mapfile {
    const unsigned char *p; /* NULL for an empty file */
    size_t n;
} bt_mapfile;

/* Maps a regular file. Errors name the path: BT_E_NOT_FOUND, BT_E_IO, BT_E_INVALID (a directory). */
bt_status bt_mapfile_open(const char *path, bt_mapfile *out, bt_err *err) BT_MUST_USE;
/* A zeroed bt_mapfile is allowed. */
void bt_mapfile_close(bt_mapfile *file);
/* Tells the system that these bytes will not be read again; whole pages inside the range only. */
void bt_mapfile_drop(const bt_mapfile *file, size_t offset, size_t n);

/* Reads a whole small file of at most `max` bytes; *text is NUL-terminated, free with bt_mem_free. */
bt_status bt_mapfile_read(const char *path, size_t max, char **text, size_t *n,
                          bt_err *err) BT_MUST_USE;

#endif
