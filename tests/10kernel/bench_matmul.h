/* SPDX-License-Identifier: MIT
 *
 * bench_matmul.h: speed of the packed matmul. */
#ifndef BENCH_MATMUL_H
#define BENCH_MATMUL_H

/* Prints for each format and size GB/s at one row and the time of 2, 4, 8, … rows over that of
 * one. only: the name of one format, NULL: all. Returns the exit status. */
int bench_matmul(int n_threads, const char *only);

#endif
