/* SPDX-License-Identifier: MIT
 *
 * real.c: shortest round-trip digits by trial: 15 significant digits identify every shorter decimal,
 * 17 identify every double. Subnormal numbers have fewer bits and are tried from one digit up. */
#include "text/real.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_MAX = 17, TRIAL_MAX = 48 };

/* The significant digits of a finite positive value without trailing zeros; *exp10 is the decimal
 * exponent of the first one. Returns how many. The point that printf writes depends on the locale:
 * everything that is no digit is skipped. */
static int digits_of(double value, char digits[DIGITS_MAX], int *exp10)
{
    char trial[TRIAL_MAX];
    int precision = value < DBL_MIN ? 1 : 15;
    for (;; precision++) {
        int len = snprintf(trial, sizeof trial, "%.*e", precision - 1, value);
        BT_ASSERT(len > 0 && (size_t)len < sizeof trial);
        if (precision == DIGITS_MAX || strtod(trial, NULL) == value) {
            break;
        }
    }
    int n = 0;
    const char *p = trial;
    for (; *p != 'e'; p++) {
        if (*p >= '0' && *p <= '9') {
            digits[n++] = *p;
        }
    }
    *exp10 = (int)strtol(p + 1, NULL, 10);
    while (n > 1 && digits[n - 1] == '0') {
        n--;
    }
    return n;
}

static char *put_plain(char *out, const char *digits, int n, int exp10)
{
    if (exp10 < 0) {
        *out++ = '0';
        *out++ = '.';
        for (int i = -1; i > exp10; i--) {
            *out++ = '0';
        }
    }
    for (int i = 0; i < n; i++) {
        *out++ = digits[i];
        if (i == exp10) {
            *out++ = '.';
        }
    }
    for (int i = n; i <= exp10; i++) {
        *out++ = '0';
        if (i == exp10) {
            *out++ = '.';
        }
    }
    if (out[-1] == '.') {
        *out++ = '0';
    }
    return out;
}

size_t bt_real_format(double value, char out[BT_REAL_TEXT_MAX])
{
    if (!isfinite(value)) {
        strcpy(out, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return strlen(out);
    }
    char *p = out;
    if (signbit(value)) {
        *p++ = '-';
        value = -value;
    }
    char digits[DIGITS_MAX] = {'0'};
    int exp10 = 0;
    int n = value == 0 ? 1 : digits_of(value, digits, &exp10);
    if (exp10 >= -4 && exp10 < 16) {
        p = put_plain(p, digits, n, exp10);
    } else {
        *p++ = digits[0];
        if (n > 1) {
            *p++ = '.';
            memcpy(p, digits + 1, (size_t)n - 1);
            p += n - 1;
        }
        size_t room = BT_REAL_TEXT_MAX - (size_t)(p - out);
        p += snprintf(p, room, "e%c%02d", exp10 < 0 ? '-' : '+', abs(exp10));
    }
    *p = '\0';
    BT_ASSERT(p - out < BT_REAL_TEXT_MAX);
    return (size_t)(p - out);
}
