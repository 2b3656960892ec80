/* SPDX-License-Identifier: MIT */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *bt_status_name(bt_status status)
{
    static const char *const names[BT_STATUS_COUNT] = {
        [BT_OK] = "ok",
        [BT_E_INVALID] = "invalid",
        [BT_E_FORMAT] = "format",
        [BT_E_UNSUPPORTED] = "unsupported",
        [BT_E_NOT_FOUND] = "not found",
        [BT_E_NO_MEMORY] = "out of memory",
        [BT_E_IO] = "input/output",
        [BT_E_LIMIT] = "limit",
        [BT_E_BUSY] = "busy",
        [BT_E_TOO_LONG] = "too long",
        [BT_E_STOPPING] = "stopping",
        [BT_E_INTERNAL] = "internal",
    };
    return (unsigned)status < BT_STATUS_COUNT ? names[status] : "unknown";
}

/* Drops an incomplete UTF-8 character at the end of a message that vsnprintf has cut. */
static void trim_utf8(char *text)
{
    size_t n = strlen(text);
    size_t back = 0;
    while (back < 3 && back < n && ((unsigned char)text[n - 1 - back] & 0xC0) == 0x80) {
        back++;
    }
    if (back == n) {
        return;
    }
    unsigned char lead = (unsigned char)text[n - 1 - back];
    size_t need = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
    if (back < need) {
        text[n - 1 - back] = '\0';
    }
}

/* Bytes of the well-formed UTF-8 character at p, 0: none begins there. */
static size_t character_bytes(const unsigned char *p)
{
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (p[0] > 0xF4) {
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80) { /* the NUL at the end is none either */
            return 0;
        }
    }
    bool overlong = (p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xF0 && p[1] < 0x90);
    bool outside = (p[0] == 0xED && p[1] > 0x9F) || (p[0] == 0xF4 && p[1] > 0x8F);
    return overlong || outside ? 0 : n;
}

/* Messages quote files and requests: whatever those hold, a message is one line of UTF-8. */
static void make_printable(char *text)
{
    unsigned char *p = (unsigned char *)text;
    while (*p != '\0') {
        size_t n = character_bytes(p);
        if (n == 0 || *p < 0x20 || *p == 0x7F) {
            *p = '?';
            n = 1;
        }
        p += n;
    }
}

static bt_status fill(bt_err *err, bt_status status, int64_t position, const char *param,
                      const char *format, va_list args)
{
    BT_ASSERT(status != BT_OK);
    if (err == NULL) {
        return status;
    }
    /* The arguments may point into *err itself (a message wrapped in another). */
    char text[BT_ERR_MESSAGE_MAX];
    if (vsnprintf(text, sizeof text, format, args) >= (int)sizeof text) {
        trim_utf8(text);
    }
    make_printable(text);
    err->code = status;
    err->position = position;
    snprintf(err->param, sizeof err->param, "%s", param);
    memcpy(err->message, text, sizeof text);
    return status;
}

bt_status bt_fail(bt_err *err, bt_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fill(err, status, -1, "", format, args);
    va_end(args);
    return status;
}

bt_status bt_fail_at(bt_err *err, bt_status status, int64_t position, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fill(err, status, position, "", format, args);
    va_end(args);
    return status;
}

bt_status bt_fail_param(bt_err *err, bt_status status, const char *param, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fill(err, status, -1, param, format, args);
    va_end(args);
    return status;
}

void bt_err_prefix(bt_err *err, const char *format, ...)
{
    if (err == NULL) {
        return;
    }
    char prefix[BT_ERR_MESSAGE_MAX];
    char text[2 * BT_ERR_MESSAGE_MAX + 2];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof prefix, format, args);
    va_end(args);
    snprintf(text, sizeof text, "%s: %s", prefix, err->message);
    if (strlen(text) >= sizeof err->message) {
        text[sizeof err->message - 1] = '\0';
        trim_utf8(text);
    }
    make_printable(text);
    memcpy(err->message, text, strlen(text) + 1);
}
