/* SPDX-License-Identifier: MIT
 *
 * The one place below cmd/ that prints and stops: a broken promise of the program itself. */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

void bt_assert_fail(const char *file, int line, const char *expr)
{
    fprintf(stderr, "betoken: internal error at %s:%d: %s does not hold; please report this\n",
            file, line, expr);
    abort();
}
