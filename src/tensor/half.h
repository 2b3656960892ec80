/* SPDX-License-Identifier: MIT
 *
 * half.h: 16-bit floats to and from f32, exact in one direction and round-to-nearest-even in the
 * other. Plain C for the reference and the loader; kernels use the CPU's own conversions, which
 * give the same bits. */
#ifndef BT_TENSOR_HALF_H
#define BT_TENSOR_HALF_H

#include "base/base.h"

#include <string.h>

BT_INLINE uint32_t bt_f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

BT_INLINE float bt_f32_from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

BT_INLINE float bt_bf16_to_f32(uint16_t h)
{
    return bt_f32_from_bits((uint32_t)h << 16);
}

BT_INLINE uint16_t bt_f32_to_bf16(float f)
{
    uint32_t u = bt_f32_bits(f);
    if ((u & 0x7FFFFFFFu) > 0x7F800000u) {
        return (uint16_t)(u >> 16 | 0x40); /* quiet NaN */
    }
    return (uint16_t)((u + 0x7FFFu + (u >> 16 & 1)) >> 16);
}

BT_INLINE float bt_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = h >> 10 & 0x1Fu, mantissa = h & 0x3FFu;
    if (exponent == 0) { /* zero and subnormals: mantissa * 2^-24 is exact in f32 */
        float f = (float)mantissa * 0x1p-24f;
        return bt_f32_from_bits(bt_f32_bits(f) | sign);
    }
    if (exponent == 31) {
        return bt_f32_from_bits(sign | 0x7F800000u | mantissa << 13);
    }
    return bt_f32_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

BT_INLINE uint16_t bt_f32_to_f16(float f)
{
    uint32_t u = bt_f32_bits(f), sign = u >> 16 & 0x8000u;
    u &= 0x7FFFFFFFu;
    if (u > 0x7F800000u) {
        return (uint16_t)(sign | 0x7E00u | (u >> 13 & 0x3FFu)); /* NaN keeps its top bits */
    }
    if (u >= 0x477FF000u) {
        return (uint16_t)(sign | 0x7C00u); /* rounds to infinity */
    }
    if (u < 0x38800000u) { /* subnormal in f16: let the FPU round at 2^-24 */
        float r = bt_f32_from_bits(u) + 0.5f;
        return (uint16_t)(sign | (bt_f32_bits(r) - 0x3F000000u));
    }
    u += 0xFFFu + (u >> 13 & 1);
    return (uint16_t)(sign | (u - 0x38000000u) >> 13);
}

#endif
