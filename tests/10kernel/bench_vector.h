/* SPDX-License-Identifier: MIT
 *
 * bench_vector.h: the part of checkkernel_vector that measures. */
#ifndef BT_TESTS_BENCH_VECTOR_H
#define BT_TESTS_BENCH_VECTOR_H

#include "base/status.h"
#include "tensor/dtype.h"

/* Prints the time of every operation but the matrix products, at the shapes of a 135M model. */
bt_status bench_vector(int n_threads, bt_dtype dtype, bt_err *err) BT_MUST_USE;

#endif
