/* SPDX-License-Identifier: MIT
 *
 * base.h: compiler attributes, checked arithmetic and assertions.
 *
 * BT_ASSERT stays on in release builds. It states what the program itself guarantees; data from
 * outside (a file, a socket, JSON, the environment) is checked and returned as an error instead. */
#ifndef BT_BASE_BASE_H
#define BT_BASE_BASE_H

#include <assert.h> /* static_assert only */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BT_MUST_USE __attribute__((warn_unused_result))
#define BT_NORETURN __attribute__((noreturn))
#define BT_PRINTF(fmt_idx, arg_idx) __attribute__((format(printf, fmt_idx, arg_idx)))
#define BT_INLINE static inline __attribute__((always_inline))
#define BT_NOINLINE __attribute__((noinline))
#define BT_LIKELY(x) __builtin_expect(!!(x), 1)
#define BT_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define BT_CACHE_LINE 64

#define BT_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define BT_MIN(a, b) ((a) < (b) ? (a) : (b))
#define BT_MAX(a, b) ((a) > (b) ? (a) : (b))
/* Smallest multiple of `unit` that is >= x; unit > 0. */
#define BT_ROUND_UP(x, unit) (((x) + (unit)-1) / (unit) * (unit))

/* Prints file, line and expression to stderr and aborts. */
BT_NORETURN void bt_assert_fail(const char *file, int line, const char *expr);

#define BT_ASSERT(expr) (BT_LIKELY(expr) ? (void)0 : bt_assert_fail(__FILE__, __LINE__, #expr))
#ifdef BT_DEBUG
#define BT_DEBUG_ASSERT(expr) BT_ASSERT(expr)
#else
#define BT_DEBUG_ASSERT(expr) ((void)0)
#endif

/* *out = a * b (a + b); false and *out untouched when the result does not fit. */
BT_INLINE bool bt_mul_ok(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) {
        return false;
    }
    *out = r;
    return true;
}

BT_INLINE bool bt_add_ok(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_add_overflow(a, b, &r)) {
        return false;
    }
    *out = r;
    return true;
}

#endif
