/* SPDX-License-Identifier: MIT */
#include "base/mapfile.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bt_status open_regular(const char *path, int *fd, size_t *size, bt_err *err)
{
    int f = open(path, O_RDONLY | O_CLOEXEC);
    if (f < 0) {
        int why = errno;
        return bt_fail(err, why == ENOENT || why == ENOTDIR ? BT_E_NOT_FOUND : BT_E_IO, "%s: %s",
                       path, strerror(why));
    }
    struct stat st;
    if (fstat(f, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(f);
        return bt_fail(err, BT_E_INVALID, "%s: not a regular file", path);
    }
    *fd = f;
    *size = (size_t)st.st_size;
    return BT_OK;
}

bt_status bt_mapfile_open(const char *path, bt_mapfile *out, bt_err *err)
{
    int fd;
    size_t n;
    BT_TRY(open_regular(path, &fd, &n, err));
    if (n == 0) {
        close(fd);
        *out = (bt_mapfile){0};
        return BT_OK;
    }
    void *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    int why = errno;
    close(fd);
    if (p == MAP_FAILED) {
        return bt_fail(err, BT_E_IO, "%s: cannot map %zu bytes: %s", path, n, strerror(why));
    }
    *out = (bt_mapfile){.p = p, .n = n};
    return BT_OK;
}

void bt_mapfile_close(bt_mapfile *file)
{
    if (file->p != NULL) {
        munmap((void *)(uintptr_t)file->p, file->n);
    }
    *file = (bt_mapfile){0};
}

void bt_mapfile_drop(const bt_mapfile *file, size_t offset, size_t n)
{
    BT_ASSERT(offset <= file->n && n <= file->n - offset);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t begin = BT_ROUND_UP(offset, page), end = (offset + n) / page * page;
    if (begin < end) {
        madvise((void *)(uintptr_t)(file->p + begin), end - begin, MADV_DONTNEED);
    }
}

bt_status bt_mapfile_read(const char *path, size_t max, char **text, size_t *n, bt_err *err)
{
    int fd;
    size_t size;
    BT_TRY(open_regular(path, &fd, &size, err));
    char *p = NULL;
    bt_status status = BT_OK;
    if (size > max) {
        status =
            bt_fail(err, BT_E_LIMIT, "%s: %zu bytes, more than the limit of %zu", path, size, max);
        goto done;
    }
    p = bt_mem_alloc(BT_MEM_FILE, size + 1);
    if (p == NULL) {
        status = bt_fail(err, BT_E_NO_MEMORY, "%s: no memory for %zu bytes", path, size);
        goto done;
    }
    size_t got = 0;
    while (got < size) {
        ssize_t r = read(fd, p + got, size - got);
        if (r < 0 && errno == EINTR) {
            continue;
        }
        if (r <= 0) {
            status = bt_fail(err, BT_E_IO, "%s: %s", path, r < 0 ? strerror(errno) : "shrank");
            bt_mem_free(p);
            goto done;
        }
        got += (size_t)r;
    }
    p[size] = '\0';
    *text = p;
    *n = size;
done:
    close(fd);
    return status;
}
