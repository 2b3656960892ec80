/* SPDX-License-Identifier: MIT
 *
 * exp_avx512.h: exp of 16 floats, for the AVX-512 kernels only.
 *
 * x = n ln2 + r with n whole and |r| <= ln2 / 2 (ln2 in two pieces, Cody and Waite), e^r = 1 + r +
 * r^2 q(r) with q of degree 4 through the Chebyshev nodes of that interval (relative error 1.1e-8
 * before rounding), then scaling by 2^n, which also makes subnormals, 0 and infinity. Within 1.8e-7
 * of e^x where that is a normal number (checkkernel_vector); exp(0) is 1, NaN stays NaN. */
#ifndef BT_KERNEL_X86_EXP_AVX512_H
#define BT_KERNEL_X86_EXP_AVX512_H

#include "base/base.h"

#include <immintrin.h>

BT_INLINE __m512 bt_exp_avx512(__m512 x)
{
    /* Beyond these the result is 0 or infinity anyway; the order of operands lets NaN through. */
    x = _mm512_min_ps(_mm512_set1_ps(128.0f), x);
    x = _mm512_max_ps(_mm512_set1_ps(-128.0f), x);
    enum { nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(0x1.715476p+0f)), nearest);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e4p-1f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.7f7d1cp-20f), r);
    __m512 q = _mm512_set1_ps(0x1.6d1186p-10f);
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0x1.120becp-7f));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0x1.555518p-5f));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0x1.5554dcp-3f));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0.5f));
    __m512 r2 = _mm512_mul_ps(r, r);
    return _mm512_scalef_ps(_mm512_add_ps(_mm512_fmadd_ps(q, r2, r), _mm512_set1_ps(1.0f)), n);
}

/* The sum of 16 lanes in one fixed tree: distance 8, 4, 2, 1. */
BT_INLINE float bt_sum_avx512(__m512 v)
{
    v = _mm512_add_ps(v, _mm512_shuffle_f32x4(v, v, 0x4E));
    v = _mm512_add_ps(v, _mm512_shuffle_f32x4(v, v, 0xB1));
    v = _mm512_add_ps(v, _mm512_permute_ps(v, 0x4E));
    v = _mm512_add_ps(v, _mm512_permute_ps(v, 0xB1));
    return _mm512_cvtss_f32(v);
}

/* The first n lanes, n >= 0. */
BT_INLINE __mmask16 bt_mask_avx512(size_t n)
{
    return (__mmask16)(n >= 16 ? 0xFFFFu : (1u << n) - 1);
}

#endif
